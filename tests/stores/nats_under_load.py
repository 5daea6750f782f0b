"""06/CL-12: NATS is stopped and started again and again, under runs that another node follows.

    python tests/stores/nats_under_load.py                    50 threads, 10 outages
    python tests/stores/nats_under_load.py --threads 10 --outages 3

No follower may miss or repeat a durable event, or have another text than the log. It prints how
long runs took without NATS, with it and during outages, and how long after a start of the server
the last follower heard a word over it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from follow_kit import Reader
from nats_kit import NatsServer, open_server, until

from awaken import Agent, Runtime
from awaken.core.event import RunEvent, RunFinish, TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role

WORDS, PACE = 50, 0.02
QUIET = 8.0
"""Seconds of load if there is no outage."""


class Writer:
    """Writes words at a steady pace."""

    name = "writer"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for number in range(WORDS):
            await asyncio.sleep(PACE)
            yield TextDelta(delta=f"{number} ")
        yield Stop(reason=StopReason.END_TURN)


class Follower:
    """Follows a thread on the other node."""

    def __init__(self, runtime: Runtime, thread: str) -> None:
        self._runtime, self._thread = runtime, thread
        self.reader = Reader()
        self.heard_at = 0.0
        self.ends = 0

    async def follow(self) -> None:
        async with aclosing(self._runtime.follow(self._thread)) as events:
            async for event in events:
                self._take(event)

    def _take(self, event: RunEvent) -> None:
        self.reader.read(event)
        if isinstance(event.event, TextDelta) and event.live is not None:
            self.heard_at = time.monotonic()
        if isinstance(event.event, RunFinish) and not event.ahead:
            self.ends += 1

    async def is_whole(self) -> bool:
        store = self._runtime.store
        stored = await store.load_events(self._thread)
        texts = {
            message.id or "": message.text()
            for message in await store.load_messages(self._thread)
            if message.role is Role.ASSISTANT
        }
        got = self.reader
        same = [e.event for e in got.durable.values()] == [e.event for e in stored]
        return same and {id: got.texts.get(id) for id in texts} == texts


class Load:
    """Two nodes on one store: one runs an agent in each thread, the other follows all of them."""

    def __init__(self, owner: Runtime, other: Runtime, threads: int) -> None:
        self._owner = owner
        self.followers = {f"t{n}": Follower(other, f"t{n}") for n in range(threads)}
        self.runs = 0

    async def play(self, outages: int, nats: NatsServer | None) -> tuple[list[float], list[float]]:
        """How long the runs took, and how long it took after each start to be heard."""
        seconds: list[float] = []
        back: list[float] = []
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            following = [tasks.create_task(f.follow()) for f in self.followers.values()]
            runs = [tasks.create_task(self._run(t, seconds, over)) for t in self.followers]
            await asyncio.sleep(WORDS * PACE if outages else QUIET)
            for _ in range(outages if nats is not None else 0):
                assert nats is not None
                await asyncio.to_thread(nats.stop)
                await asyncio.sleep(random.uniform(0.05, 1.5))
                await asyncio.to_thread(nats.start)
                started = time.monotonic()
                followers = self.followers.values()
                await until(lambda: all(f.heard_at > started for f in followers))  # noqa: B023
                back.append(time.monotonic() - started)
            over.set()
            await asyncio.wait(runs)
            await until(lambda: sum(f.ends for f in self.followers.values()) == self.runs)
            for task in following:
                task.cancel()
        return seconds, back

    async def _run(self, thread: str, seconds: list[float], over: asyncio.Event) -> None:
        await asyncio.sleep(random.uniform(0, WORDS * PACE))
        while True:
            begun = time.monotonic()
            await self._owner.run("a", "go", thread=thread)
            seconds.append(time.monotonic() - begun)
            self.runs += 1
            if over.is_set():
                return


async def play(threads: int, outages: int, nats: NatsServer | None) -> bool:
    """Returns whether every follower has got everything."""
    bus = nats.address() if nats is not None else None
    with tempfile.TemporaryDirectory(prefix="awaken-load-") as home:
        store = f"sqlite:///{home}/f.db"
        owner = Runtime([Agent("a", model=Writer())], store=store, bus=bus)
        async with owner, Runtime([], store=store, bus=bus, recover=False) as other:
            load = Load(owner, other, threads)
            cpu = time.process_time()
            seconds, back = await load.play(outages, nats)
            cpu = 1_000 * (time.process_time() - cpu) / load.runs
            wrong = [t for t, f in load.followers.items() if not await f.is_whole()]
    name = "without NATS" if nats is None else f"{outages} outages"
    text = f"{name}: runs {load.runs}, not whole {len(wrong)}, a run took "
    text += f"{statistics.median(seconds):.2f} s (median), {max(seconds):.2f} s (worst)"
    text += f", {cpu:.0f} ms of CPU"
    if back:
        text += f"; heard by all {statistics.median(back):.2f} s after a start, {max(back):.2f} s"
        text += " at worst"
    print(text, flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--outages", type=int, default=10)
    options = parser.parse_args()
    logging.getLogger("awaken.bus").setLevel(logging.ERROR)
    are_whole = [asyncio.run(play(options.threads, 0, None))]
    with open_server() as nats:
        for outages in (0, options.outages):
            are_whole.append(asyncio.run(play(options.threads, outages, nats)))
    return 0 if all(are_whole) else 1


if __name__ == "__main__":
    sys.exit(main())
