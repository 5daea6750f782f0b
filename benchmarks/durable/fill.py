"""Long threads, made quickly: the commits of one real run, written again and again.

Every row is one a real run writes, two a step, so what a reader of the tail finds is what it
would find in a thread that grew over weeks. Only ids differ from run to run.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from awaken import Message, Runtime
from awaken.codec import dumps, loads
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.ids import SequentialIds
from awaken.stores.memory import MemoryStore
from awaken.stores.sql.fold import SNAPSHOT_EVERY
from awaken.stores.sqlite import SqliteStore
from benchmarks.durable.ours import StepModel, address, agent

THREAD, WARM = "long", "warm"
"""The thread that is filled, and an older one beside it that has nothing in it."""

STEPS = 24
RUN = 2 + 2 * STEPS
"""Messages of a run: the question, two a step, the answer."""

_AT_ONCE = 8
# Empty commits at the beginning. Every other run ends with a snapshot of the thread's state, so
# with these the last snapshot always lies this far back: half of the most a reader has to fold.
_BEHIND = SNAPSHOT_EVERY // 2
PREFIX = b"00000000-0000"  # of every id `SequentialIds` gives
_replace = msgspec.structs.replace


async def fill(folder: Path, sizes: Sequence[int]) -> dict[int, Path]:
    """A file for each size, with one thread of that many messages (none for 0)."""
    files = {size: folder / f"{size}.db" for size in sizes}
    template, growing, length = await record(), folder / "growing.db", 0
    for size in sorted(sizes):
        if size % RUN:
            raise ValueError(f"{size} messages are not a whole number of runs of {RUN}")
        store = SqliteStore.from_address(address(growing, "normal"))
        await store.open()
        if await store.load_thread(WARM) is None:
            await store.commit(ThreadCommit(thread_id=WARM, expected_length=0))
        if size and not length:
            for _ in range(_BEHIND):
                await store.commit(ThreadCommit(thread_id=THREAD, expected_length=0))
        runs = range(length // RUN, size // RUN)
        for start in runs[::_AT_ONCE]:
            some = runs[start - runs.start :][:_AT_ONCE]
            # All at once: they share a transaction, and are written in this order.
            commits = [commit for run in some for commit in _again(template, run)]
            await asyncio.gather(*map(store.commit, commits))
        await store.close()
        length = size
        shutil.copyfile(growing, files[size])
    growing.unlink()
    return files


class _Recorder(MemoryStore):
    """Keeps the commits themselves, too."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[ThreadCommit] = []

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.commits.append(_replace(commit, fence=None, release=False))
        return await super().commit(commit)


async def record() -> list[bytes]:
    """The commits of one run, as JSON."""
    store, ids = _Recorder(), SequentialIds()
    async with Runtime([agent(StepModel(STEPS), STEPS)], store=store, ids=ids) as runtime:
        await runtime.run("bench", Message.user("go", id=ids.new()), thread=THREAD)
    return [dumps(commit) for commit in store.commits]


def _again(template: Sequence[bytes], run: int) -> Iterator[ThreadCommit]:
    """The commits of the thread's run of that number, counted from 0."""
    before = run * RUN
    for text in template:
        commit = loads(text.replace(PREFIX, f"{run + 1:08x}-0000".encode()), ThreadCommit)
        yield _replace(commit, expected_length=before + commit.expected_length)
