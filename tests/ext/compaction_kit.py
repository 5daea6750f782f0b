"""Agents that talk at length, and a summariser that answers when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from awaken import Agent, Message, Runtime
from awaken.core.budget import Price
from awaken.core.event import ActivitySnapshot, RunEvent
from awaken.core.inference import ContextWindowPolicy, StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest
from awaken.core.message import Text
from awaken.core.store.store import Store
from awaken.ext.compaction import COMPACTION, CompactionState
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response
from awaken.testing.models import FunctionAnswer

LONG = "word " * 300
"""Nearly four hundred tokens."""


class Summariser(FunctionModel):
    """Summarises at once, unless it is held; knows what it was asked."""

    def __init__(self, text: str | Exception = "They talked.") -> None:
        super().__init__(self._answer, name="summariser")
        self.text = text
        self.requests: list[InferenceRequest] = []
        self.asked, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def _answer(self, request: InferenceRequest) -> StreamResult:
        self.requests.append(request)
        self.asked.set()
        await self.free.wait()
        if isinstance(self.text, Exception):
            raise self.text
        return text_response(self.text, TokenUsage(prompt_tokens=700, completion_tokens=50))

    def prompt(self, number: int = -1) -> str:
        return self.requests[number].messages[0].text()


class Chat:
    """One thread of an agent that begins to summarise at about three turns."""

    def __init__(
        self,
        summariser: Summariser | None = None,
        *,
        store: Store | None = None,
        answer: Callable[[InferenceRequest], FunctionAnswer] = lambda _: LONG,
        section: Mapping[str, Any] | None = None,
        policy: ContextWindowPolicy | None = None,
        prices: Mapping[str, Price] | None = None,
        **agent: Any,
    ) -> None:
        self.summariser = summariser or Summariser()
        self.store = store or MemoryStore()
        self.requests: list[InferenceRequest] = []
        self.policy = policy or ContextWindowPolicy.of(
            20_000, max_output_tokens=1_000, min_recent_messages=2, compact_at=0.1
        )
        self._answer, self._agent, self._prices = answer, agent, prices or {}
        self._section = {"summary_model": "summariser", **(section or {})}
        self.events: list[RunEvent] = []
        self.runtime = self.open()

    def open(self) -> Runtime:
        """A runtime on the store, as another process would have one."""
        agent = Agent(
            "a",
            model=FunctionModel(self._heard),
            context_policy=self.policy,
            sections={"compaction": self._section},
            **self._agent,
        )
        models = {"summariser": self.summariser}
        return Runtime([agent], store=self.store, models=models, prices=self._prices, recover=False)

    def _heard(self, request: InferenceRequest) -> FunctionAnswer:
        self.requests.append(request)
        return self._answer(request)

    async def say(self, text: str = LONG, thread: str = "t") -> None:
        async with self.runtime.stream("a", text, thread=thread) as events:
            self.events += [event async for event in events]

    async def say_until_asked(self) -> None:
        """Talk until a summary is asked for."""
        for number in range(10):
            if self.summariser.asked.is_set():
                return
            await self.say(f"{number} {LONG}")
            await settle()
        raise AssertionError("nobody asked for a summary")

    def told(self, event_type: str) -> list[Any]:
        """What clients were told of a kind."""
        return [
            event.event.content
            for event in self.events
            if isinstance(event.event, ActivitySnapshot) and event.event.activity_type == event_type
        ]

    async def state(self, thread: str = "t") -> CompactionState:
        known = (await self.store.load_thread_state(thread)).extensions.get(COMPACTION.name)
        return CompactionState() if known is None else COMPACTION.load(known)

    async def log(self, thread: str = "t") -> list[Message]:
        return list(await self.store.load_messages(thread))


async def settle() -> None:
    """Let whatever is ready go on."""
    for _ in range(20):
        await asyncio.sleep(0)


def shown(request: InferenceRequest) -> list[str]:
    """The first words of each message of a request."""
    return [message.text()[:24] for message in request.messages]


def prompt_of(request: InferenceRequest) -> str:
    return "".join(block.text for block in request.system if isinstance(block, Text))
