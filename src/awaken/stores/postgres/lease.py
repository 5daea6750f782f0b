"""The lease of a node: a row that says until when the node is alive, and the thread that renews it.

Only the clock of Postgres is compared with the row. The node itself trusts its lease for a little
less long than the row says, by its own monotonic clock, counted from when it sent the renewal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import asyncpg

from awaken.core.store.commits import ORPHANS_EVERY_MS, Fence
from awaken.errors import LeaseLost
from awaken.stores.postgres.address import Address
from awaken.stores.postgres.connections import Db, Schema, connect, end
from awaken.stores.postgres.errors import explain
from awaken.stores.postgres.notifications import release_all
from awaken.stores.postgres.rows import owner_name
from awaken.stores.write_health import WriteHealth

log = logging.getLogger("awaken.stores")
T = TypeVar("T")

PATIENCE = 30.0
"""Seconds after which runs are left if the lease was not regained, and after which an event loop
that has not moved counts as hung."""

_REGISTER = """
INSERT INTO @nodes (host, pid, started_at, held_since, lease_until, ttl)
SELECT ?, ?, now.at, now.at, now.at + now.ttl, now.ttl
FROM (SELECT clock_timestamp() AS at, make_interval(secs => ?) AS ttl) AS now RETURNING id
"""
_BEAT = """
UPDATE @nodes SET lease_until = clock_timestamp() + ttl,
       held_since = CASE WHEN lease_until > clock_timestamp() THEN held_since
                         ELSE clock_timestamp() END
WHERE id = ? RETURNING id
"""
MINE = "SELECT id, epoch FROM @threads WHERE owner = ?"
_FORGET = "DELETE FROM @nodes WHERE id = ?"
FORGET_NODES = "DELETE FROM @nodes WHERE lease_until < clock_timestamp() - interval '1 hour'"
# Whether there is work in a thread without an owner, or whose owner is dead.
# Each part is found by an index; the dead owners are not read while there is nothing to find.
# And whether commands wait for the node: a statement of its own would cost the server more than
# this read, and a node looks for them as often.
# Delegates whose parent run has ended have no index of their own. All waiting runs are read to find
# them, so this part is left out most of the time ($4).
_FREE = "(t.owner IS NULL OR t.owner = ANY (ARRAY(SELECT @dead_owners_v1())))"
_FINDS_WORK = f"""
SELECT EXISTS (SELECT 1 FROM @runs AS r JOIN @threads AS t ON t.pk = r.thread
               WHERE r.status NOT IN ('done', 'created', 'waiting') AND {_FREE})
    OR EXISTS (SELECT 1 FROM @commands AS c JOIN @threads AS t ON t.pk = c.thread
               WHERE (c.not_before IS NULL OR c.not_before <= $1) AND {_FREE})
    OR EXISTS (SELECT 1 FROM @tickets AS k JOIN @threads AS t ON t.pk = k.thread
               WHERE k.status = 'open' AND k.expires_at < $2 AND {_FREE})
    OR EXISTS (SELECT 1 FROM @outboxes AS o JOIN @threads AS t ON t.pk = o.thread WHERE {_FREE})
    OR ($4 AND EXISTS (SELECT 1 FROM @runs AS r JOIN @runs AS p ON p.id = r.parent
                       JOIN @threads AS t ON t.pk = r.thread
                       WHERE r.status = 'waiting' AND r.delegated AND p.status = 'done'
                         AND {_FREE})),
       EXISTS (SELECT 1 FROM @commands AS c JOIN @threads AS t ON t.pk = c.thread
               WHERE (c.not_before IS NULL OR c.not_before <= $1) AND (t.owner = $3 OR {_FREE}))
