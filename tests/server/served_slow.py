"""What a server serves whose runs must last: an agent that answers when the file `go` is there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from awaken import Agent
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop

GO = Path(os.environ.get("GO", "go"))


class Slow:
    """Begins an answer, and ends it when it may."""

    name = "slow"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="wait… ")
        while not GO.exists():  # noqa: ASYNC110, ASYNC240 another process makes it
            await asyncio.sleep(0.01)
        yield TextDelta(delta="done")
        yield Stop(reason=StopReason.END_TURN)


agent = Agent("slow", model=Slow())
