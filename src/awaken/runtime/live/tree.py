"""Following a thread with all threads beneath it: those of its delegates and background tasks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from awaken.core.aio.owned_tasks import start_task
from awaken.core.bus import LiveBus
from awaken.core.event import (
    Error,
    RunEvent,
    RunFinish,
    RunStart,
    StepStart,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    is_terminal,
)
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadQuery
from awaken.core.thread import Thread
from awaken.runtime.live.cursor import FollowerCursor
from awaken.runtime.live.follow import PAGE, EventFollower, check_cursor, follow_from, resume_cursor

SEARCH_SECONDS = 0.5
"""Seconds between two searches for threads beneath that have started or continued."""
_ENDS = (ToolCallDone, ToolCallResumed, RunFinish, Error)
"""Events of the thread at the top that come after everything beneath it that they end."""
MAX_UNREAD_BATCHES = 100
"""How many batches of events may wait for the reader; then the tree's followers wait, too."""


def follow_tree(
    store: Store,
    bus: LiveBus,
    thread_id: str,
    after: int = 0,
    *,
    live: bool = True,
    caught_up: asyncio.Event | None = None,
    resume_after: tuple[int, int] | None = None,
) -> EventFollower:
    """The events of a thread, as `follow` gives them, and of every thread beneath it.

    First what was, in the order of time, then what is, as it comes. Each thread has its own `seq`.
    `after` counts the events of the thread itself: of the others, those that are older than that
    event are left out. When what was is given, `caught_up` is set; without `live`, it ends there.
    `resume_after` is the `live` of `follow`, for a reader that has got events of the thread that
    were not stored.

    Raises:
        InvalidCursor: the thread does not have that many events.
    """
    return EventFollower(
        _follow(_ThreadTree(store, bus, thread_id, after), live, caught_up, resume_after)
    )


async def _follow(
    tree: _ThreadTree,
    live: bool,
    caught_up: asyncio.Event | None,
    resume_after: tuple[int, int] | None,
) -> AsyncGenerator[list[RunEvent], None]:
    await tree.check_cursor()
    try:
        if resume_after is not None and (first_events := tree.resume_cursor(resume_after)):
            yield first_events
        async for batch in tree.read_stored():
            yield batch
        if caught_up is not None:
            caught_up.set()
        if live:
            async for batch in tree.live():
                yield batch
    finally:
        await tree.close()


class _ThreadReader:
    """One thread of the tree: its cursor, and the events that were read and not given yet."""

    def __init__(self, cursor: FollowerCursor, level: int) -> None:
        self.cursor, self.level = cursor, level
        self.read_ahead: deque[RunEvent] = deque()
        self.is_read = False
        self.following: asyncio.Task[None] | None = None

    async def look_ahead(self, store: Store) -> None:
        while not self.read_ahead and not self.is_read:
            cursor = self.cursor
            page = await store.load_commits(cursor.thread_id, after=cursor.seq, limit=PAGE)
            for view in page:
                self.read_ahead += cursor.on_commit(view)
            self.is_read = len(page) < PAGE

    def key(self) -> tuple[int, bool, int]:
        """What is given first. In one instant, a run begins before those it starts, and ends after
        them."""
        event = self.read_ahead[0]
        begins = isinstance(event.event, RunStart | StepStart | ToolCallReady)
        return event.at_ms, not begins, self.level if begins else -self.level


_Update = list[RunEvent] | BaseException | _ThreadReader | None
"""An update for the reader of a tree: events, an error, a thread that is not followed live any
more, or (`None`) a change of the thread at the top."""


