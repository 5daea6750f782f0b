"""Nodes that share a Postgres and are killed: every run ends, and no call is made twice.

    python tests/recovery/cluster_kills.py --seeds 20 --runs 200

Two nodes carry out the runs that this process submits. At a random time one of them gets SIGKILL,
and another one is started. A run makes three calls; each writes a line, which is the world outside.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from awaken import Agent, Runtime, ToolCallContext, tool  # noqa: E402
from awaken.contract.llm import InferenceRequest  # noqa: E402
from awaken.contract.threads import RunQuery  # noqa: E402
from awaken.domain.inference import StreamResult  # noqa: E402
from awaken.domain.lifecycle import RunStatus  # noqa: E402
from awaken.domain.message import Role  # noqa: E402
from awaken.domain.value import Value  # noqa: E402
from awaken.testing import FunctionModel, text_response, tool_call_response  # noqa: E402
from postgres_kit import running_postgres  # noqa: E402

CALLS = 3


class Figures(Value, frozen=True, kw_only=True):
    """What came of one seed."""

    runs: int
    stuck: int
    doubled: int
    lost: int
    taken_over: int
    first_step_ms: int
    """The longest time from the kill to the first new line of a run that was taken over."""


def worker(ledger: Path) -> Agent:
    @tool
    async def work(number: int, ctx: ToolCallContext) -> str:
        """Write a line."""
        with ledger.open("a") as file:
            file.write(f"{ctx.run_identity.run_id} {ctx.idempotency_key} {time.time_ns()}\n")
        await asyncio.sleep(0.05)
        return f"worked {number}"

    def answer(request: InferenceRequest) -> StreamResult:
        told = [message for message in request.messages if message.role is Role.TOOL]
        if len(told) >= CALLS:
            return text_response("done")
        return tool_call_response("", "work", f"c{len(told)}", {"number": len(told)})

    return Agent("worker", model=FunctionModel(answer), tools=[work])


async def node(address: str, ledger: str) -> None:
    """Carry out what there is, until this process is killed."""
    async with Runtime([worker(Path(ledger))], store=address):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def start_node(address: str, ledger: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--node", address, str(ledger)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def fight(address: str, runs: int, seed: int, patience: float) -> Figures:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "ledger")
        ledger.touch()  # noqa: ASYNC240
        async with Runtime([worker(ledger)], store=address, recover=False) as runtime:
            nodes = [await start_node(address, ledger) for _ in range(2)]
            try:
                for number in range(runs):
                    await runtime.submit("worker", "work", thread=f"t{seed}-{number}")
                await _lines(ledger, chance.randrange(1, runs * CALLS // 2))
                nodes[0].send_signal(signal.SIGKILL)
                killed, left = time.time_ns(), await _threads_of(runtime, nodes[0].pid)
                await nodes[0].wait()
                nodes[0] = await start_node(address, ledger)
                stuck = await _until_done(runtime, patience)
            finally:
                for process in nodes:
                    process.send_signal(signal.SIGKILL)
                    await process.wait()
            return await _figures(runtime, ledger, runs, stuck, killed, left)


async def _threads_of(runtime: Runtime, pid: int) -> set[str]:
    """The threads whose runs a node has."""
    owners = {process.owner for process in await runtime.store.processes() if process.pid == pid}
    running = await runtime.list_runs(RunQuery(status=RunStatus.RUNNING, limit=1000))
    threads = [await runtime.store.load_thread(run.thread_id) for run in running]
    return {thread.id for thread in threads if thread is not None and thread.owner in owners}


def _read(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines()


async def _lines(ledger: Path, count: int) -> None:
    """Wait until the ledger has so many lines."""
    while len(_read(ledger)) < count:  # noqa: ASYNC110  # other processes write it
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


async def _figures(
    runtime: Runtime, ledger: Path, runs: int, stuck: int, killed: int, left: set[str]
) -> Figures:
    keys: Counter[str] = Counter()
    after: dict[str, int] = {}
    for line in _read(ledger):
        run_id, key, at = line.split()
        keys[key] += 1
        if int(at) > killed:
            after.setdefault(run_id, int(at) - killed)
    lost = longest = 0
    for run in await runtime.list_runs(RunQuery(limit=1000)):
        told = [m for m in await runtime.messages(run.thread_id) if m.role is Role.TOOL]
        lost += run.final_output != "done" or len(told) != CALLS
        if run.thread_id in left:
            longest = max(longest, after.get(run.run_id, 0))
    return Figures(
        runs=runs,
        stuck=stuck,
        doubled=sum(count - 1 for count in keys.values()),
        lost=lost,
        taken_over=len(left),
        first_step_ms=longest // 1_000_000,
    )


async def main(seeds: int, runs: int) -> int:
    worst = 0
    with running_postgres() as server:
        for seed in range(seeds):
            figures = await fight(server.address(), runs, seed, 60 + runs)
            print(f"seed {seed}: {figures}", flush=True)
            worst = max(worst, figures.stuck + figures.doubled + figures.lost)
    return int(worst > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        asyncio.run(node(*sys.argv[2:4]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--seeds", type=int, default=20)
        parser.add_argument("--runs", type=int, default=200)
        given = parser.parse_args()
        sys.exit(asyncio.run(main(given.seeds, given.runs)))
