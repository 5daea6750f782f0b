"""Integers that no float can hold are refused in our words, or cut to a limit."""

from __future__ import annotations

from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.core.budget import Budget, Price
from awaken.core.inference import InferenceOverride
from awaken.errors import AwakenError
from awaken.testing import ScriptedModel

ENDLESS = 10**399


@pytest.mark.parametrize("limit", ["tokens", "money", "seconds", "steps"])
async def test_an_endless_budget_is_refused_with_its_name(limit: str) -> None:
    endless: dict[str, Any] = {limit: ENDLESS}
    agent = Agent("a", model=ScriptedModel(["hi"]))
    async with Runtime([agent]) as runtime:
        with pytest.raises((AwakenError, ValueError), match=f"a budget's {limit}"):
            await runtime.run("a", "go", budget=Budget(**endless))


def test_an_endless_price_is_refused() -> None:
    with pytest.raises(ValueError, match="a price is 0 or more"):
        Price(input=ENDLESS, output=1)


@pytest.mark.parametrize("field", ["temperature", "top_p"])
async def test_an_endless_override_is_refused_with_its_name(field: str) -> None:
    endless: dict[str, Any] = {field: ENDLESS}
    agent = Agent("a", model=ScriptedModel(["hi"]))
    async with Runtime([agent]) as runtime:
        with pytest.raises((AwakenError, ValueError), match=field):
            await runtime.run("a", "go", settings=InferenceOverride(**endless))
