"""A run is killed, another process goes on with it, and a third hears all of it.

    python tests/recovery/heard_elsewhere.py                 killed at each of its events
    python tests/recovery/heard_elsewhere.py --at 3,17

The reader follows the thread from before the run begins. It must get every durable event once and
in order, and of each answer exactly what the log has.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from follow_kit import Reader

from awaken import Agent, Runtime, tool
from awaken.core.event import (
    RunEvent,
    RunFinish,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    is_terminal,
)
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.engine import stream_log
from awaken.stores.sqlite import SqliteStore

T = "t"
TOOL_STEPS = 2
_FORK = multiprocessing.get_context("fork")


@tool(effect="read")
async def look(at: int) -> str:
    """Looks."""
    return f"saw {at}"


class Talker:
    """Answers by what the conversation holds, not by how often it was asked."""

    name = "talker"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        seen = sum(message.role is Role.TOOL for message in request.messages)
        for word in ("so ", "I ", "look ", f"{seen}"):
            await asyncio.sleep(0)
            yield TextDelta(delta=word)
        if seen < TOOL_STEPS:
            yield ToolCallStart(id=f"c{seen}", name="look")
            yield ToolCallDelta(id=f"c{seen}", args_delta=f'{{"at": {seen}}}')
        yield Stop(reason=StopReason.TOOL_USE if seen < TOOL_STEPS else StopReason.END_TURN)


class KillingSink:
    """Kills its process when it is given the n-th event."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.count = 0

    async def emit(self, event: RunEvent) -> None:
        self._left -= 1
        self.count += 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def close(self) -> None:
        return


def agent() -> Agent:
    return Agent("a", model=Talker(), tools=[look])


def run_and_die(file: str, at: int) -> None:
    async def main() -> None:
        stream_log.KEPT_AT_LOOK = 1
        async with Runtime([agent()], store=SqliteStore(file)) as runtime:
            await runtime.run("a", "go", thread=T, sink=KillingSink(at))

    asyncio.run(main())


def go_on(file: str) -> None:
    async def main() -> None:
        async with Runtime([agent()], store=SqliteStore(file)) as runtime:
            for recovered in runtime.recovered:
                await recovered
            if not runtime.recovered and await runtime.store.latest_run(T) is None:
                await runtime.run("a", "go", thread=T)

    asyncio.run(main())


def follow(file: str, ready: Event) -> None:
    """Exits with 0 if the reader has got everything."""

    async def main() -> None:
        store, reader = SqliteStore(file), Reader()
        async with Runtime([], store=store, recover=False) as runtime:
            ready.set()
            async with aclosing(runtime.follow(T)) as events:
                async for event in events:
                    reader.read(event)
                    ended = isinstance(event.event, RunFinish) or is_terminal(event.event)
                    if ended and not event.ahead:
                        break
            stored = await store.load_events(T)
            assert [e.event for e in reader.durable.values()] == [e.event for e in stored]
            for message in await store.load_messages(T):
                if message.role is Role.ASSISTANT:
                    assert reader.texts[message.id or ""] == message.text(), message.id
        await store.close()

    asyncio.run(main())


def play(at: int) -> bool:
    """Kill the run at its n-th event. Returns whether the reader got all of it."""
    with tempfile.TemporaryDirectory(prefix="awaken-heard-") as home:
        file, ready = str(Path(home) / "f.db"), _FORK.Event()
        reader = _FORK.Process(target=follow, args=(file, ready))
        reader.start()
        ready.wait(60)
        for process in (
            _FORK.Process(target=run_and_die, args=(file, at)),
            _FORK.Process(target=go_on, args=(file,)),
        ):
            process.start()
            process.join()
        reader.join(60)
        if reader.is_alive():
            reader.kill()
            reader.join()
        return reader.exitcode == 0


def events_of_a_run() -> int:
    """How many events an undisturbed run has."""

    async def main() -> int:
        sink = KillingSink(0)
        async with Runtime([agent()]) as runtime:
            await runtime.run("a", "go", thread=T, sink=sink)
        return sink.count

    return asyncio.run(main())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--at", help="events to kill at, such as 3,17")
    options = parser.parse_args()
    count = events_of_a_run()
    places = [int(n) for n in options.at.split(",")] if options.at else range(1, count + 1)
    failed = [at for at in places if not play(at)]
    print(f"events {count}, kills {len(places)}, not heard whole {len(failed)} {failed or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
