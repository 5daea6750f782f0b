"""Ten nodes find a thousand interrupted runs: each is claimed once, and goes on once. 06/CL-15.

    python tests/recovery/cluster_claims.py --nodes 10 --runs 1000

A node has all the runs in a call when it gets SIGKILL. The others have room for a few more together
than there are runs, and a run that goes on stays until all have: so each node has to leave some to
the others. For each run that goes on, its node writes a line: which run, which process, when, and
how many runs are live there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

import asyncpg  # noqa: E402

from awaken import Agent, Runtime, ToolCallContext, tool  # noqa: E402
from awaken.core.event import RunFinish  # noqa: E402
from awaken.core.inference import StreamResult  # noqa: E402
from awaken.core.llm import InferenceRequest  # noqa: E402
from awaken.core.message import Role  # noqa: E402
from awaken.core.value import Value  # noqa: E402
from awaken.testing import FunctionModel, text_response, tool_call_response  # noqa: E402
from postgres_kit import running_postgres  # noqa: E402

LIMIT = 6.0
"""Seconds after which every run is claimed, with the lease of three seconds."""


class Line(Value, frozen=True, kw_only=True):
    """A line of the ledger: a run was begun, or goes on."""

    run_id: str
    pid: int
    at: float
    live: int


class Figures(Value, frozen=True, kw_only=True):
    """What came of it."""

    runs: int
    claimed_again: int
    """Threads that were claimed more than once after the kill, or never."""
    doubled: int
    """Runs that went on more than once, or have more than one end."""
    lost: int
    """Runs that did not end as they should."""
    nodes: int
    """Nodes that took runs."""
    over_room: int
    """Runs at once on the fullest node, beyond its room."""
    claimed: float
    """Seconds from the kill until the last run was claimed."""
    went_on: float
    """Seconds from the kill until the last run had its first step."""

    @property
    def wrong(self) -> int:
        return self.claimed_again + self.doubled + self.lost + self.over_room

    def __str__(self) -> str:
        found = ", ".join(
            f"{name} {getattr(self, name)}"
            for name in ("runs", "claimed_again", "doubled", "lost", "nodes", "over_room")
        )
        return f"{found}, claimed {self.claimed:.2f} s, went on {self.went_on:.2f} s"


class Ledger:
    """Lines that processes write to one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, run_id: str, live: int) -> None:
        with self.path.open("a") as file:
            file.write(f"{run_id} {os.getpid()} {time.time()} {live}\n")

    def read(self) -> list[Line]:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [
            Line(run_id=run_id, pid=int(pid), at=float(at), live=int(live))
            for run_id, pid, at, live in lines
        ]

    async def reaches(self, count: int) -> None:
        while len(self.read()) < count:  # noqa: ASYNC110  # other processes write it
            await asyncio.sleep(0.05)


