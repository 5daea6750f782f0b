"""What a store's lists cost as it fills: a page of threads, and the look for outboxes.

    python -m benchmarks.growth_stores --threads 100 10000 100000

Wall time of one operation, the best of several, in milliseconds. A cost that does not grow has the
same figure in every column. Every tenth thread has a parent, every hundredth the prefix `rare-`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadQuery
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore

SIZES = (100, 10_000, 100_000)
AT_ONCE = 500
REPEAT = 15

Deed = Callable[[], Awaitable[object]]


def name_of(number: int) -> str:
    return f"{'rare' if number % 100 == 0 else 'thread'}-{number:06}"


def first_commit(number: int) -> ThreadCommit:
    """A thread with one run that is done."""
    name = name_of(number)
    run = RunRecord(
        run_id=f"run-{number}",
        thread_id=name,
        agent_id="agent",
        status=RunStatus.DONE,
        created_at=number,
        updated_at=number,
    )
    return ThreadCommit(
        thread_id=name,
        expected_length=0,
        messages=(Message.user("hello", id=f"m-{number}"),),
        run=run,
        parent_thread_id=name_of(1) if number > 1 and number % 10 == 0 else None,
        at_ms=number,
    )


async def fill(store: Store, threads: int) -> None:
    await store.commit(first_commit(1))
    for start in range(2, threads + 1, AT_ONCE):
        async with asyncio.TaskGroup() as tasks:
            for number in range(start, min(start + AT_ONCE, threads + 1)):
                tasks.create_task(store.commit(first_commit(number)))


async def deeds(store: Store, threads: int) -> dict[str, Deed]:
    """What is measured, by the name it has in the table."""
    half = await store.list_threads(ThreadQuery(limit=threads // 2))
    queries = {
        "first page": ThreadQuery(),
        "page in the middle": ThreadQuery(cursor=half.cursor),
        "roots": ThreadQuery(root=True),
        "children of one": ThreadQuery(parent_thread_id=name_of(1)),
        "a common prefix": ThreadQuery(prefix="thread-"),
        "a rare prefix": ThreadQuery(prefix="rare-0001"),
    }
    found: dict[str, Deed] = {
        name: lambda query=query: store.list_threads(query)  # type: ignore[misc]
        for name, query in queries.items()
    }
    return {**found, "outboxes": store.list_outboxes}


async def measure(store: Store, threads: int, repeat: int = REPEAT) -> dict[str, float]:
    """Milliseconds of each deed in a store of so many threads."""
    await fill(store, threads)
    figures = {}
    for name, deed in (await deeds(store, threads)).items():
        samples = []
        for _ in range(repeat):
            start = time.perf_counter()
            await deed()
            samples.append(time.perf_counter() - start)
        figures[name] = min(samples) * 1000
    return figures


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        store: Store = (
            MemoryStore()
            if kind == "memory"
            else SqliteStore(Path(folder) / "awaken.db", synchronous="normal")
        )
        await store.open()
        try:
            yield store
        finally:
            await store.close()


async def growth(sizes: Sequence[int] = SIZES, repeat: int = REPEAT) -> str:
    """The table, in Markdown."""
    lines = []
    for kind in ("memory", "sqlite"):
        columns = []
        for threads in sizes:
            async with opened(kind) as store:
                columns.append(await measure(store, threads, repeat))
        heads = " | ".join(f"{threads:,}" for threads in sizes)
        lines += [f"| {kind}: ms at … threads | {heads} |", "|---|" + "---|" * len(sizes)]
        for name in columns[0]:
            cells = " | ".join(f"{column[name]:.3f}" for column in columns)
            lines.append(f"| {name} | {cells} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth_stores", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=SIZES, help="sizes to measure")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="samples of each figure")
    options = parser.parse_args()
    print(asyncio.run(growth(options.threads, options.repeat)))


if __name__ == "__main__":
    main()
