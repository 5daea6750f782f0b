"""Reading a run message by message (09 §2.7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from front_kit import pay, told

from awaken import Agent, Message, Runtime, tool
from awaken.testing import (
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def stock(item: str) -> str:
    """The stock of an item."""
    return f"12 {item}"


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'a.db'}"


async def test_messages_come_whole_and_as_the_log_has_them(store: str) -> None:
    script = [
        tool_calls_response(
            "", ("stock", "c1", {"item": "lamps"}), ("stock", "c2", {"item": "cups"})
        ),
        text_response("Twelve lamps, twelve cups."),
        text_response("You are welcome."),
    ]
    agent = Agent("clerk", model=ScriptedModel(script, chunk=3), tools=[stock])
    async with Runtime([agent], store=store) as runtime:
        async with runtime.stream("clerk", "Lamps and cups?", thread="t") as events:
            first = [message async for message in events.messages()]
        assert events.result.ok
        async with runtime.stream("clerk", "Thanks!", thread="t") as events:
            second = [message async for message in events.messages()]
        log = await runtime.messages("t")

    assert told(first) == [
        "assistant: ",
        "tool: 12 lamps",
        "tool: 12 cups",
        "assistant: Twelve lamps, twelve cups.",
    ]
    assert told(second) == ["assistant: You are welcome."]
    assert [*first, *second] == [message for message in log if message.role.value != "user"]


async def test_an_answer_comes_while_its_call_still_works(store: str) -> None:
    asked = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait until the answer was read."""
        await asked.wait()
        return "waited"

    script = [tool_call_response("A moment.", "wait", "c1", {}), text_response("Done.")]
    async with Runtime(
        [Agent("a", model=ScriptedModel(script), tools=[wait])], store=store
    ) as runtime:
        seen: list[Message] = []
        async with runtime.stream("a", "go") as events:
            async for message in events.messages():
                seen.append(message)
                asked.set()

    assert told(seen) == ["assistant: A moment.", "tool: waited", "assistant: Done."]


async def test_messages_of_a_run_that_goes_on_are_not_repeated(store: str) -> None:
    script = [tool_call_response("", "pay", "c1", {"n": 5}), text_response("Paid.")]
    agent = Agent("a", model=ScriptedModel(script), tools=[pay])
    async with Runtime([agent], store=store) as runtime:
        async with runtime.stream("a", "Pay five", thread="t") as events:
            asked = [message async for message in events.messages()]
        ticket = events.result.tickets[0]
        async with runtime.stream("a", thread="t", answers={ticket: True}) as events:
            rest = [message async for message in events.messages()]

    assert told(asked) == ["assistant: "]
    assert told(rest) == ["tool: paid 5", "assistant: Paid."]


async def test_messages_of_delegates_are_left_out() -> None:
    clerk = Agent("clerk", model=ScriptedModel([text_response("Twelve.")]))
    script = [
        tool_call_response("", "agent_run_clerk", "c1", {"prompt": "Count."}),
        text_response("There are twelve."),
    ]
    boss = Agent("boss", model=ScriptedModel(script), delegates=[clerk])
    async with Runtime([boss]) as runtime, runtime.stream("boss", "How many?") as events:
        seen = [message async for message in events.messages()]

    assert [message.role.value for message in seen] == ["assistant", "tool", "assistant"]
    assert "Twelve." in seen[1].text()
    assert seen[2].text() == "There are twelve."
