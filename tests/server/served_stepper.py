"""What a server serves whose runs must last longer than a step: an agent whose model calls a tool
when the file `go` is there. A run that is left behind that step has not ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

from served_slow import Slow

from awaken import Agent, tool
from awaken.core.event import ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


class Stepper(Slow):
    """Begins an answer, and calls the tool when it may."""

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        async for event in super().execute_stream(request):
            if isinstance(event, Stop):
                yield ToolCallStart(id="c1", name="look")
                yield ToolCallDelta(id="c1", args_delta="{}")
                event = Stop(reason=StopReason.TOOL_USE)
            yield event


agent = Agent("slow", model=Stepper(), tools=[look])
