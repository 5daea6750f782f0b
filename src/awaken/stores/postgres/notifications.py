"""Waiting for changes that this process or others make.

`NOTIFY` announces a change at once. Every hint may be lost, so each node also looks by itself; a
hint says only that something is there to be read.

A channel is a thread, or all commands. Each change gets the next number. A caller that waits gives
the last number it knows, so that no change between two calls is missed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

import asyncpg

from awaken.stores.postgres.address import Address
from awaken.stores.postgres.connections import Connector, Db, end
from awaken.stores.postgres.errors import explain
from awaken.stores.waiting import Waiters

log = logging.getLogger("awaken.stores")

COMMANDS = ("commands",)
"""The channel of all commands; the other channels are the ids of threads."""
Channel = str | tuple[str]
_MAX_REMEMBERED = 10_000


class Watch:
    """The number of the last change of each channel, and the tasks that wait for the next one.

    What other processes change is seen by comparing marks: `marks` has what a thread looked like
    when it was last looked at. It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._number = 1
        self._floor = 1
        self._changed: dict[Channel, int] = {}
        self._freed: dict[int, int] = {}
        self._marks: dict[str, object] = {}
        self._waiters = Waiters()

    @property
    def waiting_threads(self) -> list[str]:
        """The ids of the threads that tasks wait for."""
        return [channel for channel in self._waiters.waiting if isinstance(channel, str)]

    def number(self, channel: Channel) -> int:
        """The number of the channel's last change."""
        return max(self._changed.get(channel, 0), self._floor)

    async def wait(self, channel: Channel, since: int) -> int:
        """Wait until the channel has a change after number `since`, and return its number."""
        if self.number(channel) <= since:
            await self._waiters.wait(channel)
        return self.number(channel)

    def mark(self, channels: Iterable[Channel]) -> None:
        """Record changes, and wake the tasks that wait for them."""
        self._number += 1
        if len(self._changed) > _MAX_REMEMBERED:
            self._changed, self._floor = {}, self._number
        for channel in channels:
            self._changed[channel] = self._number
            self._waiters.wake(channel)

    def free(self, thread: int) -> None:
        """Record that a thread was released in which something is left to do, by its row."""
        self.mark([COMMANDS])
        if len(self._freed) > _MAX_REMEMBERED:
            self._freed = {}  # a look around finds the others
        self._freed[thread] = self._number

    def list_freed(self, since: int) -> list[int]:
        """The threads that were released after change number `since`, by their rows."""
        return [thread for thread, number in self._freed.items() if number > since]

    def mark_all(self) -> None:
        """Record that anything may have changed."""
        self._number += 1
        self._floor = self._number
        for channel in list(self._waiters.waiting):
            self._waiters.wake(channel)

    def compare(self, looked_at: Iterable[str], found: dict[str, object]) -> None:
        """Record the changes of threads whose marks differ from those seen before."""
        if len(self._marks) > _MAX_REMEMBERED:
            self._marks = {}
        looked = list(looked_at)
        changed = [id for id in looked if self._marks.get(id, self) != found.get(id)]
        self._marks.update((id, found.get(id)) for id in looked)
        if changed:
            self.mark(changed)


_SELF_TEST_SECONDS = 2.0


