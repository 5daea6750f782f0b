"""Cancels at every commit: none may leave a delegate behind that waits for a run that has ended.

    python tests/recovery/cancel_sweep.py                 every story and place, on three stores
    python tests/recovery/cancel_sweep.py --share 20      every twentieth place
    python tests/recovery/cancel_sweep.py --story nested --store sqlite --place 12,19

The points of a story are the instants before, during and after each commit, of parents and of
delegates, and each reading of a delegate that waits. Another process stores a cancel of the whole
tree at one point, and the owner is told of it at the same point, at a later one, or not at all.
Without any recovery the store must then hold the rule: a delegate whose parent run has ended has
ended itself, or has a cancel pending. Then recovery begins, every question is answered, and
everything must end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "worker")]

import asyncpg  # noqa: E402
from delegation_kit import T, World, to  # noqa: E402

from awaken import Agent, Runtime  # noqa: E402
from awaken.core.lifecycle import RunStatus  # noqa: E402
from awaken.core.run import RunRecord  # noqa: E402
from awaken.core.store.commits import Committed, ThreadCommit  # noqa: E402
from awaken.core.store.store import Store  # noqa: E402
from awaken.errors import AwakenError  # noqa: E402
from awaken.stores.memory import MemoryStore  # noqa: E402
from awaken.stores.postgres import PostgresStore  # noqa: E402
from awaken.stores.sqlite import SqliteStore  # noqa: E402
from awaken.testing.chaos import (  # noqa: E402
    ChangeWatcher,
    at_rest,
    list_orphans,
    open_runs,
    questions,
)
from postgres_kit import running_postgres  # noqa: E402

PATIENCE = 60
SIDE_BY_SIDE = 8
"""So many plays, which mostly wait, are made at once."""
IDLE = 4
"""After so many looks without a question to answer, nothing more is expected to happen."""
DEAF = 0.2
"""After so many seconds, four times what it takes, a process does not listen for commands."""
STORES = ["memory", "sqlite", "postgres"]
_TABLES = """
SELECT tablename FROM pg_tables
WHERE schemaname = $1 AND tablename NOT IN ('migrations', 'epochs', 'secrets')
"""
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
PAY = ("pay", {"n": 5})

Team = Callable[[World], Sequence[Agent]]


# -- stories ----------------------------------------------------------------------------------


def _asks(world: World) -> Sequence[Agent]:
    return [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [PAY]),
    ]


def _works(world: World) -> Sequence[Agent]:
    return [
        world.agent("boss", [to("helper")], [to("helper", "again")], delegates=["helper"]),
        world.agent("helper", [("note", {"what": "a"})]),
    ]


def _side_by_side(world: World) -> Sequence[Agent]:
    return [
        world.agent("boss", [to("left"), to("right"), PAY], delegates=["left", "right"]),
        world.agent("left", [PAY]),
        world.agent("right", [("note", {"what": "a"})], [("pay", {"n": 6})]),
    ]


def _nested(world: World) -> Sequence[Agent]:
    return [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("leaf")], delegates=["leaf"]),
        world.agent("leaf", [PAY]),
    ]


def _in_background(world: World) -> Sequence[Agent]:
    helper = world.agent("helper", [PAY])
    return [world.agent("boss", [to("helper")], background=[helper]), helper]


STORIES: dict[str, Team] = {
    "asks": _asks,
    "works": _works,
    "side by side": _side_by_side,
    "nested": _nested,
    "in background": _in_background,
}


class Place(NamedTuple):
    """The points at which the cancel is stored, and at which the owner is told of it (0: never)."""

    stored: int
    told: int


# -- a store that places a cancel -------------------------------------------------------------


class Placed:
    """A part of a store: it counts the points of a story, and places a cancel at one of them."""

    canceller: Any = None
    """The store of another process; without one, the cancel is stored by this one."""

    def prepare(self, place: Place | None) -> None:
        """Begin a new play."""
        self.place = place
        self.points = 0
        self.cancels = 0
        self._tell = asyncio.Event()
        self._is_told = asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        await self._pass()
        self.points += 1
        if self.place is not None and self.place.stored == self.points:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cancel())
                committing = group.create_task(super().commit(commit))  # type: ignore[misc]
            committed: Committed = committing.result()
        else:
            committed = await super().commit(commit)  # type: ignore[misc]
        if self.place is not None and self.place.told == self.points:
            await self._tell_owner()
        await self._pass()
        return committed

    async def load_run(self, run_id: str) -> RunRecord | None:
        found: RunRecord | None = await super().load_run(run_id)  # type: ignore[misc]
        if found is not None and found.is_delegated and found.status is RunStatus.WAITING:
            await self._pass()
        return found

    async def _pass(self) -> None:
        self.points += 1
        if self.place is None:
            return
        stored, told = self.place
        if stored == self.points:
            await self._cancel()
        if told == self.points:
            await self._tell_owner()

    async def _cancel(self) -> None:
        canceller: Any = self.canceller or self
        self.cancels += len(await canceller.cancel_tree(T, at_ms=1))

    async def _tell_owner(self) -> None:
        """Tell the owner of the cancel; it may have no live run, and hear nothing then."""
        self._tell.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(DEAF):
                await self._is_told.wait()

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        async with aclosing(super().watch_commands()) as ready:  # type: ignore[misc]
            if self.place is not None:
                yield set()
                await self._tell.wait()
                yield await anext(ready)
                self._is_told.set()
                await asyncio.Event().wait()
            async for threads in ready:
                yield threads


class PlacedMemory(Placed, MemoryStore): ...


class PlacedSqlite(Placed, SqliteStore): ...


class PlacedPostgres(Placed, PostgresStore): ...


AnyPlaced = PlacedMemory | PlacedSqlite | PlacedPostgres


class Field:
    """The stores of plays: those of the runs' process, and of the one that cancels."""

    def __init__(self, kind: str, home: Path, dsn: str) -> None:
        self._kind, self._home, self._dsn = kind, home, dsn
        self._number = 0
        self._empty_schemas: list[str] = []

    @asynccontextmanager
    async def stores(self) -> AsyncIterator[tuple[AnyPlaced, Store | None]]:
        """The stores of one play, without a thread."""
        self._number += 1
        if self._kind == "memory":
            yield PlacedMemory(), None
        elif self._kind == "sqlite":
            file = self._home / f"{self._number}.db"
            yield PlacedSqlite(file), SqliteStore(file)
        else:
            schema = self._empty_schemas.pop() if self._empty_schemas else f"sweep{self._number}"
            address = f"{self._dsn}?schema={schema}&pool=2"
            yield PlacedPostgres(address), PostgresStore(address)
            await self._empty(schema)

    async def _empty(self, schema: str) -> None:
        """Let a later play have the schema: thousands of schemas make a server slow."""
        connection = await asyncpg.connect(self._dsn)
        try:
            tables = await connection.fetch(_TABLES, schema)
            names = ", ".join(f'"{schema}"."{name}"' for (name,) in tables)
            await connection.execute(f"TRUNCATE {names}")
        finally:
            await connection.close()
        self._empty_schemas.append(schema)


