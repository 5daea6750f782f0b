"""Reading a runtime's store, and deleting from it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from awaken.clock import Clock
from awaken.core.event import RunEvent
from awaken.core.identity import Principal, id_of, scope_of
from awaken.core.message import Message
from awaken.core.state.key import StateKey
from awaken.core.storable import Count, parse_argument
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import ThreadPatch
from awaken.errors import AlreadyExists, ConfigError, InvalidId, StaleFence, VersionConflict
from awaken.ids import Ids
from awaken.runtime import lazy_engine as engine
from awaken.runtime.run_arguments import check_seconds, parse_id, parse_principal, parse_word
from awaken.runtime.search_methods import SearchMethods

if TYPE_CHECKING:
    from awaken.core.blobs import BlobStore, FreedBlobs
    from awaken.core.bus import BusHealth, LiveBus
    from awaken.core.llm import InferenceRequest
    from awaken.core.request_manifest import RequestManifest
    from awaken.core.run import RunRecord
    from awaken.core.store.store import Store
    from awaken.core.store.threads import (
        ChildStrategy,
        DeleteResult,
        Page,
        RunQuery,
        ThreadQuery,
        TicketQuery,
    )
    from awaken.core.task import TaskStatus
    from awaken.core.thread import Thread
    from awaken.ext.tasks.listing import BackgroundTask
    from awaken.runtime.live.follow import EventFollower
    from awaken.runtime.live.outline import StepOutline

V = TypeVar("V")
Q = TypeVar("Q", bound=msgspec.Struct)
log = logging.getLogger("awaken.runtime")

_PAGE = 500
_DAY_MS = 86_400_000


class StoreQueries(SearchMethods):
    """The methods of a runtime that read and change its store, and need no agents."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        blobs: BlobStore | None = None,
        bus: LiveBus | None = None,
    ) -> None:
        self._store = store
        self._bus: LiveBus = bus or engine.LocalBus()
        self._blobs = blobs
        self._clock = clock
        self._ids = ids

    async def _check_thread(self, thread: str, principal: Principal | None = None) -> None:
        """Check the id that a caller gave for a thread; a principal's begins with its scope. A
        thread that exists under an id of an earlier version, or as a child, may be used.

        Raises:
            InvalidId: there is no such thread, and no new one may have this id.
        """
        if engine.is_given_in(scope_of(principal), thread):
            return
        if await self._store.load_thread(thread) is None:
            raise InvalidId(thread)

    @property
    def store(self) -> Store:
        """The store that holds the threads."""
        return self._store

    @property
    def blobs(self) -> BlobStore | None:
        """Where large media and tool results are kept; `None` if everything stays in the log."""
        return self._blobs

    @property
    def bus_health(self) -> BusHealth | None:
        """How the live bus to other processes does; `None` if the runtime has none."""
        return self._bus.health

    # -- reading ------------------------------------------------------------------------------

    async def tasks(
        self,
        thread: str | None = None,
        *,
        status: TaskStatus | Literal["running", "completed", "failed", "cancelled"] | None = None,
        limit: int = 100,
    ) -> Page[BackgroundTask]:
        """The latest background tasks, newest first: those of a thread and of the threads beneath
        it, or, without `thread`, those of the whole store.

        The page is the only one: `limit` says how many tasks it may have. Its `unreadable` names
        runs of tasks that the store cannot decode.
        """
        parse_id("thread", thread, str | None)
        parse_argument("limit", limit, Count)
        wanted = None if status is None else parse_word("status", status, engine.TaskStatus)
        return await engine.list_tasks(self._store, thread, wanted, limit)

    async def messages(
        self,
        thread: str,
        *,
        after: int = 0,
        limit: int | None = None,
        hidden: bool = False,
    ) -> Sequence[Message]:
        """The first `limit` messages of a thread behind position `after` of its log. Messages that
        are out of view, because the thread was rewound, are among them only with `hidden`."""
        parse_id("thread", thread)
        parse_argument("after", after, Count)
        parse_argument("limit", limit, Count | None)
        return await self._store.load_messages(thread, after=after, limit=limit, hidden=hidden)

    async def load_request(self, thread: str, message_id: str) -> InferenceRequest:
        """The request that led to a model's answer, by the answer's message id: the prompt, the
        messages, the tools and the parameters, as the model got them.

        Raises:
            NotFound: no such thread, or no such message in it.
            RequestNotKept: the message is no model's answer, or its request was not kept.
            TextGone, BlobError: a part of the request is not there any more.
        """
        parse_id("thread", thread)
        parse_id("message_id", message_id)
        request = await self._store.load_request(thread, message_id)
        head = await self._store.load_thread(thread)
        if self._blobs is None or head is None:
            return request
        keep = engine.RunBlobs(blobs=self._blobs, uses=self._store, scope=head.scope)
        messages = await engine.load_media(keep, request.messages, may_lack=False)
        return msgspec.structs.replace(request, messages=messages)

    async def load_manifest(self, thread: str, message_id: str) -> RequestManifest:
        """What is kept of that request: which of its messages are in the log, the attempts that
        failed before, the time to the first piece of the answer.

        Raises:
            NotFound, RequestNotKept: as `load_request`.
        """
        parse_id("thread", thread)
        parse_id("message_id", message_id)
        return await self._store.load_manifest(thread, message_id)

    async def events(
        self, thread: str, *, after: int = 0, follow: bool = True
    ) -> AsyncIterator[RunEvent]:
        """A thread's durable events with a `seq` above `after`: first the stored ones, then new
        ones as they are written.

        There are no gaps and no repeats, whichever process writes the events, and also if that
        process crashes. Deltas are not among them: they are seen only by clients that stream the
        run. Without `follow`, the iterator ends after the last stored event.
        """
        parse_id("thread", thread)
        parse_argument("after", after, Count)
        seen = 0
        while True:
            if follow:
                seen = await self._store.wait_changed(thread, seen)
            while page := await self._store.load_events(thread, after=after, limit=_PAGE):
                for event in page:
                    yield event
                after += len(page)
            if not follow:
                return

    def follow(
        self,
        thread: str,
        *,
        after: int = 0,
        live: tuple[int, int] | None = None,
        tree: bool = False,
    ) -> EventFollower:
        """Everything that happens in a thread behind `seq` `after`, in whichever process: first
        what was, then what is. It never ends.

        Durable events come once and in order, some of them `ahead` of their commit. Deltas come as
        well: as the model writes, from this process and, if the runtime has a `bus`, from others;
        without a bus, those of others come about once a second, as a `StepSnapshot`. With `tree`,
        threads of delegates and background tasks are followed, too. Read the events with
        `async for`, or with its `batches`.

        A reader that comes back and has got events behind `after` that were not stored (`ahead`, or
        transient) gives the `live` of the last of them, and goes on behind it. If the step has
        ended since then, or runs in another process, a `StreamReset` comes first, which voids them.

        Raises:
            InvalidCursor: the thread does not have that many events.
        """
        parse_id("thread", thread)
        parse_argument("after", after, Count)
        live = parse_argument("live", live, tuple[int, int] | None)
        if tree:
            return engine.follow_tree(self._store, self._bus, thread, after, resume_after=live)
        return engine.follow(self._store, self._bus, thread, after, live)

    async def fork(
        self,
        thread: str,
        *,
        at: int | None = None,
        new: str | None = None,
        principal: Principal | None = None,
    ) -> Thread:
        """Copy a thread as it was after the step that event `at` belongs to. Returns the new
        thread.

        The copy has the messages, events and thread state of that moment, or the present ones
        without `at`; it has the title, labels and user, and none of the runs and open tickets. The
        `principal` is the copy's `created_by`, and `new` is named in its scope. The original is not
        changed.

        Raises:
            NotFound: no such thread or event.
            AlreadyExists: there is a thread `new`.
            InvalidId: `new` is not allowed as an id.
        """
        parse_id("thread", thread)
        parse_argument("at", at, Count | None)
        parse_id("new", new, str | None)
        parse_principal(principal)
        name = engine.join_scope(scope_of(principal), self._ids.new() if new is None else new)
        now, by = self._clock.now_ms(), id_of(principal)
        return await self._store.fork(thread, name, at=at, at_ms=now, by=by)

    async def create_thread(
        self,
        thread: str | None = None,
        patch: ThreadPatch | None = None,
        *,
        principal: Principal | None = None,
    ) -> Thread:
        """Begin an empty thread, in the scope of the `principal`, who is its `created_by`. Returns
        the thread.

        Raises:
            AlreadyExists: there is a thread with that id.
            InvalidId: the id is not allowed.
        """
        parse_id("thread", thread, str | None)
        parse_principal(principal)
        patch = ThreadPatch() if patch is None else _parse_patch(patch)
        id = engine.join_scope(scope_of(principal), self._ids.new() if thread is None else thread)
        if await self._store.load_thread(id) is not None:
            raise AlreadyExists("thread", id)
        made = engine.ThreadCommit(thread_id=id, expected_length=0, at_ms=self._clock.now_ms())
        patch = msgspec.structs.replace(patch, created_by=id_of(principal))
        try:
            await self._store.commit(made)
            # The revision tells whether another caller has begun the same thread meanwhile.
            return await self._store.update_thread(id, patch, expected_revision=0)
        except (VersionConflict, StaleFence) as error:
            raise AlreadyExists("thread", id) from error

    async def update_thread(
        self,
        thread: str,
        patch: ThreadPatch,
        *,
        expected_revision: int | None = None,
    ) -> Thread:
        """Change what is said about a thread: its title, labels, user. Returns the thread.

        With `expected_revision`, nothing is changed if another program has changed it since the
        caller has read that revision (`thread.metadata.revision`).

        Raises:
            NotFound: no such thread.
            VersionConflict: it has another revision by now: read it again.
        """
        parse_id("thread", thread)
        parse_argument("expected_revision", expected_revision, Count | None)
        patch = _parse_patch(patch)
        return await self._store.update_thread(thread, patch, expected_revision=expected_revision)

    async def state(self, thread: str, key: StateKey[V, Any]) -> V:
        """The value of a state key after the thread's latest run, or its initial value."""
        parse_id("thread", thread)
        _check_key(key)
        context = await self._store.load_context(thread, tail=0)
        if context is None:
            return key.initial()
        stored = {**context.thread_state.extensions, **context.run_state.extensions}
        return key.load(stored[key.name]) if key.name in stored else key.initial()

    async def outline(
        self, run_id: str, *, after_step: int = 0, limit: int = 50
    ) -> Sequence[StepOutline]:
        """The steps of a run behind the step `after_step`, one row each: when, how long, which
        calls, tokens, cost, how it ended, the first words. A page costs the same anywhere in a run.

        Raises:
            NotFound: no such run.
        """
        parse_id("run_id", run_id)
        parse_argument("after_step", after_step, Count)
        parse_argument("limit", limit, Count)
        return await engine.outline(self._store, run_id, after_step=after_step, limit=limit)

    async def find_run(self, run_id: str) -> RunRecord | None:
        """The record of a run, with the state it left."""
        return await self._store.load_run(parse_id("run_id", run_id))

    async def list_runs(self, query: RunQuery | None = None) -> Page[RunRecord]:
        """Runs, newest first."""
        return await self._store.list_runs(_parse_query(query, engine.RunQuery()))

    async def list_threads(self, query: ThreadQuery | None = None) -> Page[Thread]:
        """Threads, ordered by when a run last began, paused or ended in them, latest first."""
        return await self._store.list_threads(_parse_query(query, engine.ThreadQuery()))

    async def list_tickets(self, query: TicketQuery | None = None) -> Page[Ticket]:
        """Tickets, oldest first; only the open ones if there is no query."""
        is_open = engine.TicketQuery(status=TicketStatus.OPEN)
        return await self._store.list_tickets(_parse_query(query, is_open))

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_thread(
        self,
        thread: str,
        *,
        children: ChildStrategy | Literal["reject", "detach", "cascade"] = "reject",
        force: bool = False,
        principal: Principal | None = None,
    ) -> DeleteResult:
        """Delete a thread and all that belongs to it.

        `children` says what happens to threads that it started: `reject` refuses to delete a
        thread that has some, `detach` keeps them, `cascade` deletes them, too.

        With `force`, runs that are not over and have no owner are deleted, too. Use it for a run
        that can no longer end: a run on a remote agent that never answers again stays open even
        after it was cancelled. The remote agent is not stopped by this, and its answer will be
        lost. Nothing is left of the thread; the log (`awaken.runtime`) says which `principal`
        deleted it.

        Raises:
            NotFound: no such thread.
            ThreadOwned: it is running.
            RunOpen: a run of it, or one that would go with it, is not over: cancel it first, or use
                `force`. Or the thread belongs to a run that is not over: cancel that first.
            InvalidRecord: it has children, and `children` says to refuse that.
        """
        parse_id("thread", thread)
        parse_principal(principal)
        now = self._clock.now_ms()
        what = parse_word("children", children, engine.ChildStrategy)
        freed = await self._store.delete_thread(thread, children=what, force=force, at_ms=now)
        if principal is not None:
            log.info("thread %s was deleted by %s", thread, principal.id)
        return freed

    async def prune(self, *, older_than: float | timedelta) -> DeleteResult:
        """Delete threads that were last written more than `older_than` (seconds) ago, unless they
        have, or belong to, an open run. Then delete blobs, as `sweep_blobs` does."""
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        check_seconds("older_than", seconds)
        before_ms = round(max(self._clock.now_ms() - seconds * 1000, 0))
        freed = await self._store.prune(before_ms=before_ms)
        await self._forget_deleted()
        swept = await self.sweep_blobs()
        return msgspec.structs.replace(freed, blobs=swept.blobs, bytes=freed.bytes + swept.bytes)

    async def forget_scope(self, scope: str) -> DeleteResult:
        """Delete everything that a tenant has: keys, sessions and the audit in the store, threads
        with their runs, profiles, and blobs.

        Threads that run are kept: cancel them first. It is done in steps, and may be repeated after
        it was cut short. The ids of deleted threads are kept for seven days, so that a submission
        that comes late makes none of them again.

        Raises:
            InvalidId: this is not the name of a tenant.
        """
        if not engine.is_scope(parse_id("scope", scope)):
            raise InvalidId(scope, what="scope", allowed="1 to 63 characters of a-z, 0-9 and '-'")
        now = self._clock.now_ms()
        await self._store.access.clear_scope(scope)  # first: no key of theirs makes new threads
        freed = await self._store.forget_scope(scope, at_ms=now)
        await self._forget_deleted()
        await self._store.profiles.clear_scope(scope)
        if self._blobs is None:
            return freed
        # A millisecond later: blobs of this very moment are among them.
        swept = await self._blobs.delete_unreferenced(self._clock.now_ms() + 1, scope=scope)
        return msgspec.structs.replace(freed, blobs=swept.blobs, bytes=freed.bytes + swept.bytes)

    async def sweep_blobs(self) -> FreedBlobs:
        """Delete the blobs that no thread uses, if they were put a day ago or earlier: a younger
        one may be waiting for the commit that uses it."""
        if self._blobs is None:
            return engine.FreedBlobs()
        return await self._blobs.delete_unreferenced(self._clock.now_ms() - _DAY_MS)


def _parse_query(query: Q | None, usual: Q) -> Q:
    """The query of a list, or the usual one if the caller gave none.

    Raises:
        ConfigError: it is no such query, or a value in it has a wrong type.
    """
    if query is None:
        return usual
    kind = type(usual)
    parsed: Q = parse_argument("query", query, kind, f"{kind.__name__}(limit=10)")
    for name in _NUMBERS.intersection(kind.__struct_fields__):
        parse_argument(f"query.{name}", getattr(parsed, name), Count | None)
    for name in kind.__struct_fields__:
        value = getattr(parsed, name)
        if isinstance(value, str) and name not in _FREE_TEXTS:
            parse_id(f"query.{name}", value)
    return parsed


_FREE_TEXTS = ("user", "label")
_NUMBERS = frozenset({"limit", "since", "updated_after_ms"})


def _parse_patch(patch: ThreadPatch) -> ThreadPatch:
    parsed: ThreadPatch = parse_argument(
        "patch", patch, ThreadPatch, "ThreadPatch(title='Holidays')"
    )
    return parsed


def _check_key(key: object) -> None:
    if not isinstance(key, StateKey):
        raise ConfigError(f"key is a StateKey, not {key!r}")
