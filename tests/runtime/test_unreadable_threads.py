"""A thread that cannot be read keeps no other one from going on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import NeverLost
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio


class Odd(MemoryStore):
    """A store that cannot read the commands of one thread."""

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        if thread_id == "bad":
            raise ValueError("an odd row")
        return await super().load_commands(thread_id, skip=skip)


class Shop:
    """Two agents: one ships if it may, the other waits until it is let go."""

    def __init__(self) -> None:
        self.waits, self.go = asyncio.Event(), asyncio.Event()

    def runtime(self, store: MemoryStore, **more: Any) -> Runtime:
        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            self.waits.set()
            await self.go.wait()
            return "waited"

        @tool(needs_approval=True)
        async def ship() -> str:
            """Ship."""
            return "shipped"

        agents = [
            Agent(name, model=_calling(called.descriptor().id), tools=[called])
            for name, called in (("waiter", wait), ("shipper", ship))
        ]
        return Runtime(agents, store=store, **more)


def _calling(name: str) -> FunctionModel:
    def answer(request: InferenceRequest) -> StreamResult:
        if any(message.role is Role.TOOL for message in request.messages):
            return text_response("Done.")
        return tool_call_response("", name, "c1", {})

    return FunctionModel(answer)


async def all_hear() -> None:
    """Let everybody who listens hear what has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_run_that_is_answered_goes_on_though_another_thread_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NeverLost, "poll_interval", 3600)
    shop, store = Shop(), Odd()
    async with shop.runtime(store) as runtime, shop.runtime(store, recover=False) as elsewhere:
        asked = await runtime.run("shipper", "Go!", thread="good")
        bad = asyncio.ensure_future(runtime.run("waiter", "Go!", thread="bad"))
        await shop.waits.wait()
        await all_hear()  # that the run has paused
        await elsewhere.send("bad", "hello")
        await all_hear()
        await elsewhere.decide("good", {asked.tickets[0]: True})

        assert (await elsewhere.wait("good", timeout=250)).response == "Done."
        shop.go.set()
        await bad
