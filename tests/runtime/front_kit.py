"""What the front door's tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from awaken import Agent, Message, Registrar, Runtime, tool
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.testing import FunctionModel


class Piece:
    """A plugin: its id, and what it tells the registrar, part by part."""

    def __init__(self, id: str, *parts: Callable[[Registrar], None]) -> None:
        self.id = id
        self._parts = parts

    def register(self, registrar: Registrar) -> None:
        for part in self._parts:
            part(registrar)


def told(messages: Sequence[Message]) -> list[str]:
    """The texts, each behind its role."""
    return [f"{message.role.value}: {message.text()}" for message in messages]


class Held:
    """An agent whose model says a word, then waits until it is let go."""

    def __init__(self, **options: Any) -> None:
        self.speaking = asyncio.Event()
        self.let_go = asyncio.Event()
        self.stopped = False
        self.agent = Agent("held", model=FunctionModel(self._speak))
        self.runtime = Runtime([self.agent], **options)

    async def _speak(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        try:
            yield TextDelta(delta="well")
            self.speaking.set()
            await self.let_go.wait()
            yield TextDelta(delta=", done")
            yield Stop(reason=StopReason.END_TURN)
        except BaseException:
            self.stopped = True
            raise


@tool(needs_approval=True)
async def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"
