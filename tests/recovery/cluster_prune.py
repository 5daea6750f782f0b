"""Many old threads are pruned beside runs that commit: 06/CL-18.

python tests/recovery/cluster_prune.py --threads 10000 --runs 100

Runs make step after step in this process, and note how long each of their commits took, first
without and then with `awaken gc` in a process of its own. Meanwhile the longest wait for a lock is
looked for.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import asyncpg

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.value import Value
from awaken.stores.postgres import PostgresStore
from awaken.testing import FunctionModel, tool_call_response
from awaken.testing.conformance.helpers import DONE, record
from postgres_kit import Postgres, running_postgres

COMMITS = 3
"""Commits of each old thread."""
_LOCKED = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8
FROM pg_locks WHERE NOT granted
"""


class Figures(Value, frozen=True, kw_only=True):
    """What came of it; times in milliseconds."""

    pruned: int
    seconds: float
    commits_before: int
    commits_beside: int
    p99_before: float
    p99_beside: float
    longest_lock: float
    lost: int
    """Threads of runs that are gone, and old threads that are left."""


class TimedStore(PostgresStore):
    """Notes how long commits take."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.took: list[float] = []

    async def commit(self, commit: ThreadCommit) -> Committed:
        began = time.perf_counter()
        committed = await super().commit(commit)
        self.took.append(time.perf_counter() - began)
        return committed


def worker(pause: float, begins: asyncio.Event) -> Agent:
    @tool(effect="read")
    async def work(number: int) -> str:
        """Take a moment."""
        await begins.wait()
        await asyncio.sleep(pause)
        return f"worked {number}"

    def answer(request: InferenceRequest) -> StreamResult:
        return tool_call_response("", "work", f"c{len(request.messages)}", {"number": 1})

    return Agent("worker", model=FunctionModel(answer), tools=[work], max_rounds=100_000)


async def fill(address: str, threads: int) -> None:
    """Write old threads, each with a run that is over."""
    store = PostgresStore(address)
    await store.open()
    left = iter(range(threads))

    async def write() -> None:
        for number in left:
            id = f"old-{number}"
            run: RunRecord = record(f"run-{number}", id, status=DONE)
            for length in range(COMMITS):
                await store.commit(
                    ThreadCommit(
                        thread_id=id,
                        expected_length=length,
                        messages=(Message.user("something that was said long ago " * 20),),
                        run=run if length == COMMITS - 1 else None,
                        at_ms=1_000,
                    )
                )

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(write())
    await store.close()


async def longest_lock(dsn: str, until: asyncio.Event) -> float:
    """The longest time that a session was seen waiting for a lock, in seconds."""
    connection = await asyncpg.connect(dsn)
    longest = 0.0
    while not until.is_set():
        longest = max(longest, await connection.fetchval(_LOCKED))
        with suppress(TimeoutError):
            await asyncio.wait_for(until.wait(), 0.01)
    await connection.close()
    return longest


async def prune(address: str) -> float:
    """Run `awaken gc` as an operator does; returns how many seconds it took."""
    words = ("-m", "awaken.cli", "gc", "--older-than", "30d", "--store", address)
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
    return time.perf_counter() - began


def p99(took: list[float]) -> float:
    return 1_000 * sorted(took)[int(0.99 * (len(took) - 1))]


async def beside(
    server: Postgres, *, threads: int, runs: int, seconds: float, pause: float
) -> Figures:
    """
    Args:
        pause: how many seconds a step of a run takes.
    """
    address = server.address()
    await fill(address, threads)
    store, begins, ended = TimedStore(address), asyncio.Event(), asyncio.Event()
    async with Runtime([worker(pause, begins)], store=store, on_close="cancel") as runtime:
        for number in range(runs):
            await runtime.submit("worker", "work", thread=f"new-{number}")
        begins.set()  # runs that work would leave the submissions no time
        while len(store.took) < 2 * runs:  # noqa: ASYNC110  # all have begun
            await asyncio.sleep(0.01)
        store.took.clear()
        await asyncio.sleep(seconds)
        while len(store.took) < runs:  # noqa: ASYNC110  # a slow machine needs longer
            await asyncio.sleep(0.01)
        before = list(store.took)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(longest_lock(server.dsn, ended))
            store.took.clear()
            took = await prune(address)
            while len(store.took) < runs:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            with_prune = list(store.took)
            ended.set()
        async with asyncpg.create_pool(server.dsn, min_size=1, max_size=1) as pool:
            schema = address.partition("schema=")[2]
            ids = [row[0] for row in await pool.fetch(f"SELECT id FROM {schema}.threads")]
    await store.close()
    old = sum(id.startswith("old-") for id in ids)
    return Figures(
        pruned=threads - old,
        seconds=round(took, 2),
        commits_before=len(before),
        commits_beside=len(with_prune),
        p99_before=round(p99(before), 1),
        p99_beside=round(p99(with_prune), 1),
        longest_lock=round(1_000 * looking.result(), 1),
        lost=old + runs - (len(ids) - old),
    )


async def main(threads: int, runs: int) -> int:
    with running_postgres() as server:
        figures = await beside(server, threads=threads, runs=runs, seconds=10, pause=1)
    print(figures, flush=True)
    is_slow = figures.p99_beside >= 2 * figures.p99_before or figures.longest_lock > 100
    return int(figures.lost > 0 or is_slow)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.threads, given.runs)))
