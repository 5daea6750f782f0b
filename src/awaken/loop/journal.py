"""What a run tells: events out, in one order, the durable ones with the commit they belong to."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from awaken.clock import Clock
from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import (
    CallEntry,
    Commits,
    Committed,
    Fence,
    ThreadCommit,
    has_outcomes,
)
from awaken.contract.events import EventSink, NullEventSink
from awaken.contract.streams import StreamPiece
from awaken.control.cancel import is_ours
from awaken.control.tasks import start_task
from awaken.domain.event import AgentEvent, RunEvent
from awaken.domain.identity import RunIdentity
from awaken.domain.message import Message
from awaken.domain.run import RunRecord
from awaken.domain.ticket import Ticket
from awaken.errors import (
    CommitUnknown,
    InvalidRecord,
    Serialization,
    StorageError,
    StoreUnavailable,
)

_ATTEMPTS = 3
PATIENCE = 10.0
"""For how many seconds a commit with the outcome of a call is tried again while the store is away;
what it has not taken by then is kept in memory."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


class Journal:
    """The only place a run's events and commits come from.

    `calls`, `tickets`, `acks` and `sends` collect what goes with the next commit. A run that does
    not begin here, but goes on, has its thread's place among others settled. `unkept` are the
    commits of a run that broke off because the store was away, in their order, if they tell how
    calls ended: they are still to be made.
    """

    __slots__ = (
        "_clock",
        "_commits",
        "_durable",
        "_failure",
        "_holds",
        "_immediate",
        "_later",
        "_lost",
        "_now",
        "_parent_run",
        "_parent_thread",
        "_refused",
        "_run",
        "_thread",
        "_under_way",
        "acks",
        "calls",
        "ends_stream",
        "fence",
        "is_unsettled",
        "length",
        "live",
        "sends",
        "sink",
        "tickets",
        "unkept",
    )

    def __init__(
        self,
        sink: EventSink,
        commits: Commits | None,
        identity: RunIdentity,
        clock: Clock,
        length: int,
        fence: Fence | None = None,
        *,
        begins: bool = True,
        unkept: list[ThreadCommit] | None = None,
    ) -> None:
        self.unkept = [] if unkept is None else unkept
        self._holds = False
        self.sink = sink
        self.live = not isinstance(sink, NullEventSink)
        self.length = length
        self.fence = fence
        self.calls: list[CallEntry] = []
        self.tickets: list[Ticket] = []
        self.acks: list[int] = []
        self.sends: list[ThreadCommand] = []
        self.ends_stream = False
        self._commits = commits
        self._immediate = commits is not None and commits.immediate
        self._clock = clock
        self._now = 0
        self._thread, self._run = identity.thread_id, identity.run_id
        self._parent_run = identity.parent_run_id
        self._parent_thread = identity.parent_thread_id if begins else None
        # What the next commit keeps, and what is sent after it: a place in the former, or an
        # event nobody keeps.
        self._durable: list[RunEvent] = []
        self._later: list[int | RunEvent] = []
        self._under_way: asyncio.Future[None] | None = None
        self._failure: StorageError | None = None
        self._refused: ThreadCommit | None = None
        self._lost: tuple[ThreadCommit, list[int | RunEvent]] | None = None
        # Whether a commit is under way, or nobody knows what became of it, or it failed.
        self.is_unsettled = False

    # -- events -------------------------------------------------------------------------------

    def envelope(self, event: AgentEvent) -> RunEvent:
        now = self._clock.now_ms()
        if now != self._now:
            # Events of one instant share one number: a busy process keeps very many of them.
            self._now = now
        return RunEvent(
            thread_id=self._thread,
            run_id=self._run,
            parent_run_id=self._parent_run,
            at_ms=self._now,
            event=event,
        )

    async def send(self, event: RunEvent) -> None:
        """Give an event to the sink. One that fails is not asked again; the run goes on."""
        try:
            await self.sink.emit(event)
        except BaseException as error:
            if is_ours(error):
                raise
            self.live = False
            log.exception("the event sink of run %s failed and is not used any more", self._run)

    async def pass_on(self, event: RunEvent) -> None:
        """Send an event of another run, if anybody listens."""
        if self.live:
            await self.send(event)

    async def tell(self, event: AgentEvent) -> None:
        """Send a transient event, if anybody listens."""
        if self.live:
            await self.send(self.envelope(event))

    def begin(self, event: AgentEvent) -> RunEvent:
        """Keep a durable event that tells of a beginning: whoever listens is sent it at once."""
        envelope = self.envelope(event)
        self._durable.append(envelope)
        return envelope

    def note(self, event: AgentEvent) -> None:
        """Send a durable event once the next commit has made it true."""
        if self.live:
            self._later.append(len(self._durable))
        self._durable.append(self.envelope(event))

    def note_transient(self, event: AgentEvent) -> None:
        """Send an event nobody keeps in its place among those of the next commit."""
        if self.live:
            self._later.append(self.envelope(event))

    def holds(self, kind: type[AgentEvent]) -> bool:
        """Whether an event of that kind waits for a commit."""
        return any(isinstance(entry.event, kind) for entry in self._durable)

    @property
    def has_pending(self) -> bool:
        return bool(self._durable or self.tickets or self.acks or self.sends)

    # -- commits ------------------------------------------------------------------------------

    async def commit(
        self,
        messages: tuple[Message, ...],
        record: RunRecord,
        run_state: dict[str, msgspec.Raw],
        thread_state: dict[str, msgspec.Raw],
        *,
        release: bool = False,
        wait: bool = True,
    ) -> None:
        """Make everything since the last commit true, then send what was noted.

        Without `wait` it may still be under way on return; whatever depends on it, and the next
        commit, calls `settled` first.

        Raises:
            StorageError: the store refused or failed; nothing is claimed.
        """
        if self.is_unsettled:
            await self.settled()
        durable, later = tuple(self._durable), self._later
        self._durable.clear()
        self._later = []
        commits = self._commits
        if commits is None:
            self.calls.clear()
            for item in later:
                if self.live:
                    await self.send(durable[item] if isinstance(item, int) else item)
            return
        commit = ThreadCommit(
            thread_id=self._thread,
            expected_length=self.length,
            messages=messages,
            run=record,
            run_state=run_state,
            thread_state=thread_state,
            events=durable,
            calls=tuple(self.calls),
            at_ms=self._now if durable else self._clock.now_ms(),
            fence=self.fence,
            release=release,
        )
        self.calls.clear()
        if (
            self.tickets
            or self.acks
            or self.sends
            or self.ends_stream
            or self._parent_thread is not None
        ):
            commit = self._with_the_rest(commit)
        if self._holds:
            self._hold(commit)
            return
        if self._immediate:
            try:
                committed = await commits.commit(commit)
            except BaseException as error:
                if is_ours(error):
                    raise
                committed = await self._after_error(commits, commit, later, error)
            self.length = committed.length
            return await self._kept(commit, later, committed) if later else None
        if wait:
            return await self._keep(commits, commit, later)
        self.is_unsettled = True
        self._under_way = start_task(self._keep(commits, commit, later))

    def _with_the_rest(self, commit: ThreadCommit) -> ThreadCommit:
        """A commit with what few of them have."""
        commit = _replace(
            commit,
            tickets=tuple(self.tickets),
            acks=tuple(self.acks),
            sends=tuple(self.sends),
            parent_thread_id=self._parent_thread,
            ends_stream=self.ends_stream,
        )
        self.ends_stream = False
        # A thread takes its parent with the first commit; by the next one that may be deleted.
        self._parent_thread = None
        self.tickets.clear()
        self.acks.clear()
        self.sends.clear()
        return commit

    @property
    def keeps_streams(self) -> bool:
        """Whether pieces of an answer can be kept, and would outlive this process."""
        return self._commits is not None and not self._immediate and self.fence is not None

    async def keep_piece(self, piece: StreamPiece) -> bool:
        """Keep a piece of an answer that is still being written; the next commit drops them all.

        That it fails is only worth a warning: more of the answer is asked for again then.
        """
        if self._commits is None or self.fence is None:
            return False
        self.ends_stream = True
        try:
            await self._commits.keep_piece(self.fence, piece)
        except BaseException as error:
            if is_ours(error):
                raise
            log.warning("a piece of run %s could not be kept: %s", self._run, error)
            return False
        return True

    async def settled(self) -> None:
        """Wait for the commit that is under way, if there is one.

        Raises:
            StorageError: the store refused or failed; nothing is claimed.
        """
        under_way = self._under_way
        if under_way is not None:
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                under_way.exception()  # it is kept as the journal's failure
            if self._under_way is under_way:
                self._under_way = None
        if self._lost is not None and self._commits is not None:
            (commit, later), self._lost = self._lost, None
            lost = CommitUnknown("whoever waited for it was cancelled")
            # Who was torn down is not waited for: what the store does not take now is held.
            committed = await self._after_error(self._commits, commit, later, lost, patience=0)
            await self._kept(commit, later, committed)
        if self._failure is not None:
            raise self._failure
        self.is_unsettled = self._under_way is not None

    def forgive(self, failure: StorageError) -> ThreadCommit | None:
        """Go on after a commit no store could write, and return it: what it held is dropped."""
        refused = self._refused
        if refused is None or not isinstance(failure.cause, Serialization | InvalidRecord):
            return None
        self._refused = self._failure = self._lost = None
        self._durable.clear()
        self._later.clear()
        self.is_unsettled = self._under_way is not None
        return refused

    async def _keep(
        self, commits: Commits, commit: ThreadCommit, later: list[int | RunEvent]
    ) -> None:
        try:
            committed = await commits.commit(commit)
        except BaseException as error:
            if is_ours(error):
                # It may happen all the same; the run that goes on finds out first.
                self._lost, self.is_unsettled = (commit, later), True
                raise
            committed = await self._after_error(commits, commit, later, error)
        await self._kept(commit, later, committed)

    async def _kept(
        self, commit: ThreadCommit, later: list[int | RunEvent], committed: Committed
    ) -> None:
        self.length = committed.length
        for item in later:
            if not self.live:
                return
            if isinstance(item, int):
                seq = committed.first_event_seq + item
                await self.send(_replace(commit.events[item], seq=seq))
            else:
                await self.send(item)

    async def _after_error(
        self,
        commits: Commits,
        commit: ThreadCommit,
        later: list[int | RunEvent],
        error: BaseException,
        *,
        patience: float | None = None,
    ) -> Committed:
        """What a commit comes to in the end: where the answer was lost, find out; where the store
        is away and calls have ended, wait for it, though not for ever.

        Raises:
            StorageError: nothing can be kept from here on; whoever asks later is told, too.
        """
        lost, pause, began = 0, _FIRST_PAUSE, self._clock.monotonic()
        patience = PATIENCE if patience is None else patience
        try:
            while True:
                if isinstance(error, CommitUnknown) and lost < _ATTEMPTS:
                    lost += 1
                    log.warning("thread %s: %s; reading back", commit.thread_id, error)
                elif _is_worth_waiting(commit, error) and (
                    self._clock.monotonic() - began < patience
                ):
                    log.warning("thread %s: %s; trying again", commit.thread_id, error)
                    await self._clock.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                else:
                    break
                try:
                    committed = await commits.settle(commit)
                    return committed if committed is not None else await commits.commit(commit)
                except BaseException as next_error:
                    if is_ours(next_error):
                        raise
                    error = next_error
        except asyncio.CancelledError:
            self._lost, self.is_unsettled = (commit, later), True
            raise
        self._durable = [*commit.events, *self._durable]
        self._refused, self._failure = commit, StorageError(error)
        self.is_unsettled = True
        raise self._failure from error

    # -- while the store is away --------------------------------------------------------------

    async def stop(self) -> None:
        """Stop waiting for the commit that is under way, if there is one; it can be held."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.cancel()
            await asyncio.wait([under_way])

    def hold(self) -> bool:
        """Keep the commit that failed, or whose caller was cancelled, and those that follow, in
        `unkept`, so that they can be made later; false if nothing is lost by forgetting it."""
        refused, failure = self._refused, self._failure
        if self._lost is not None and has_outcomes(self._lost[0].calls):
            refused = self._lost[0]
        elif refused is None or failure is None or not _is_worth_waiting(refused, failure.cause):
            return False
        else:
            self._durable = self._durable[len(refused.events) :]
        self._later.clear()
        self._refused = self._failure = self._lost = None
        self._holds, self.is_unsettled = True, False
        self._hold(refused)
        return True

    def _hold(self, commit: ThreadCommit) -> None:
        self.unkept.append(commit)
        self.length += len(commit.messages)


def _is_worth_waiting(commit: ThreadCommit, error: object) -> bool:
    """Whether a commit tells how calls ended, and the store may take it at another time."""
    return isinstance(error, StoreUnavailable | CommitUnknown) and has_outcomes(commit.calls)