class Worker:
    """An agent whose runs make one call, which never ends, and another one when they go on."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.may_end = asyncio.Event()
        self.runtime: Runtime | None = None

    def agent(self) -> Agent:
        @tool
        async def work(ctx: ToolCallContext) -> str:
            """Take for ever."""
            self._note(ctx)
            await asyncio.Event().wait()
            return "never"

        @tool
        async def linger(ctx: ToolCallContext) -> str:
            """Stay until all runs have gone on."""
            self._note(ctx)
            await self.may_end.wait()
            return "lingered"

        def answer(request: InferenceRequest) -> StreamResult:
            told = sum(message.role is Role.TOOL for message in request.messages)
            if told == 2:
                return text_response("done")
            return tool_call_response("", ("work", "linger")[told], f"c{told}", {})

        return Agent("worker", model=FunctionModel(answer), tools=[work, linger])

    def _note(self, ctx: ToolCallContext) -> None:
        assert self.runtime is not None
        self._ledger.write(ctx.run_identity.run_id, self.runtime.live_runs)


async def node(address: str, ledger: str, room: str) -> None:
    """Carry out what there is, until this process is killed. With SIGTERM the runs may end."""
    worker = Worker(Ledger(Path(ledger)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.may_end.set)
    async with Runtime([worker.agent()], store=address, max_runs=int(room)) as runtime:
        worker.runtime = runtime
        print("ready", flush=True)
        await asyncio.Event().wait()


async def start_node(address: str, ledger: Path, room: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--node", address, str(ledger), str(room)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def claims(address: str, *, nodes: int, runs: int, lease: float) -> Figures:
    """
    Args:
        lease: the lease of the address; nodes take nothing from others before theirs is that old.
    """
    room = runs // nodes + max(runs // nodes // 20, 1)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "ledger"))
        ledger.path.touch()
        started: list[asyncio.subprocess.Process] = []
        worker = Worker(ledger)
        async with Runtime([worker.agent()], store=address, recover=False) as runtime:
            try:
                first = await start_node(address, ledger.path, runs)
                started.append(first)
                for number in range(runs):
                    await runtime.submit("worker", "work", thread=f"t{number}")
                await ledger.reaches(runs)
                started += [await start_node(address, ledger.path, room) for _ in range(nodes)]
                await asyncio.sleep(lease + 1)
                killed = time.time()
                first.send_signal(signal.SIGKILL)
                async with asyncio.timeout(60 + runs / 10):
                    claimed = await _claimed(address)
                    await ledger.reaches(2 * runs)
                    for process in started[1:]:
                        process.send_signal(signal.SIGTERM)
                    waits = [runtime.wait(line.run_id) for line in ledger.read()[:runs]]
                    ends = [(await result).response for result in waits]
            finally:
                for process in started:
                    if process.returncode is None:
                        process.send_signal(signal.SIGKILL)
                    await process.wait()
            went_on = [line for line in ledger.read() if line.pid != first.pid]
            threads = [f"t{number}" for number in range(runs)]
            return Figures(
                runs=runs,
                claimed_again=await _claimed_again(runtime, threads),
                doubled=len(went_on)
                - len({line.run_id for line in went_on})
                + await _ended_again(runtime, threads),
                lost=runs - ends.count("done"),
                nodes=len({line.pid for line in went_on}),
                over_room=max(max(line.live for line in went_on) - room, 0),
                claimed=claimed - killed,
                went_on=max(line.at for line in went_on) - killed,
            )


async def _claimed(address: str) -> float:
    """Wait until every thread was claimed a second time; returns when."""
    dsn, _, options = address.partition("?")
    schema = options.partition("schema=")[2].partition("&")[0]
    connection = await asyncpg.connect(dsn)
    unclaimed = f"SELECT count(*) FROM {schema}.threads WHERE epoch < 2"
    while await connection.fetchval(unclaimed):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    now = time.time()
    await connection.close()
    return now


async def _claimed_again(runtime: Runtime, threads: list[str]) -> int:
    """How many threads were not claimed twice: by the first node, and by the one after it."""
    wrong = 0
    for thread in threads:
        fence = await runtime.store.claim(thread, at_ms=1)
        wrong += fence.epoch != 3
    return wrong


async def _ended_again(runtime: Runtime, threads: list[str]) -> int:
    wrong = 0
    for thread in threads:
        events = [event.event async for event in runtime.events(thread, follow=False)]
        wrong += sum(isinstance(event, RunFinish) for event in events) != 1
    return wrong


async def main(given: argparse.Namespace) -> int:
    with running_postgres() as server:
        figures = await claims(server.address(), nodes=given.nodes, runs=given.runs, lease=3.0)
    print(figures, flush=True)
    return int(figures.wrong > 0 or figures.claimed > LIMIT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        asyncio.run(node(*sys.argv[2:5]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--nodes", type=int, default=10)
        parser.add_argument("--runs", type=int, default=1_000)
        sys.exit(asyncio.run(main(parser.parse_args())))