# -- one play ---------------------------------------------------------------------------------


class Result(NamedTuple):
    points: int
    cancels: int
    faults: Sequence[str]


async def play(field: Field, team: Team, place: Place | None) -> Result:
    """Play a story with a cancel at one place, or with none."""
    async with AsyncExitStack() as stack:
        store, canceller = await stack.enter_async_context(field.stores())
        for opened in (store, canceller):
            if opened is not None:
                await opened.open()
                stack.push_async_callback(opened.close)
        store.canceller = canceller
        store.prepare(place)
        agents = team(World())
        faults: list[str] = []
        async with asyncio.timeout(PATIENCE):
            async with Runtime(agents, store=store, recover=False) as runtime:
                await _converse(runtime, store)
                points, cancels = store.points, store.cancels
                faults += [f"{run.run_id} is an orphan" for run in await list_orphans(store)]
                store.prepare(None)
                await _finish(runtime, store)
        faults += [f"{run.run_id} is {run.status}" for run in await open_runs(store)]
        return Result(points, cancels, faults)


async def _converse(runtime: Runtime, store: Store) -> None:
    """Ask, and answer what is asked, until nothing happens any more: a cancel of which no process
    is told may wait for ever."""
    changes, idle = ChangeWatcher(store), 0
    with suppress(AwakenError, asyncio.CancelledError):
        await runtime.run("boss", "go", thread=T)
        while (runs := await open_runs(store)) and idle < IDLE:
            tickets = await questions(store)
            if not tickets:
                if await at_rest(store):
                    return
                await changes.wait(runs)
                idle += 1
            for ticket in tickets:
                if ticket.thread_id == T:
                    await runtime.run(thread=T, answers={ticket.key: True})
                else:
                    await runtime.decide(ticket.thread_id, {ticket.key: True})
                    await changes.wait(runs)


