"""A result says how its run went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from front_kit import Piece, pay

from awaken import Agent, Block, Budget, PhaseContext, Registrar, RunResult, Runtime, tool
from awaken.errors import RunNotOk
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(n: int) -> str:
    """Look."""
    return "nothing"


def looking() -> ScriptedModel:
    return ScriptedModel([tool_call_response("", "look", "c", {"n": 1}) for _ in range(9)])


def paying() -> ScriptedModel:
    return ScriptedModel([tool_call_response("", "pay", "c", {"n": 1}), "paid"])


async def refuse(ctx: PhaseContext) -> Block:
    return Block(reason="too dear")


def gate(registrar: Registrar) -> None:
    registrar.gate(refuse)


ENDINGS: dict[str, tuple[Callable[[], Any], str]] = {
    "rounds": (
        lambda: Agent("a", model=looking(), tools=[look], max_rounds=3),
        "stopped before it had finished: max_rounds (3 of 3 rounds); give the agent a higher",
    ),
    "budget": (
        lambda: Agent("a", model=looking(), tools=[look], budget=Budget(steps=1)),
        "stopped before it had finished: budget",
    ),
    "question": (
        lambda: Agent("a", model=paying(), tools=[pay]),
        "waits for answers to its tickets",
    ),
    "gate": (
        lambda: Agent("a", model=paying(), tools=[pay], plugins=[Piece("g", gate)]),
        "blocked: too dear",
    ),
    "type": (
        lambda: Agent("a", model=ScriptedModel(["x"] * 3), output=int, max_output_retries=0),
        "output_invalid",
    ),
}


@pytest.mark.parametrize("case", ENDINGS)
async def test_a_run_that_did_not_finish_is_not_ok_and_says_why(case: str) -> None:
    make, why = ENDINGS[case]
    async with Runtime([make()]) as runtime:
        result = await runtime.run("a", "go")
        read_again = await runtime.wait(result.run_id)

    assert not result.ok
    assert why in (result.reason or "")
    assert not read_again.ok
    with pytest.raises(RunNotOk) as raised:
        result.unwrap()
    assert raised.value.reason == result.reason
    with pytest.raises(RunNotOk):
        _ = result.output


async def test_a_run_that_finished_is_ok_and_gives_its_answer() -> None:
    async with Runtime([Agent("a", model=ScriptedModel(["hello"]))]) as runtime:
        result = await runtime.run("a", "go")

    assert (result.ok, result.reason) == (True, None)
    assert result.unwrap() == result.output == result.response == "hello"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("data", "read output"),
        ("final_output", "read output"),
        ("text", "read response"),
        ("all_messages", "read await runtime.messages(result.thread_id)"),
        ("respons", "read response"),
    ],
)
async def test_a_name_of_another_library_is_answered_with_ours(name: str, hint: str) -> None:
    """09/FD-20"""
    async with Runtime([Agent("a", model=ScriptedModel(["hello"]))]) as runtime:
        result: RunResult[str] = await runtime.run("a", "go")

    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as raised:
        getattr(result, name)
    assert hint in str(raised.value)
