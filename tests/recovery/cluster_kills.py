"""Nodes that share a Postgres and are killed: every run ends, and no call is made twice.

    python tests/recovery/cluster_kills.py --seeds 20 --runs 200
    python tests/recovery/cluster_kills.py --how term
    python tests/recovery/cluster_kills.py --apart 3600

Two nodes carry out the runs that this process submits. At a random time the one that has done more
gets SIGKILL, or SIGTERM, and another one is started. A run makes three calls; each writes a line,
which is the world outside, and takes so long that most runs are open at that time. `--apart` sets
the clock of one node so many seconds ahead.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from awaken import Agent, Runtime, ToolCallContext, tool  # noqa: E402
from awaken.clock import SystemClock  # noqa: E402
from awaken.core.inference import StreamResult  # noqa: E402
from awaken.core.lifecycle import RunStatus  # noqa: E402
from awaken.core.llm import InferenceRequest  # noqa: E402
from awaken.core.message import Role  # noqa: E402
from awaken.core.store.threads import RunQuery  # noqa: E402
from awaken.core.value import Value  # noqa: E402
from awaken.testing import FunctionModel, text_response, tool_call_response  # noqa: E402
from postgres_kit import running_postgres  # noqa: E402

CALLS = 3
HOW = {"kill": signal.SIGKILL, "term": signal.SIGTERM}


class Figures(Value, frozen=True, kw_only=True):
    """What came of one seed."""

    runs: int
    stuck: int
    doubled: int
    lost: int
    waits: tuple[float, ...]
    """For each run that went on elsewhere, the milliseconds from the kill, or from the last step
    before it left, to its first step there."""

    def __str__(self) -> str:
        found = ", ".join(f"{name} {getattr(self, name)}" for name in ("stuck", "doubled", "lost"))
        return f"runs {self.runs}, taken over {len(self.waits)}, {found}, {middle(self.waits)}"


def middle(waits: Sequence[float]) -> str:
    if not waits:
        return "no first step elsewhere"
    return f"first step median {statistics.median(waits):.0f} ms, worst {max(waits):.0f} ms"


class AheadClock(SystemClock):
    """The clock of a machine that is wrong by some seconds."""

    def __init__(self, seconds: int) -> None:
        self._ms = 1000 * seconds

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


class Line(Value, frozen=True, kw_only=True):
    """A line of the ledger: a call was begun."""

    run_id: str
    key: str
    pid: int
    at: int


def worker(ledger: Path, pause: float) -> Agent:
    @tool
    async def work(number: int, ctx: ToolCallContext) -> str:
        """Write a line."""
        run_id = ctx.run_identity.run_id
        with ledger.open("a") as file:
            file.write(f"{run_id} {ctx.idempotency_key} {os.getpid()} {time.time_ns()}\n")
        await asyncio.sleep(pause)
        return f"worked {number}"

    def answer(request: InferenceRequest) -> StreamResult:
        told = [message for message in request.messages if message.role is Role.TOOL]
        if len(told) >= CALLS:
            return text_response("done")
        return tool_call_response("", "work", f"c{len(told)}", {"number": len(told)})

    return Agent("worker", model=FunctionModel(answer), tools=[work])


async def node(address: str, ledger: str, pause: str, ahead: str) -> None:
    """Carry out what there is, until this process is killed, or told to end (SIGTERM)."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    clock = AheadClock(int(ahead))
    agents = [worker(Path(ledger), float(pause))]
    async with Runtime(agents, store=address, clock=clock, on_close="leave"):
        print("ready", flush=True)
        await ended.wait()


