"""CPU and bytes of a commit, in threads of growing length, alone and in a crowd of a hundred.

The commits are those of real runs of 24 steps, with a fence, as their owner writes them. A long
thread has been filled with many messages a commit; the crowd's threads are copies of it.

Two runs in each thread go before those that are measured. They write the first snapshot of the
state after the filling, and the first write to a page after a checkpoint, which puts the whole page
into the log. Then a thread of any length has as many snapshots in what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from awaken.codec import loads
from awaken.core.message import Message
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from benchmarks.cluster.meters import Meter, Spent, SqliteMeter, metered
from benchmarks.durable.fill import PREFIX, RUN, THREAD, record
from postgres_kit import Postgres
from postgres_wire import wired

SIZES = (0, 4_000, 100_000)
CROWDS = (1, 100)
BEFORE = 2
RUNS = {1: 8, 100: 2}
"""How many runs are measured in each thread of a crowd."""
_FILLING = 160
"""Messages a commit. The last commit of a filling is not one that makes a snapshot: copies might
be made before it is written."""


async def table(server: Postgres, folder: Path, sizes: Sequence[int]) -> Iterator[str]:
    """The table, in Markdown."""
    template = await record()
    lines = [
        "| messages, runs at once | client µs | server µs | WAL KB | SQLite: µs | disk KB |",
        "|---|---|---|---|---|---|",
    ]
    for size in sizes:
        for crowd in CROWDS:
            async with _postgres(server) as (store, meter):
                theirs = await _sample(store, meter, template, size, crowd)
            async with _sqlite(folder / f"{size}-{crowd}.db") as (store, meter):
                ours = await _sample(store, meter, template, size, crowd)
            figures = (
                *(f"{seconds * 1e6:.0f}" for seconds in (theirs.client, theirs.server)),
                f"{theirs.written / 1000:.2f}",
                f"{ours.client * 1e6:.0f}",
                f"{ours.written / 1000:.2f}",
            )
            lines.append(f"| {size:,}, {crowd} | {' | '.join(figures)} |")
    return iter(lines)


async def wire_bytes(server: Postgres) -> tuple[float, float]:
    """Bytes that a commit of one run takes on the wire, both ways, and the trips it takes."""
    template = await record()
    async with wired(server.dsn) as (wire, address):
        store = PostgresStore(f"{address}&schema=wire")
        await store.open()
        await _write(store, await _runs(store, template, "warm"))  # statements are prepared
        commits = await _runs(store, template, "t")
        wire.bytes = wire.trips = 0
        await _write(store, commits)
        figures = wire.bytes / len(commits), wire.trips / len(commits)
        await store.close()
    return figures


@asynccontextmanager
async def _postgres(server: Postgres) -> AsyncIterator[tuple[Store, Meter]]:
    store = PostgresStore(server.address())
    await store.open()
    async with metered(server) as meter:
        yield store, meter
    await store.close()


@asynccontextmanager
async def _sqlite(path: Path) -> AsyncIterator[tuple[Store, Meter]]:
    store = SqliteStore(path)
    await store.open()
    yield store, SqliteMeter(path)
    await store.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink() if file.is_file() else None


async def _sample(
    store: Store, meter: Meter, template: Sequence[bytes], size: int, crowd: int
) -> Spent:
    """What one commit takes."""
    names = [f"t{number}" for number in range(crowd)]
    await _fill(store, names, size)
    warm = [await _runs(store, template, f"warm{n}") for n in range(8)]
    await asyncio.gather(*(_write(store, commits) for commits in warm))
    ready = [await _runs(store, template, name, BEFORE + RUNS[crowd], size) for name in names]
    first = BEFORE * len(template)
    await meter.settle()
    await asyncio.gather(*(_write(store, commits[:first]) for commits in ready))
    before = await meter.take()
    await asyncio.gather(*(_write(store, commits[first:]) for commits in ready))
    return (await meter.take()).since(before).of(sum(len(commits) - first for commits in ready))


async def _fill(store: Store, names: Sequence[str], size: int) -> None:
    """Fill the first thread, and copy it to the others."""
    first, *others = names
    for start in range(0, size, _FILLING):
        some = [Message.user("word " * 8, id=f"f{n}") for n in range(start, start + _FILLING)]
        await store.commit(
            ThreadCommit(thread_id=first, expected_length=start, messages=tuple(some))
        )
    if size:
        for name in others:
            await store.fork(first, name, at_ms=1)


async def _write(store: Store, commits: Sequence[ThreadCommit]) -> None:
    for commit in commits:
        await store.commit(commit)


async def _runs(
    store: Store, template: Sequence[bytes], thread: str, runs: int = 1, size: int = 0
) -> list[ThreadCommit]:
    """The commits of some runs in a thread, which is claimed for them."""
    fence = await store.claim(thread, at_ms=1)
    return [
        commit
        for number in range(runs)
        for commit in _commits(template, thread, number, size + number * RUN, fence)
    ]


def _commits(
    template: Sequence[bytes], thread: str, number: int, before: int, fence: Fence
) -> Iterator[ThreadCommit]:
    mark = f"{abs(hash((thread, number))) % 16**8:08x}-0000".encode()
    for text in template:
        own = text.replace(PREFIX, mark).replace(f'"{THREAD}"'.encode(), f'"{thread}"'.encode())
        commit = loads(own, ThreadCommit)
        length = before + commit.expected_length
        yield msgspec.structs.replace(commit, expected_length=length, fence=fence)