class _ThreadTree:
    """The threads of a tree, each with its follower while it has something to tell."""

    def __init__(self, store: Store, bus: LiveBus, root: str, after: int) -> None:
        self._store, self._bus, self._root, self._after = store, bus, root, after
        self._branches = {root: _ThreadReader(FollowerCursor(root, after), 0)}
        self._since: int | None = None
        self._events: asyncio.Queue[_Update] = asyncio.Queue(MAX_UNREAD_BATCHES)
        self._watching: asyncio.Task[None] | None = None

    async def check_cursor(self) -> None:
        """
        Raises:
            InvalidCursor: the thread at the top does not have that many events.
        """
        await check_cursor(self._store, self._root, self._after)

    def resume_cursor(self, live: tuple[int, int]) -> list[RunEvent]:
        """Continue where a reader has left the thread at the top. Returns its first events."""
        top = self._branches[self._root]
        top.cursor, first_events = resume_cursor(self._bus, top.cursor, live)
        return first_events

    async def read_stored(self) -> AsyncIterator[list[RunEvent]]:
        """What there is of all threads that are not heard live, in the order of time."""
        if self._since is None:
            self._since = await self._time_of_cursor()
        for thread in await self._list_descendants():
            self._branch(thread)
        for branch in self._branches.values():
            branch.is_read = False
        given: list[RunEvent] = []
        while True:
            quiet = [b for b in self._branches.values() if b.following is None]
            if len(given) >= PAGE:
                yield given
                given = []
            for branch in quiet:
                await branch.look_ahead(self._store)
            full = [branch for branch in quiet if branch.read_ahead]
            if not full:
                break
            event = min(full, key=_ThreadReader.key).read_ahead.popleft()
            if event.thread_id == self._root or event.at_ms >= self._since:
                given.append(event)
        if given:
            yield given

    async def _time_of_cursor(self) -> int:
        """The time of the last event that the reader has."""
        if self._after == 0:
            return 0
        known = await self._store.load_events(self._root, after=self._after - 1, limit=1)
        return known[0].at_ms if known else 0

    async def _list_descendants(self) -> list[Thread]:
        found: list[Thread] = []
        query = ThreadQuery(ancestor_thread_id=self._root, limit=PAGE)
        while True:
            page = await self._store.list_threads(query)
            found.extend(page)
            if page.cursor is None:
                return sorted(found, key=lambda thread: thread.created_at)
            query = ThreadQuery(ancestor_thread_id=self._root, limit=PAGE, cursor=page.cursor)

    def _branch(self, thread: Thread) -> _ThreadReader:
        branch = self._branches.get(thread.id)
        if branch is None:
            above = self._branches.get(thread.parent_thread_id or "")
            level = 1 if above is None else above.level + 1
            branch = self._branches[thread.id] = _ThreadReader(FollowerCursor(thread.id), level)
        return branch

    # -- live ---------------------------------------------------------------------------------

    async def live(self) -> AsyncIterator[list[RunEvent]]:
        """What comes: from the bus of threads whose owner answers, else from the store."""
        self._watching = start_task(self._watch())
        while True:
            async for batch in self.read_stored():
                yield batch
            await self._listen()
            try:
                async with asyncio.timeout(SEARCH_SECONDS):
                    update = await self._events.get()
            except TimeoutError:
                continue
            given = self._take(update)
            ends = (index for index, event in enumerate(given) if self._is_end(event))
            if (end := next(ends, None)) is not None:
                # A delegate may have ended before anyone listened to its thread.
                if end > 0:
                    yield given[:end]
                async for batch in self.read_stored():
                    yield batch
                given = given[end:]
            if given:
                yield given

    def _is_end(self, event: RunEvent) -> bool:
        return event.thread_id == self._root and isinstance(event.event, _ENDS)

    def _take(self, update: _Update) -> list[RunEvent]:
        """The events among all that the reader was woken for."""
        given: list[RunEvent] = []
        while True:
            if isinstance(update, BaseException):
                if not given:
                    raise update
                self._events.put_nowait(update)  # when the reader has got what came before
                return given
            if isinstance(update, _ThreadReader):
                update.following = None
            elif update is not None:
                given += update
            if self._events.empty():
                return given
            update = self._events.get_nowait()

    async def _listen(self) -> None:
        """Start to follow the threads whose owner can be asked."""
        for thread_id, branch in self._branches.items():
            if branch.following is None and await self._bus.snapshot(thread_id) is not None:
                branch.following = start_task(self._follow(branch))

    async def _follow(self, branch: _ThreadReader) -> None:
        """Pass on what a thread tells, until its run has ended."""
        try:
            async with aclosing(follow_from(self._store, self._bus, branch.cursor)) as batches:
                async for batch in batches:
                    await self._events.put(batch)
                    if any(is_terminal(event.event) and not event.ahead for event in batch):
                        break
        except Exception as error:
            await self._events.put(error)
        # From then on it is read from the store: when the reader has got what was put here.
        await self._events.put(branch)

    async def _watch(self) -> None:
        """Wake the reader when any process has written to the thread at the top."""
        seen = 0
        try:
            while True:
                seen = await self._store.wait_changed(self._root, seen)
                await self._events.put(None)
        except Exception as error:
            await self._events.put(error)

    async def close(self) -> None:
        tasks = [branch.following for branch in self._branches.values()]
        ending = [task for task in (*tasks, self._watching) if task is not None]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