"""


class LeaseReader(Protocol):
    """The part of the engine that a lease uses."""

    @property
    def node(self) -> int: ...

    async def read(self, work: Callable[[Db], Awaitable[T]]) -> T: ...

    def note_poll(self, at: float, *, finds_commands: bool) -> None: ...


class PostgresLease:
    """See `Lease`. It outlives the engine that renews it.

    Args:
        ttl: how many seconds a lease lasts.
    """

    poll_interval = 1.0

    def __init__(self, open: Callable[[], Awaitable[LeaseReader]], ttl: float) -> None:
        self._open = open
        self._ttl = ttl
        self._until = 0.0
        self._since = 0.0
        self._owner = ""
        self._orphans_at_ms = -ORPHANS_EVERY_MS
        self._callbacks: list[Callable[[Fence], None]] = []
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def held(self) -> bool:
        return time.monotonic() < self._until

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    @property
    def can_claim(self) -> bool:
        return self.held and time.monotonic() >= self._since + self._ttl

    async def has_work(self, *, at_ms: int, overdue_ms: int) -> bool:
        reader = await self._open()
        at, node = asyncio.get_running_loop().time(), reader.node
        is_due = not 0 <= at_ms - self._orphans_at_ms < ORPHANS_EVERY_MS
        has_work, finds_commands = await reader.read(
            lambda db: db.row(_FINDS_WORK, at_ms, overdue_ms, node, is_due)
        )
        if is_due:
            self._orphans_at_ms = at_ms
        reader.note_poll(at, finds_commands=finds_commands)
        return bool(has_work)

    async def wait_held(self) -> None:
        await self._open()
        while not self.held:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(woken)
            left = PATIENCE - (time.monotonic() - self._until)
            try:
                async with asyncio.timeout(max(left, 0)):
                    await woken
            except TimeoutError:
                raise LeaseLost(self._owner, PATIENCE) from None
            finally:
                self._waiting.discard(woken)

    def add_lost_callback(self, callback: Callable[[Fence], None]) -> None:
        self._callbacks.append(callback)

    # -- for the engine -----------------------------------------------------------------------

    def begin(self, owner: str, until: float) -> None:
        self._owner, self._until, self._since = owner, until, time.monotonic()

    def renew(self, until: float) -> None:
        """The lease was renewed before it ran out. Called by the thread that renews it."""
        self._until = until

    def regain(self, until: float, lost: Iterable[Fence]) -> None:
        """The lease was renewed after it ran out. Called in the event loop: the callbacks get the
        claims in `lost` before a run can see that the lease is held."""
        gone = list(lost)
        log.warning(
            "the lease of %s had run out and is renewed; other nodes have taken %d of its threads",
            self._owner,
            len(gone),
        )
        for fence in gone:
            for callback in self._callbacks:
                callback(fence)
        self._until, self._since = until, time.monotonic()
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    def end(self) -> None:
        self._until = 0.0


class Heart:
    """Registers a node and renews its lease, in a thread of its own with a connection of its own:
    a tool that blocks the event loop does not lose the node's runs.

    Args:
        claims: returns the claims that the node believes to have.
        writes: counts each renewal, which is a write.
    """

    def __init__(
        self,
        address: Address,
        schema: Schema,
        lease: PostgresLease,
        claims: Callable[[], list[Fence]],
        writes: WriteHealth,
    ) -> None:
        self._address = address
        self._schema = schema
        self._lease = lease
        self._claims, self._writes = claims, writes
        self._main_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._is_ending = False
        self._releases = True
        self._ticked = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self.node = 0

    @property
    def _margin(self) -> float:
        return min(0.5, self._address.lease / 6)

    async def start(self, connection: asyncpg.Connection) -> None:
        """Register the node, and begin to renew its lease."""
        sent = time.monotonic()
        self.node = await self._register(connection)
        self._lease.begin(owner_name(self.node), sent + self._address.lease - self._margin)
        self._tick()
        name = f"awaken lease {owner_name(self.node)}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def _register(self, connection: asyncpg.Connection) -> int:
        text = self._schema.statement(_REGISTER)
        values = (socket.gethostname(), os.getpid(), self._address.lease)
        return int(await connection.fetchval(text, *values))

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        self._timer = self._main_loop.call_later(1.0, self._tick)

    async def stop(self, db: Db) -> None:
        """Release the node's threads, and end its lease."""
        self._releases = False
        self.abandon()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._lease.end()
        await release_all(db, self.node)
        await db.run(_FORGET, self.node)
        await db.run(FORGET_NODES)

    def abandon(self) -> None:
        """End without waiting, for a store that is never closed, or whose event loop is gone: the
        thread releases the node's threads."""
        self._is_ending = True
        loop, ending = self._loop, self._ending
        if loop is not None and ending is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(ending.set)
            except RuntimeError:
                return  # it has ended meanwhile

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._beat_until_end())
        except Exception:
            log.exception("the lease of %s is not renewed any more", owner_name(self.node))

    async def _beat_until_end(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        connection: asyncpg.Connection | None = None
        has_failed = False
        if self._is_ending:
            self._ending.set()  # the node ended before this thread had begun
        while not await self._ends_within(self._address.lease / 3):
            if time.monotonic() - self._ticked > PATIENCE:
                continue  # the event loop hangs: other nodes shall continue its runs
            try:
                if connection is None or connection.is_closed():
                    connection = await connect(self._address, direct=True)
                async with asyncio.timeout(max(self._address.lease / 2, 1.0)):
                    await self._beat(connection)
                has_failed = False
                self._writes.note_success()
            except Exception as error:
                if not has_failed:
                    log.warning("the lease of %s is not renewed: %r", owner_name(self.node), error)
                self._writes.note_error(explain(self._address.display, error))
                has_failed = True
                if connection is not None:
                    connection.terminate()
        if self._releases:
            connection = await self._release_all(connection)
        if connection is not None:
            await end(connection)

    async def _ends_within(self, seconds: float) -> bool:
        """Wait; returns whether the thread is to end."""
        assert self._ending is not None
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            return self._main_loop.is_closed()
        return True

    async def _beat(self, connection: asyncpg.Connection) -> None:
        was_held, sent = self._lease.held, time.monotonic()
        found = await connection.fetchval(self._schema.statement(_BEAT), self.node)
        until = sent + self._address.lease - self._margin
        if found is None:
            # So long ago that the row was removed.
            self.node = await self._register(connection)
            self._call_on_main_loop(lambda: self._lease.begin(owner_name(self.node), 0.0))
            was_held = False
        if was_held:
            self._lease.renew(until)
            return
        claims = self._claims()
        rows = await connection.fetch(self._schema.statement(MINE), self.node)
        mine = {(thread_id, epoch) for thread_id, epoch in rows}
        lost = [fence for fence in claims if (fence.thread_id, fence.epoch) not in mine]
        self._call_on_main_loop(lambda: self._lease.regain(until, lost))

    def _call_on_main_loop(self, work: Callable[[], None]) -> None:
        try:
            self._main_loop.call_soon_threadsafe(work)
        except RuntimeError:
            self.abandon()  # the event loop is gone, and its runs with it

    async def _release_all(
        self, connection: asyncpg.Connection | None
    ) -> asyncpg.Connection | None:
        try:
            if connection is None or connection.is_closed():
                connection = await connect(self._address, direct=True)
            db = Db(connection, self._schema)
            await release_all(db, self.node)
            await db.run(_FORGET, self.node)
        except Exception as error:
            log.warning("%s could not release its threads: %r", owner_name(self.node), error)
        return connection
