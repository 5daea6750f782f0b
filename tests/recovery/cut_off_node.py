"""A node whose network to Postgres is cut by a proxy that swallows everything: 06/CL-8.

    python tests/recovery/cut_off_node.py --runs 50

The node owns all the runs when it is cut off, in the middle of their calls. Another node takes them
over when the lease is over, and ends them. The first one must begin no effect after its lease, by
its own clock; when the network is back, none of the runs that it has lost; and it takes new work.
If the network never comes back, it leaves every run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.event import RunFinish
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.value import Value
from awaken.testing import FunctionModel, text_response, tool_call_response
from postgres_kit import Postgres, running_postgres
from postgres_wire import wired

CALLS = 4


class Begun(Value, frozen=True, kw_only=True):
    """An effect that a node has begun: a call, or a question to the model."""

    node: str
    thread_id: str
    key: str
    at: float


class Figures(Value, frozen=True, kw_only=True):
    """What came of one cut."""

    runs: int
    taken_over: int
    ended: int
    """Runs that have ended once, with their answer."""
    doubled: int
    late: int
    """Effects that the node began between the end of its lease and the end of the cut, and those of
    runs that it had lost after that."""
    left: int
    """Runs that the node still had when all had ended elsewhere and its patience was over."""
    has_new_work: bool


class World:
    """What the nodes do outside."""

    def __init__(self, pause: float) -> None:
        self.begun: list[Begun] = []
        self.cut = asyncio.Event()
        """Set when the node is cut off: before, no run gets further than its first call."""
        self._pause = pause

    def agent(self, node: str) -> Agent:
        @tool
        async def work(number: int, ctx: ToolCallContext) -> str:
            """Take a moment."""
            self._note(node, ctx.run_identity.thread_id, ctx.idempotency_key)
            await self.cut.wait()
            await asyncio.sleep(self._pause)
            return f"worked {number}"

        def answer(request: InferenceRequest) -> StreamResult:
            told = sum(message.role is Role.TOOL for message in request.messages)
            key = request.routing_key
            assert key is not None
            self._note(node, key.thread_id or "", "")
            if told >= CALLS:
                return text_response("done")
            return tool_call_response("", "work", f"c{told}", {"number": told})

        return Agent("worker", model=FunctionModel(answer), tools=[work])

    def _note(self, node: str, thread_id: str, key: str) -> None:
        at = time.monotonic()
        self.begun.append(Begun(node=node, thread_id=thread_id, key=key, at=at))

    def calls(self, node: str = "") -> list[Begun]:
        return [one for one in self.begun if one.key and one.node in (node or one.node)]


async def cut_off(
    postgres: Postgres, *, runs: int, lease: float, seconds: float | None, pause: float = 0.3
) -> Figures:
    """
    Args:
        seconds: how long the node is cut off; `None` for ever.
    """
    world, threads = World(pause), [f"t{number}" for number in range(runs)]
    async with wired(postgres.dsn) as (wire, _):
        plain = postgres.address(lease=lease)
        through = plain.replace(f":{postgres.port}/", f":{wire.port}/") + "&sslmode=disable"
        async with (
            Runtime([world.agent("outside")], store=plain, recover=False) as outside,
            Runtime([world.agent("first")], store=through, on_close="leave") as first,
        ):
            for thread in threads:
                await outside.submit("worker", "work", thread=thread)
            await _until(lambda: len({one.thread_id for one in world.calls()}) == runs)
            wire.swallow()
            world.cut.set()
            cut = time.monotonic()
            async with Runtime([world.agent("second")], store=plain) as second:
                await _until_done(second, threads)
                if seconds is None:
                    await _until(lambda: not first.live_runs)
                    back = time.monotonic()
                else:
                    await asyncio.sleep(max(0.0, cut + seconds - time.monotonic()))
                    back = time.monotonic()
                    wire.flow()
                    await _until(lambda: first.store.lease.held and not first.live_runs)
            # Now nobody else is there to do it.
            has_new_work = False
            if seconds is not None:
                await outside.submit("worker", "work", thread="new")
                await _until_done(outside, ["new"])
                has_new_work = any(one.thread_id == "new" for one in world.calls("first"))
            figures = Figures(
                runs=runs,
                taken_over=len({one.thread_id for one in world.calls("second")} - {"new"}),
                ended=sum([await _has_ended(outside, thread) for thread in threads]),
                doubled=len(world.calls()) - len({one.key for one in world.calls()}),
                late=sum(
                    one.node == "first"
                    and (cut + lease < one.at < back or (one.at > back and one.thread_id != "new"))
                    for one in world.begun
                ),
                left=first.live_runs,
                has_new_work=has_new_work,
            )
            wire.flow()
            return figures


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _until_done(runtime: Runtime, threads: list[str]) -> None:
    for thread in threads:
        while True:
            run = await runtime.store.latest_run(thread)
            if run is not None and run.status is RunStatus.DONE:
                break
            await asyncio.sleep(0.05)


async def _has_ended(runtime: Runtime, thread: str) -> bool:
    events = [event.event async for event in runtime.events(thread, follow=False)]
    run = await runtime.store.latest_run(thread)
    ends = sum(isinstance(event, RunFinish) for event in events)
    return ends == 1 and run is not None and run.final_output == "done"


def is_right(figures: Figures, *, comes_back: bool) -> bool:
    wrong = figures.doubled + figures.late + figures.left + figures.runs - figures.ended
    return wrong == 0 and figures.taken_over > 0 and figures.has_new_work == comes_back


async def main(runs: int) -> int:
    wrong = 0
    with running_postgres() as server:
        for seconds in (10.0, None):
            figures = await cut_off(server, runs=runs, lease=3, seconds=seconds)
            name = f"{seconds:g} s" if seconds is not None else "ever"
            print(f"cut off for {name}: {figures}", flush=True)
            wrong += not is_right(figures, comes_back=seconds is not None)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    sys.exit(asyncio.run(main(parser.parse_args().runs)))
