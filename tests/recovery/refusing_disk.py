"""A disk that takes nothing for a while, in the midst of runs, again and again.

    python tests/recovery/refusing_disk.py --rounds 20 --threads 8

In every round each thread gets a message, and while they are at work the disk begins to refuse
(`RLIMIT_FSIZE`), at another point each time. When all of them have ended or broken off it takes
again. Afterwards every message that was taken is answered, no `once` effect was done twice, no run
is open, and no thread is owned.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.threads import RunQuery
from awaken.errors import AwakenError
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response
from awaken.testing.chaos import damage_between, dump_thread

PATIENCE = 120.0
CALLS = 2
NOTHING = 1  # bytes that a file may have


class Disk:
    """What of this process goes to any file."""

    def __init__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._calls_left = 0
        self.outages = 0

    def refuse_after(self, calls: int) -> None:
        self._calls_left = calls

    def note_call(self) -> None:
        """Hear of a call that is done; with the last of those it was told of, refuse."""
        self._calls_left -= 1
        if self._calls_left == 0:
            self.outages += 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (NOTHING, self._limits[1]))

    def take_again(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


def worker(disk: Disk, effects: Counter[str]) -> Agent:
    @tool
    async def work(ctx: ToolCallContext) -> str:
        """Do something that must not be done twice."""
        effects[ctx.idempotency_key] += 1
        disk.note_call()
        return "worked"

    def answer(request: InferenceRequest) -> StreamResult:
        asked = max(i for i, m in enumerate(request.messages) if m.role is Role.USER)
        done = sum(m.role is Role.TOOL for m in request.messages[asked:])
        if done < CALLS:
            return tool_call_response("", "work", f"c{done}", {})
        return text_response("done")

    return Agent("worker", model=FunctionModel(answer), tools=[work])


async def turn(runtime: Runtime, thread: str, words: str) -> bool:
    """One message; returns whether its run ended well at once."""
    try:
        await runtime.run("worker", words, thread=thread)
    except AwakenError:
        return False
    return True


async def play(runtime: Runtime, disk: Disk, rounds: int, threads: int) -> int:
    """All rounds; returns how many runs broke off."""
    broken = 0
    for number in range(rounds):
        disk.refuse_after(1 + number % (CALLS * threads))
        async with asyncio.TaskGroup() as tasks:
            turns = [
                tasks.create_task(turn(runtime, f"t{each}", f"round {number}"))
                for each in range(threads)
            ]
        await runtime.list_threads()  # a reader, while the disk still refuses
        disk.take_again()
        broken += sum(not each.result() for each in turns)
        await recover_all(runtime)
    return broken


async def recover_all(runtime: Runtime) -> None:
    """Go on with what broke off, as soon as its thread is given up; the disk takes that again."""
    while await runtime.list_runs(RunQuery(status=RunStatus.RUNNING)):
        for run in await runtime.recover():
            await run


async def faults(runtime: Runtime, effects: Counter[str], threads: int) -> list[str]:
    """Everything that should not be."""
    found = [f"{key} took effect {times} times" for key, times in effects.items() if times > 1]
    for run in await runtime.list_runs():
        if run.status is not RunStatus.DONE:
            found.append(f"run {run.run_id} of {run.thread_id} is {run.status.value}")
    for thread in (f"t{number}" for number in range(threads)):
        head = await runtime.store.load_thread(thread)
        if head is None or head.owner is not None or head.open_run_id is not None:
            found.append(f"thread {thread} is stuck: {head}")
        found += _doubled(thread, [m.text() for m in await runtime.messages(thread)])
        dump = await dump_thread(runtime.store, thread)
        found += damage_between((), dump, (), ()).sentences()
        if not await turn(runtime, thread, "and once more"):
            found.append(f"thread {thread} takes no message any more")
    return found


def _doubled(thread: str, texts: Sequence[str]) -> Iterator[str]:
    for words, times in Counter(text for text in texts if text.startswith("round ")).items():
        if times > 1:
            yield f"{words!r} is {times} times in the log of {thread}"


async def hold(rounds: int, threads: int, home: Path) -> tuple[list[str], str]:
    disk, effects = Disk(), Counter[str]()
    address = f"sqlite:///{home / 'awaken.db'}"
    async with asyncio.timeout(PATIENCE + rounds):
        # The time that a run waits for a store which is away passes at once.
        clock = FakeClock(auto=True)
        agents = [worker(disk, effects)]
        async with Runtime(agents, store=address, recover=False, clock=clock) as runtime:
            broken = await play(runtime, disk, rounds, threads)
            found = await faults(runtime, effects, threads)
    told = f"outages {disk.outages}, runs broken off {broken}, effects {len(effects)}"
    return found, told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A disk refuses in the midst of runs.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # each outage is told of at length
    with tempfile.TemporaryDirectory(prefix="awaken-disk-") as home:
        found, told = asyncio.run(hold(options.rounds, options.threads, Path(home)))
    for fault in found:
        print(fault)
    print(f"rounds {options.rounds}, {told}, faults {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
