"""What servers serve that are replaced in the middle of an answer: an agent that says three words.
Each word but the first waits until the test makes a file with its name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from awaken import Agent
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role

SIGNALS = Path(os.environ.get("SIGNALS", "."))


class Teller:
    """Goes on behind the words that an earlier server has said."""

    name = "teller"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        said = "".join(m.text() for m in request.messages if m.role is Role.ASSISTANT)
        for word in ("one ", "two ", "three."):
            if word not in said:
                signal = SIGNALS / word.strip(" .")
                while word != "one " and not signal.exists():  # noqa: ASYNC110 another process makes it
                    await asyncio.sleep(0.01)
                yield TextDelta(delta=word)
        yield Stop(reason=StopReason.END_TURN)


agent = Agent("teller", model=Teller())
