"""Searching, and sums: `make bench-search`.

    python -m benchmarks.search [--threads 100000] [--runs 1000000] [--commits 2000] [--store …]

The index of a store is filled with made-up threads of ten tenants with a hundred users each, and is
asked; each question 20 times. `--store` is the address of a schema of Postgres that may be dropped.
Then real commits on a SQLite file show what indexing costs, and that commits cost the same with it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from awaken.clock import SYSTEM_CLOCK
from awaken.core.message import Message
from awaken.core.search.index import (
    EntryUpdate,
    IndexedHead,
    IndexState,
    SearchIndex,
    ThreadUpdate,
)
from awaken.core.search.query import NANOS, parse_search, tag
from awaken.core.search.usage import UsageQuery
from awaken.core.store.commits import ThreadCommit
from awaken.runtime.search.indexer import Indexer
from awaken.stores import PostgresStore, SqliteStore

QUESTIONS = (
    "mug",  # in each thread
    "rare",  # in one of a thousand
    "needle",  # in one
    '"order 77"',
    "mug rare order",
    "nee*",
    "agent:desk",
    "user:user-7",
    "label:team=team-3 agent:clerk",
    "status:failed mug",
    "user:user-7 needle",  # a rare word and a frequent filter
    "agent:clerk tool:refund status:waiting cost:>5",
    "tokens:>9k",
    "cost:>100",  # nothing
    "after:1d",
    "",
)
USAGE = (
    ("day",),
    ("day", "agent", "model"),
    ("agent",),
    ("user",),
)
BEGIN_MS = 1_760_000_000_000
SPREAD_MS = 90 * 86_400_000
WORDS = [f"word{n}" for n in range(20_000)]


def make_threads(threads: int, runs: int) -> Iterator[ThreadUpdate]:
    chance = random.Random(7)
    each = max(1, runs // threads)
    for n in range(threads):
        scope, user = f"tenant-{n % 10}", f"user-{n // 10 % 100}"
        first = BEGIN_MS + SPREAD_MS * n // threads
        entries = [
            EntryUpdate(
                is_title=True, started_ms=first, texts=(f"thread-{n}",), question=f"case {n}"
            )
        ]
        for k in range(each):
            status = chance.choices(["finished", "failed", "waiting"], [94, 5, 1])[0]
            agent, model = chance.choice(["desk", "clerk", "bank"]), f"model-{n % 4}"
            text = " ".join(chance.choices(WORDS, k=60 if each == 1 else 6))
            extra = f"{' rare' if n % 1000 == 3 else ''}{' needle' if n == threads // 2 else ''}"
            entries.append(
                EntryUpdate(
                    run_id=f"run-{n}-{k}",
                    agent=agent,
                    model=model,
                    user=user,
                    status=status,
                    started_ms=first + k,
                    input_tokens=chance.randrange(10_000),
                    output_tokens=100,
                    cost=chance.randrange(10 * NANOS),
                    question=f"My mug, order {n}, arrived in pieces",
                    texts=(f"My mug, order {n}, arrived in pieces{extra}", text),
                    tags=(tag("agent", agent), tag("model", model), tag("tool", "refund")),
                )
            )
        yield ThreadUpdate(
            thread_id=f"{scope}/thread-{n}",
            scope=scope,
            before=None,
            after=IndexedHead(created_at=first, commits=1, events=1),
            entries=tuple(entries),
            tags=(tag("user", user), tag("label", f"team=team-{n % 7}")),
        )


async def fill(index: SearchIndex, threads: int, runs: int) -> float:
    began = time.perf_counter()
    made = make_threads(threads, runs)
    while batch := list(islice(made, 500)):
        await index.apply(batch)
    return time.perf_counter() - began


async def timed(work: Callable[[], Awaitable[Any]], times: int = 20) -> tuple[float, float, Any]:
    """The median and the worst time in milliseconds, and the last answer."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        answer = await work()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken), max(taken), answer


