"""However much is wrong with a call, the model is told as much of it as it can use."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from pydantic import BaseModel
from tool_context import run_tool

from awaken import tool
from awaken.core.tool import ToolError
from awaken.tool import validate_against_schema

pytestmark = pytest.mark.anyio

LONG = "k" * 100_000


class Sheet(BaseModel, extra="forbid"):
    cells: list[int]
    named: dict[str, int] = {}


@tool
async def sheet(sheet: Sheet) -> str:
    return "ok"


@tool
async def both(sheet: Sheet, cells: list[int]) -> str:
    return "ok"


@tool
async def plain(cells: list[int], named: dict[str, int] | None = None) -> str:
    return "ok"


async def fault_text(of: Any, arguments: Any) -> str:
    message: str | None = (await run_tool(of, arguments)).result.message
    assert message is not None
    return message


async def test_twenty_faults_of_a_model_are_told() -> None:
    faults = (await fault_text(sheet, {"sheet": {"cells": ["a"] * 1000}})).split("; ")
    assert len(faults) == 21
    assert faults[19].startswith("sheet.cells[19]: ")
    assert faults[20] == "and more"
    faults = (await fault_text(sheet, {"sheet": {"cells": ["a"] * 20}})).split("; ")
    assert len(faults) == 20
    assert "and more" not in faults[-1]


async def test_a_million_faults_of_a_model_take_neither_seconds_nor_memory() -> None:
    tracemalloc.start()
    try:
        for count in (100_000, 1_000_000):
            message = await fault_text(sheet, {"sheet": {"cells": ["a"] * count}})
            assert ": send " in message
            assert "sheet: " in message
            assert len(message) < 200
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
    assert (await fault_text(sheet, {"sheet": {"cells": [1] * 99_999 + ["a"]}})).startswith(
        "Invalid arguments: sheet.cells[99999]: "
    )


async def test_faults_of_both_kinds_are_bounded() -> None:
    wrong = ["a"] * 1000
    assert len(await fault_text(both, {"sheet": {"cells": wrong}, "cells": wrong})) < 5_000


@pytest.mark.parametrize(
    ("of", "arguments"),
    [
        (plain, {LONG: 1, "cells": []}),
        (plain, {"cells": [], "named": {LONG: "x"}}),
        (sheet, {"sheet": {"cells": [], LONG: 1}}),
        (sheet, {"sheet": {"cells": [], "named": {LONG: "x"}}}),
        (both, {"sheet": {"cells": [], LONG: 1}, "cells": 1, LONG: 1}),
    ],
)
async def test_a_long_name_is_not_told_whole(of: Any, arguments: Any) -> None:
    message = await fault_text(of, arguments)
    assert message.startswith("Invalid arguments: ")
    assert len(message) < 1_500


def test_a_long_name_that_a_schema_forbids_is_not_told_whole() -> None:
    with pytest.raises(ToolError) as caught:
        validate_against_schema({"additionalProperties": {"type": "string"}}, {LONG: 1})
    assert len(str(caught.value)) < 1_500
