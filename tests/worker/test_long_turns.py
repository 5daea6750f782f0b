"""A long turn that was paused: what it was asked stays in sight when it goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import ContextWindowPolicy
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role
from awaken.testing import FunctionModel, text_response, tool_calls_response

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(k: int) -> str:
    """Look."""
    return "r" * 1000


@tool(needs_approval=True)
async def buy(k: int) -> str:
    """Buy."""
    return "bought"


async def test_what_was_asked_is_shown_after_an_approval_in_a_long_turn() -> None:
    requests: list[Sequence[Message]] = []

    def speak(request: InferenceRequest) -> object:
        requests.append(list(request.messages))
        if len(requests) == 1:
            return tool_calls_response("", *[("look", f"c{n}", {"k": n}) for n in range(130)])
        if len(requests) == 2:
            return tool_calls_response("", ("buy", "b", {"k": 1}))
        return text_response("done")

    policy = ContextWindowPolicy.of(20_000, max_output_tokens=200, min_recent_messages=2)
    model = FunctionModel(speak)  # type: ignore[arg-type]  # all are results
    agent = Agent("a", model=model, tools=[look, buy], context_policy=policy)
    async with Runtime([agent]) as runtime:
        paused = await runtime.run("a", "PLEASE", thread="t")
        result = await runtime.run(thread="t", answers={paused.tickets[0]: True})
    assert result.response == "done"
    shown = [m for m in requests[-1] if m.role is Role.USER]
    assert [m.text() for m in shown] == ["PLEASE"]