async def start_node(
    address: str, ledger: Path, pause: float, ahead: int
) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--node", address, str(ledger), str(pause), str(ahead)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def fight(
    address: str,
    runs: int,
    seed: int,
    *,
    how: str = "kill",
    apart: int = 0,
    pause: float = 0.05,
    patience: float = 120,
) -> Figures:
    """
    Args:
        pause: how many seconds a call takes.
    """
    chance = random.Random(seed)
    ahead = [apart, 0][:: 1 if seed % 2 else -1]
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "ledger")
        ledger.touch()  # noqa: ASYNC240
        async with Runtime([worker(ledger, pause)], store=address, recover=False) as runtime:
            nodes = [await start_node(address, ledger, pause, seconds) for seconds in ahead]
            try:
                for number in range(runs):
                    await runtime.submit("worker", "work", thread=f"t{seed}-{number}")
                await _lines(ledger, chance.randrange(1, runs * CALLS // 2))
                # The first one to look may have got all the runs there are.
                busy = Counter(line.pid for line in _read(ledger)).most_common(1)[0][0]
                place = [process.pid for process in nodes].index(busy)
                killed = time.time_ns()
                nodes[place].send_signal(HOW[how])
                await nodes[place].wait()
                nodes[place] = await start_node(address, ledger, pause, ahead[place])
                stuck = await _until_done(runtime, patience)
            finally:
                for process in nodes:
                    process.send_signal(signal.SIGKILL)
                    await process.wait()
            lines = list(_read(ledger))
            return Figures(
                runs=runs,
                stuck=stuck,
                doubled=len(lines) - len({line.key for line in lines}),
                lost=await _lost(runtime),
                waits=tuple(_waits(lines, busy, killed, pause if how == "term" else None)),
            )


def _read(ledger: Path) -> Iterator[Line]:
    for line in ledger.read_text().splitlines():
        run_id, key, pid, at = line.split()
        yield Line(run_id=run_id, key=key, pid=int(pid), at=int(at))


async def _lines(ledger: Path, count: int) -> None:
    """Wait until the ledger has so many lines."""
    while len(list(_read(ledger))) < count:  # noqa: ASYNC110  # other processes write it
        await asyncio.sleep(0.01)


async def _until_done(runtime: Runtime, patience: float) -> int:
    """Wait until no run is open; returns how many still are when the patience ends."""
    deadline = time.monotonic() + patience
    while True:
        still = 0
        for status in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING):
            still += len(await runtime.list_runs(RunQuery(status=status, limit=1000)))
        if not still or time.monotonic() > deadline:
            return still
        await asyncio.sleep(0.1)


async def _lost(runtime: Runtime) -> int:
    """How many runs have not ended as they should, with all their results."""
    lost = 0
    for run in await runtime.list_runs(RunQuery(limit=1000)):
        told = [m for m in await runtime.messages(run.thread_id) if m.role is Role.TOOL]
        lost += run.final_output != "done" or len(told) != CALLS
    return lost


def _waits(lines: Sequence[Line], first: int, killed: int, pause: float | None) -> Iterator[float]:
    """How long the runs of the first node waited for their first step elsewhere, in milliseconds.

    A run that is left ends its step first: the call that it had begun takes its `pause`.
    """
    last: dict[str, int] = {}
    for line in sorted(lines, key=lambda line: line.at):
        if line.pid == first:
            last[line.run_id] = line.at
        elif (began := last.pop(line.run_id, None)) is not None:
            step_end = began + int(pause * 1e9) if pause is not None else 0
            yield (line.at - max(killed, step_end)) / 1e6


async def main(given: argparse.Namespace) -> int:
    every: list[Figures] = []
    with running_postgres() as server:
        for seed in range(given.seeds):
            address = server.address()
            figures = await fight(
                address,
                given.runs,
                seed,
                how=given.how,
                apart=given.apart,
                pause=given.pause,
                patience=60 + given.runs,
            )
            print(f"seed {seed}: {figures}", flush=True)
            every.append(figures)
    wrong = sum(figures.stuck + figures.doubled + figures.lost for figures in every)
    waits = [wait for figures in every for wait in figures.waits]
    print(
        f"{given.how}, kills {len(every)}, taken over {len(waits)}, wrong {wrong}: {middle(waits)}"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        asyncio.run(node(*sys.argv[2:6]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--seeds", type=int, default=20)
        parser.add_argument("--runs", type=int, default=200)
        parser.add_argument("--how", choices=HOW, default="kill")
        parser.add_argument("--apart", type=int, default=0, metavar="SECONDS")
        parser.add_argument("--pause", type=float, default=2.0, metavar="SECONDS")
        sys.exit(asyncio.run(main(parser.parse_args())))