async def ask(index: SearchIndex, threads: int) -> None:
    now = BEGIN_MS + SPREAD_MS
    print(f"\n{threads:,} threads: a page of 50; all tenants and one; median and worst of 20, ms")
    for text in QUESTIONS:
        terms = parse_search(text, now_ms=now)
        cells = []
        for scope in (None, "tenant-3"):
            median, worst, page = await timed(
                lambda terms=terms, scope=scope: index.find(  # type: ignore[misc]
                    terms, scope=scope, kind="threads", before_key=None, limit=50
                )
            )
            cells.append(f"{median:8.1f} {worst:8.1f} {len(page.entries):4}")
        print(f"  {text or '(nothing)':48} {'  '.join(cells)}")
    terms, key, pages = parse_search("mug"), None, 0
    began = time.perf_counter()
    for _ in range(20):
        page = await index.find(terms, scope=None, kind="threads", before_key=key, limit=50)
        key, pages = page.next_key, pages + 1
        if key is None:
            break
    print(
        f"  the {pages}th page of `mug`: {(time.perf_counter() - began) / pages * 1000:.1f} ms each"
    )


async def ask_sums(index: SearchIndex, runs: int) -> None:
    print(f"\n{runs:,} runs: sums; median and worst of 20, ms")
    for by in USAGE:
        for scope in (None, "tenant-3"):
            query = UsageQuery(by=by, scope=scope)  # type: ignore[arg-type]
            median, worst, rows = await timed(lambda query=query: index.sum_usage(query))  # type: ignore[misc]
            print(
                f"  {' '.join(by):18} {scope or 'all':10} {median:8.1f} {worst:8.1f} "
                f"{len(rows):6} rows"
            )
    query = UsageQuery(by=("day",), zone="Asia/Kathmandu")
    median, worst, rows = await timed(lambda: index.sum_usage(query), 3)
    print(f"  {'day':18} {'zone':10} {median:8.1f} {worst:8.1f} {len(rows):6} rows")


async def measure_commits(folder: Path, commits: int) -> None:
    """Commits beside an indexer that has nothing to do but them, and without one, in turn."""
    store = SqliteStore(folder / "store.db")
    await store.open()
    index = store.search_index()
    indexer = Indexer(store, index, SYSTEM_CLOCK, "bench")
    await index.claim("bench", 60, IndexState())

    async def write(name: str, number: int) -> float:
        began = time.process_time()
        for n in range(number):
            message = Message.user(f"mug number {n}", id=f"m{n}")
            await store.commit(
                ThreadCommit(
                    thread_id=name,
                    expected_length=n,
                    messages=(message,),
                    at_ms=SYSTEM_CLOCK.now_ms(),
                )
            )
        return (time.process_time() - began) / number * 1e6

    await write("warm", commits)
    rounds = []
    for n in range(5):
        before = await write(f"before-{n}", commits)
        await indexer.catch_up()
        after = await write(f"after-{n}", commits)
        rounds.append((before, after))
    ratio = statistics.median(after / before for before, after in rounds)
    print(f"\na commit after its store was indexed, by one before: {ratio:.3f} (median of 5)")
    began = time.process_time()
    await index.rebuild()
    await indexer.catch_up()
    total = commits * 11
    spent = time.process_time() - began
    print(f"indexing {total:,} commits: {spent:.2f} s CPU, {spent / total * 1e6:.0f} µs each")
    began = time.process_time()
    for n in range(2_000):
        await store.commit(ThreadCommit(thread_id=f"t{n}", expected_length=0, at_ms=BEGIN_MS))
    await indexer.catch_up()
    median, _, _ = await timed(indexer.catch_up, 5)
    print(f"a look at 2,000 threads without news: {median:.1f} ms")
    await index.close()
    await store.close()


async def open_index(address: str | None, path: Path) -> tuple[Any, SearchIndex]:
    """An empty index, and its store."""
    store: Any = PostgresStore(address) if address else SqliteStore(path)
    await store.open()
    index = store.search_index()
    await index.rebuild("UTC")
    return store, index


def size_of(folder: Path, name: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"{name}-search*"))


async def measure(given: argparse.Namespace, folder: Path, runs: int, *, words: bool) -> None:
    """Fill an index, and ask it."""
    path = folder / f"{runs}.db"
    store, index = await open_index(given.store, path)
    seconds = await fill(index, given.threads, runs)
    print(f"\nfilled with {given.threads:,} threads and {runs:,} runs in {seconds:.0f} s")
    if words:
        await ask(index, given.threads)
    await ask_sums(index, runs)
    await index.close()
    await store.close()
    if not given.store:
        print(f"the index has {size_of(folder, path.name) / 1e6:.0f} MB")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--store")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.threads:
            await measure(given, folder, given.threads, words=True)
        if given.runs > given.threads:
            await measure(given, folder, given.runs, words=False)
        if given.commits:
            await measure_commits(folder, given.commits)


if __name__ == "__main__":
    asyncio.run(main())