async def _finish(runtime: Runtime, store: Store) -> None:
    """Recover, and answer, until nothing goes on."""
    changes = ChangeWatcher(store)
    while True:
        for recovered in await runtime.recover():
            with suppress(AwakenError):
                await recovered
        if tickets := await questions(store):
            for ticket in tickets:
                with suppress(AwakenError):
                    await runtime.decide(ticket.thread_id, {ticket.key: True})
        elif await at_rest(store):
            return
        else:
            await changes.wait(await open_runs(store))


# -- all of them ------------------------------------------------------------------------------


def places(points: int) -> Iterator[Place]:
    for stored in range(1, points + 1):
        yield Place(stored, 0)
        for told in range(stored, points + 1):
            yield Place(stored, told)


async def sweep(
    field: Field, name: str, share: int = 1, only: Place | None = None
) -> tuple[Counter[str], list[str]]:
    """Play a story with a cancel at each place, or at each one of `share`."""
    team, sums, failures = STORIES[name], Counter[str](), list[str]()
    undisturbed = await play(field, team, None)
    chosen = [only] if only is not None else list(places(undisturbed.points))[share // 2 :: share]
    room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(place: Place) -> None:
        async with room:
            played = await play(field, team, place)
        orphans = sum("orphan" in fault for fault in played.faults)
        sums.update(plays=1, cancels=played.cancels, orphans=orphans)
        sums["left open"] += len(played.faults) - orphans
        failures.extend(f"{name} at {tuple(place)}: {fault}" for fault in played.faults)

    async with asyncio.TaskGroup() as group:
        for place in chosen:
            group.create_task(one(place))
    return sums, failures


def main() -> int:
    parser = argparse.ArgumentParser(description="Cancel at every commit, and look for orphans.")
    parser.add_argument("--share", type=int, default=1, help="every Nth place")
    parser.add_argument("--story", choices=STORIES, nargs="+", default=list(STORIES))
    parser.add_argument("--store", choices=STORES, nargs="+", default=STORES)
    parser.add_argument("--place", help="STORED,TOLD: this one only")
    options = parser.parse_args()
    only = Place(*map(int, options.place.split(","))) if options.place else None
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        dsn = stack.enter_context(running_postgres()).dsn if "postgres" in options.store else ""
        failed = False
        for store in options.store:
            for name in options.story:
                field = Field(store, Path(tempfile.mkdtemp(dir=home)), dsn)
                sums, failures = asyncio.run(sweep(field, name, options.share, only))
                print(f"{store}, {name}: {', '.join(f'{n} {what}' for what, n in sums.items())}")
                print("\n".join(failures[:20]), flush=True)
                failed = failed or bool(failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
