"""Messages of other agents that come when a run is at its end, or before it has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.core.lifecycle import Phase
from awaken.core.llm import InferenceRequest
from awaken.core.spec import AgentSpec
from awaken.core.store.commits import NeverLost
from awaken.core.store.threads import ThreadContext
from awaken.core.task import DurableMessageRequest
from awaken.errors import AwakenError, StoreUnavailable
from awaken.plugin.registrar import Registrar
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel

pytestmark = pytest.mark.anyio

T = "t"


@pytest.fixture(autouse=True)
def never_looks_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NeverLost, "poll_interval", 3600)


async def write(runtime: Runtime) -> None:
    """Write to the agent of the thread as another agent does."""
    await runtime.engine.messages.deliver(
        DurableMessageRequest(
            message_id="m", recipient_thread_id=T, sender_agent_id="b", message="hello"
        )
    )
    for _ in range(20):
        await asyncio.sleep(0)  # everybody who listens hears of it, while the run is there


class Reader:
    """An agent's model that says when it has read the message; its answers may fail."""

    def __init__(self) -> None:
        self.fails = False
        self.has_read = asyncio.Event()

    def agent(self, **more: Any) -> Agent:
        return Agent("a", model=FunctionModel(self._answer), **more)

    def _answer(self, request: InferenceRequest) -> str:
        if any("hello" in message.text() for message in request.messages):
            self.has_read.set()
        elif self.fails:
            raise ValueError("the model broke")
        return "Done."


class AtTheEnd:
    """Does something once, when the first run is at its end."""

    id = "at-the-end"

    def __init__(self) -> None:
        self.does: Callable[[], Awaitable[None]] | None = None

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.RUN_END, self._end)

    def on_activate(self, spec: AgentSpec, batch: object) -> None: ...

    def on_deactivate(self, batch: object) -> None: ...

    async def _end(self, ctx: object) -> None:
        does, self.does = self.does, None
        if does is not None:
            await does()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_message_that_a_run_has_missed_is_read_however_the_run_ends(fails: bool) -> None:
    plugin, reader = AtTheEnd(), Reader()
    reader.fails = fails
    async with Runtime([reader.agent(plugins=[plugin])]) as runtime:
        plugin.does = lambda: write(runtime)
        try:
            await runtime.run("a", "Hi!", thread=T)
        except AwakenError:
            assert fails
        async with asyncio.timeout(100):
            await reader.has_read.wait()


class Unread(MemoryStore):
    """A store in which something happens while a thread is read, and then it cannot be read."""

    happens: Callable[[], Awaitable[None]] | None = None

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
            raise StoreUnavailable("not now")
        return await super().load_context(thread_id, tail=tail)


async def test_a_message_that_came_before_a_run_could_begin_is_read_though_it_did_not() -> None:
    store, reader = Unread(), Reader()
    async with Runtime([reader.agent()], store=store) as runtime:
        await runtime.run("a", "Hi!", thread=T)
        store.happens = lambda: write(runtime)
        with pytest.raises(AwakenError):
            await runtime.run("a", "And now?", thread=T)
        async with asyncio.timeout(100):
            await reader.has_read.wait()
