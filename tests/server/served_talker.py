"""What the servers of the tests serve: an agent that looks, asks before it pays, and tells.

Its model answers by what the conversation holds, not by how often it was asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from awaken import Agent, tool
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role

PACE = float(os.environ.get("TALKER_PACE", "0"))
_CALLS = {0: ("look", '{"at": 1}'), 1: ("pay", '{"amount": 500}')}


@tool(effect="read")
async def look(at: int) -> str:
    """Looks."""
    return f"saw {at}"


@tool(effect="idempotent", needs_approval=True)
async def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


class Talker:
    """Says a few words, and calls a tool while there is one that it has not called."""

    name = "talker"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        done = sum(message.role is Role.TOOL for message in request.messages)
        for word in ("so ", "I ", "say ", f"{done}"):
            await asyncio.sleep(PACE)
            yield TextDelta(delta=word)
        if done in _CALLS:
            name, arguments = _CALLS[done]
            yield ToolCallStart(id=f"c{done}", name=name)
            yield ToolCallDelta(id=f"c{done}", args_delta=arguments)
        yield Stop(reason=StopReason.TOOL_USE if done in _CALLS else StopReason.END_TURN)


agents = [Agent("talker", model=Talker(), tools=[look, pay])]