class Listener:
    """Listens for hints on a connection of its own.

    Args:
        on_hint: called after every hint.
    """

    def __init__(
        self, address: Address, connector: Connector, watch: Watch, on_hint: Callable[[], None]
    ) -> None:
        self._address = address
        self._connector = connector
        self._watch = watch
        self._on_hint = on_hint
        self._self_test = asyncio.Event()
        self.is_deaf = True
        """Whether hints do not come through; then nodes look more often."""

    async def listen(self, node: int) -> None:
        """Listen until the connection breaks."""
        if not self._address.has_session(direct=True):
            # A session of a pooler may hear this node's first hint, and none of the later ones.
            self._warn_deaf()
            await asyncio.Event().wait()
        begin = channel_of(self._address.schema)
        try:
            connection = await self._connector.connect(direct=True)
        except Exception as error:
            raise explain(self._address.display, error) from error
        broken = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: broken.set())
            await connection.add_listener(f"{begin}n{node}", self._hint)
            await connection.add_listener(f"{begin}work", self._hint)
            self._self_test.clear()
            await connection.execute("SELECT pg_notify($1, '')", f"{begin}n{node}")
            await wait_set(self._self_test, _SELF_TEST_SECONDS)
            self._watch.mark_all()  # earlier hints did not reach this connection
            if self.is_deaf:
                self._warn_deaf()
            await broken.wait()
        finally:
            self.is_deaf = True
            await end(connection)

    def _warn_deaf(self) -> None:
        log.warning(
            "no hint comes through %s, which may be a pooler: this node looks four times a "
            "second instead; give the address of the database itself with direct=",
            self._address.display,
        )

    def _hint(self, connection: asyncpg.Connection, pid: int, channel: str, payload: str) -> None:
        self.is_deaf = False
        self._self_test.set()
        if channel.endswith("work") and payload.isdigit():
            self._watch.free(int(payload))
        else:
            self._watch.mark([COMMANDS])
        self._on_hint()


COMPARE_SECONDS = 0.2
"""How often the threads that tasks wait for are looked at."""
_TELL = """
SELECT pg_notify($2 || coalesce('n' || t.owner, 'work'), t.pk::text)
FROM @threads AS t WHERE t.id = ANY ($1::text[])
"""
_FREE = "UPDATE @threads SET owner = NULL WHERE owner = $2"
# Nodes get a hint of each thread in which a run can continue.
_AND_TELL = """
SELECT pg_notify($1 || 'work', f.pk::text) FROM freed AS f
WHERE EXISTS (SELECT 1 FROM @runs AS r WHERE r.id = f.open_run AND r.status = 'running')
   OR EXISTS (SELECT 1 FROM @commands AS c WHERE c.thread = f.pk AND c.kind = 'run')
"""
_RELEASE = f"WITH freed AS ({_FREE} AND id = $3 AND epoch = $4 RETURNING pk, open_run) {_AND_TELL}"
_RELEASE_ALL = f"WITH freed AS ({_FREE} RETURNING pk, open_run) {_AND_TELL}"
# What a thread looks like: a write to its head, metadata, commands or stream log shows.
_MARKS = """
SELECT t.id, t.xmin::text, t.position, t.epoch,
       (SELECT m.xmin::text FROM @thread_metadata AS m WHERE m.thread = t.pk),
       (SELECT max(c.id) FROM @commands AS c WHERE c.thread = t.pk),
       (SELECT count(*) FROM @commands AS c WHERE c.thread = t.pk),
       (SELECT s.xmin::text FROM @streams AS s WHERE s.thread = t.pk ORDER BY s.number DESC LIMIT 1)
FROM @threads AS t WHERE t.id = ANY (?::text[])
"""


async def send_hints(db: Db, thread_ids: Collection[str]) -> None:
    """Tell the owners of threads, or all nodes for a thread without one, that a command waits."""
    await db.rows(_TELL, list(thread_ids), channel_of(db.schema.name))


async def release(db: Db, node: int, thread_id: str, epoch: int) -> None:
    """Release a thread that the node has claimed."""
    await db.rows(_RELEASE, channel_of(db.schema.name), node, thread_id, epoch)


async def release_all(db: Db, node: int) -> None:
    """Release every thread of the node."""
    await db.rows(_RELEASE_ALL, channel_of(db.schema.name), node)


async def compare_marks(db: Db, watch: Watch) -> None:
    """Wake the tasks whose threads were changed by other processes."""
    thread_ids = watch.waiting_threads
    found: dict[str, Any] = {row[0]: tuple(row) for row in await db.rows(_MARKS, thread_ids)}
    watch.compare(thread_ids, found)


async def wait_set(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, and at the latest after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()


def channel_of(schema: str) -> str:
    """How the names of a schema's channels begin: channels belong to the whole database."""
    return f"awk_{hashlib.blake2b(schema.encode(), digest_size=8).hexdigest()}_"
