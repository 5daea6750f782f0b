"""How long it takes until a run hears what another node has to say to it.

    python tests/recovery/across_nodes.py --times 200 --nats

Two nodes on one Postgres: one runs agents, the other one cancels them, answers their questions and
writes to them. Measured is the time from the call on the one node until the run on the other does
what it is told.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "stores")]

from nats_kit import open_server  # noqa: E402

from awaken import Agent, Runtime, tool  # noqa: E402
from awaken.core.inference import StreamResult  # noqa: E402
from awaken.core.llm import InferenceRequest  # noqa: E402
from awaken.core.message import Role  # noqa: E402
from awaken.core.store.threads import TicketQuery  # noqa: E402
from awaken.testing import FunctionModel, text_response, tool_call_response  # noqa: E402
from postgres_kit import Postgres, running_postgres  # noqa: E402
from postgres_wire import wired  # noqa: E402

WORD = "Stop ticking."


class Nodes:
    """The two nodes. `busy` is set by a run that can be spoken to."""

    def __init__(self) -> None:
        self.busy = asyncio.Event()
        self.owner: Runtime
        self.other: Runtime
        self._heard_at: asyncio.Future[float]

    def _hear(self) -> None:
        if not self._heard_at.done():
            self._heard_at.set_result(time.perf_counter())

    def agents(self) -> list[Agent]:
        @tool
        async def sit() -> str:
            """Sit until the run is cancelled."""
            self.busy.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._hear()
            return "never"

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            self._hear()
            return "paid"

        @tool(effect="read")
        async def tick() -> str:
            """Wait a moment."""
            self.busy.set()
            await asyncio.sleep(0.002)
            return "tick"

        def asks_for(name: str) -> FunctionModel:
            def answer(request: InferenceRequest) -> StreamResult:
                last = request.messages[-1]
                if last.role is Role.TOOL and name != "tick":
                    return text_response("done")
                if any(message.text() == WORD for message in request.messages):
                    self._hear()
                    return text_response("done")
                return tool_call_response("", name, f"c{len(request.messages)}", {})

            return FunctionModel(answer)

        tools = {"sit": sit, "pay": pay, "tick": tick}
        return [
            Agent(name, model=asks_for(name), tools=[it], max_rounds=0)
            for name, it in tools.items()
        ]

    async def cancel(self, thread: str) -> float:
        return await self._measure("sit", thread, self.busy.wait, lambda: self.other.cancel(thread))

    async def decide(self, thread: str) -> float:
        asked: dict[str, str] = {}

        async def is_asked() -> None:
            since = 0
            store = self.other.store
            while not (found := [*await store.list_tickets(TicketQuery(thread_id=thread))]):
                since = await store.wait_changed(thread, since)
            asked["key"] = found[0].key

        return await self._measure(
            "pay", thread, is_asked, lambda: self.other.decide(thread, {asked["key"]: True})
        )

    async def write(self, thread: str) -> float:
        return await self._measure(
            "tick", thread, self.busy.wait, lambda: self.other.send(thread, WORD)
        )

    async def _measure(
        self,
        agent: str,
        thread: str,
        ready: Callable[[], Awaitable[object]],
        tell: Callable[[], Awaitable[object]],
    ) -> float:
        """The seconds from telling a run of the owner something until it has heard."""
        self.busy.clear()
        self._heard_at = asyncio.get_running_loop().create_future()
        async with (
            self.owner.stream(agent, "Go!", thread=thread, wait=True) as events,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(_drain(events))
            await ready()
            began = time.perf_counter()
            await tell()
            return await self._heard_at - began


async def _drain(events: AsyncIterator[object]) -> None:
    async for _ in events:
        pass


@asynccontextmanager
async def two_nodes(owner: str, other: str, bus: str | None = None) -> AsyncIterator[Nodes]:
    """Two nodes by the addresses of their stores."""
    nodes = Nodes()
    async with (
        Runtime(nodes.agents(), store=owner, bus=bus) as nodes.owner,
        Runtime([], store=other, bus=bus, recover=False) as nodes.other,
    ):
        yield nodes


@asynccontextmanager
async def deaf_nodes(postgres: Postgres) -> AsyncIterator[Nodes]:
    """Two nodes of which none hears a hint: those of Postgres are lost on their way."""
    async with wired(postgres.dsn) as (wire, _):
        wire.loses_hints = True
        address = postgres.address()
        through = address.replace(f":{postgres.port}/", f":{wire.port}/") + "&sslmode=disable"
        async with two_nodes(through, address) as nodes:
            yield nodes


async def figures(nodes: Nodes, times: int, name: str) -> dict[str, list[float]]:
    """Milliseconds, sorted, by what is said."""
    found: dict[str, list[float]] = {}
    for what in ("cancel", "decide", "write"):
        say = getattr(nodes, what)
        found[what] = sorted([1000 * await say(f"{name}-{what}-{n}") for n in range(times)])
    return found


def shown(found: dict[str, list[float]]) -> str:
    """Median, 99 of 100, and worst."""
    return "; ".join(
        f"{what} {ms[len(ms) // 2]:.1f}, {ms[len(ms) * 99 // 100]:.1f}, {ms[-1]:.1f} ms"
        for what, ms in found.items()
    )


async def main(times: int) -> None:
    with running_postgres() as server, open_server() as nats:
        for name, bus in (("NOTIFY", None), ("NATS", nats.address())):
            address = server.address()
            async with two_nodes(address, address, bus) as nodes:
                print(f"{name}: {shown(await figures(nodes, times, name))}", flush=True)
        async with deaf_nodes(server) as nodes:
            print(f"no hint: {shown(await figures(nodes, max(times // 10, 1), 'deaf'))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    asyncio.run(main(parser.parse_args().times))
