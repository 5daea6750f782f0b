"""The journal of a live run: it sends the run's events and makes the run's commits.

A transient event is sent at once. A durable event is stored with the next commit and sent after it,
so that listeners do not receive an end that a crash could undo. An event of `begin` is durable,
too, but its caller sends it at once, ahead of its commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from awaken.clock import Clock
from awaken.core.aio.cancel import is_cancellation
from awaken.core.aio.owned_tasks import start_task
from awaken.core.bus import NO_TOPIC, Progress, Topic
from awaken.core.event import AgentEvent, EventSink, RunEvent, StepSnapshot, StreamReset
from awaken.core.identity import RunIdentity
from awaken.core.message import Message
from awaken.core.request_manifest import RequestManifest, StoredText
from awaken.core.run import RunRecord
from awaken.core.store.commits import (
    CallEntry,
    Commits,
    Committed,
    Fence,
    StreamLogEntry,
    ThreadCommit,
    commits_at_once,
    has_outcomes,
)
from awaken.engine.commit_state import (
    HELD,
    PATIENCE,
    SETTLED,
    CommitExtras,
    CommitState,
    Later,
    Lost,
    RefusedCommit,
    UnderWay,
    commit_again,
    is_worth_waiting,
    may_follow,
    readable_part,
)
from awaken.engine.event_sender import EventSender
from awaken.engine.run_setup import RunSetup
from awaken.errors import CommitUnknown, InvalidRecord, Serialization, StorageError

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


class Journal(EventSender):
    """Sends the events of one run and makes its commits; no other object does.

    The loop fills `calls`, `requests`, `texts` and `extras`; the next commit stores them. `state`
    is the outcome of the last commit, and `seq` is the last durable event that was stored and
    sent. `keeps_streams` says whether a streamed answer can be stored where it outlives this
    process. A run without a store has a journal that only sends.

    Args:
        length: how many messages the thread's log has.
        seq: how many durable events it has.
        topic: the thread's topic on the live bus.
        begins: whether this is the run's first activation; its first commit then stores the
            thread's parent.
        pending_commits: receives the commits that the store did not take before the run failed, in
            their order, from the first that has the outcome of a call. The caller makes them later.
    """

    __slots__ = (
        "_begun",
        "_commits",
        "_durable",
        "_extras",
        "_is_immediate",
        "_later",
        "_leaves_out",
        "_promised",
        "_thread",
        "calls",
        "fence",
        "keeps_streams",
        "length",
        "pending_commits",
        "requests",
        "seq",
        "state",
        "texts",
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
        seq: int = 0,
        topic: Topic = NO_TOPIC,
        begins: bool = True,
        pending_commits: list[ThreadCommit] | None = None,
    ) -> None:
        EventSender.__init__(self, sink, topic, identity, clock)
        self.state: CommitState = SETTLED
        self.pending_commits = [] if pending_commits is None else pending_commits
        self.length, self.seq = length, seq
        self.fence = fence
        self.keeps_streams = commits is not None and not commits.immediate and fence is not None
        self.calls: list[CallEntry] = []
        self.requests: tuple[RequestManifest, ...] = ()
        self.texts: tuple[StoredText, ...] = ()
        self._extras: CommitExtras | None = None
        # Whether commits are made without what could not be read back: see `forgive`.
        self._leaves_out = False
        self._commits = commits
        self._is_immediate = commits_at_once(commits)
        self._thread = identity.thread_id
        if begins and identity.parent_thread_id is not None:
            # A thread gets its parent with its first commit; by the next one it may be deleted.
            self.extras.parent_thread_id = identity.parent_thread_id
        # The events the next commit stores, and what listeners are sent after it.
        self._durable: list[RunEvent] = []
        self._later: list[int | RunEvent] = []
        # The `seq` of the last event in a commit, made or not; and by their own, the events of this
        # step that went ahead.
        self._promised = seq
        self._begun: dict[int, RunEvent] = {}

    def _set_state(self, state: CommitState) -> None:
        """Change `state`; no other method does. It asserts that the new state may follow."""
        assert may_follow(self.state, state), f"{type(state)} after {type(self.state)}"
        self.state = state

    @property
    def extras(self) -> CommitExtras:
        """The rarer parts of the next commit, to be filled."""
        if self._extras is None:
            self._extras = CommitExtras()
        return self._extras

    # -- events -------------------------------------------------------------------------------

    def enter_step(self) -> None:
        """Drop the events of the last step that were kept for late listeners."""
        if self.outputs:
            self.outputs = {}
        if self._begun and next(reversed(self._begun)) <= self.seq:
            self._begun.clear()

    def begin(self, event: AgentEvent, at_ms: int | None = None) -> RunEvent | None:
        """Store an event with the next commit. Returns it for the caller to send at once, ahead of
        that commit, or `None` if there is no listener. `at_ms` is the time, if the caller has read
        it already."""
        durable, now = self._durable, self._clock.now_ms() if at_ms is None else at_ms
        envelope = _replace(self._blank, at_ms=now, event=event)
        durable.append(envelope)
        if self.fence is None:
            return envelope if self.has_reader else None
        # Only the owner writes the thread, so the number that the event will have is known.
        seq = self._promised + len(durable)
        self._begun[seq] = envelope
        if not (self.has_reader or self.topic.wanted):
            return None
        return _replace(envelope, seq=seq, ahead=True, live=self._next_position())

    async def send_again(self, event: AgentEvent, seq: int | None) -> None:
        """Send a durable event that an earlier owner has stored under `seq`, if there is a
        listener."""
        if self.has_listener():
            await self.send(_replace(self.transient(event), seq=seq, again=True))

    def note(self, event: AgentEvent, at_ms: int | None = None) -> None:
        """Store an event with the next commit, and send it once that commit is made."""
        if self.has_reader or self.topic.wanted:
            self._later.append(len(self._durable))
        now = self._clock.now_ms() if at_ms is None else at_ms
        self._durable.append(_replace(self._blank, at_ms=now, event=event))

    def last_promised(self) -> int:
        """The `seq` that the last event stored, or to be stored by the next commit, has."""
        return self._promised + len(self._durable)

    def note_transient(self, event: AgentEvent) -> None:
        """Send a transient event with the next commit, in its place among the noted events."""
        if self.has_listener():
            self._later.append(_replace(self._blank, at_ms=self._clock.now_ms(), event=event))

    def progress(self, step: StepSnapshot | None) -> Progress:
        """The progress of the run, for its topic; `step` is the part of its open step so far."""
        if step is not None and self.outputs:
            step = _replace(step, outputs=dict(self.outputs))
        ahead = [
            _replace(event, seq=seq, ahead=True)
            for seq, event in self._begun.items()
            if seq > self.seq
        ]
        return Progress(self._run, self.seq, tuple(ahead), step)

    def has_noted(self, kind: type[AgentEvent]) -> bool:
        """Whether the next commit will store an event of that kind."""
        return any(isinstance(entry.event, kind) for entry in self._durable)

    @property
    def has_pending(self) -> bool:
        """Whether the next commit has something to store, other than lines of the call ledger."""
        extras = self._extras
        return bool(self._durable) or (
            extras is not None and bool(extras.tickets or extras.acks or extras.sends)
        )

    # -- commits ------------------------------------------------------------------------------

    async def commit(self, *parts: Any, **options: Any) -> None:
        """Commit everything since the last commit: `start_commit`, awaited."""
        if (making := self.start_commit(*parts, **options)) is not None:
            await making

    def start_commit(
        self,
        messages: tuple[Message, ...],
        record: RunRecord,
        run_state: dict[str, msgspec.Raw],
        thread_state: dict[str, msgspec.Raw],
        release: bool = False,
        wait: bool = True,
    ) -> Coroutine[Any, Any, None] | None:
        """Commit everything since the last commit, then send the noted events. The caller awaits
        the returned coroutine, if there is one.

        Without `wait`, the commit may still be under way after that; code that depends on it awaits
        `wait_settled` first. The next commit does so by itself.

        Raises:
            StorageError: when awaited; this commit or the one before it was not made, and its
                events were not sent.
        """
        # Not a coroutine itself, because every step makes two commits, and some stores never wait.
        if self.state is not SETTLED and self.state is not HELD:
            return self._commit_next(messages, record, run_state, thread_state, release, wait)
        events = tuple(self._durable)
        self._durable.clear()
        self._promised += len(events)
        later: Later = ()
        if self._later:
            later, self._later = self._later, []
        commits = self._commits
        if commits is None:
            self.calls.clear()
            return self._pass_on_all(events, later)
        commit = ThreadCommit(
            thread_id=self._thread,
            expected_length=self.length,
            messages=messages,
            run=record,
            run_state=run_state,
            thread_state=thread_state,
            events=events,
            calls=tuple(self.calls),
            at_ms=events[-1].at_ms if events else self._clock.now_ms(),
            fence=self.fence,
            release=release,
            requests=self.requests,
            texts=self.texts,
        )
        self.calls.clear()
        self.requests = self.texts = ()
        if self._extras is not None:
            commit, self._extras = self._extras.add_to(commit), None
        if self._leaves_out:
            commit = readable_part(commit)
        if self.state is HELD:
            self._hold(commit)
            return None
        if self._is_immediate and not (later or self.topic.wanted):
            return self._make_now(commits, commit)
        if wait or commits.immediate:
            return self._make(commits, commit, later)
        # The state owns the task: `wait_settled` and `stop` wait for its end.
        making = self._make_beside(commits, commit, later)
        self._set_state(UnderWay(start_task(making), commit, later))
        return None

    async def _commit_next(self, *parts: Any) -> None:
        """Wait for the commit before, and make the next one of these `parts`."""
        await self.wait_settled()
        await self.commit(*parts)

    async def _pass_on_all(self, events: Sequence[RunEvent], later: Later) -> None:
        for item in later:
            await self.pass_on(events[item] if isinstance(item, int) else item)

    def _make_now(self, commits: Any, commit: ThreadCommit) -> Coroutine[Any, Any, None] | None:
        """Make a commit in a store that never waits, for a run without listeners. If the store
        refuses it, the caller awaits the returned coroutine."""
        try:
            committed: Committed = commits.commit_now(commit)
        except Exception:
            return self._make(commits, commit, ())  # refused without a change, so again, with care
        self.length = committed.length
        self.seq = committed.first_event_seq + len(commit.events) - 1
        return None

    async def _make(self, commits: Commits, commit: ThreadCommit, later: Later) -> None:
        """Make a commit, then send its events. Raises the same errors as `commit`."""
        try:
            committed = await commits.commit(commit)
        except BaseException as error:
            if is_cancellation(error):
                self._set_state(Lost(commit, later))
                raise
            committed = await self._after_error(commits, commit, later, error)
        self.length = committed.length
        if later or self.topic.wanted:
            await self._send_noted(commit, later, committed)
        self.seq = committed.first_event_seq + len(commit.events) - 1

    async def _make_beside(self, commits: Commits, commit: ThreadCommit, later: Later) -> None:
        under_way = self.state
        assert isinstance(under_way, UnderWay), "it is set when this task is made"
        under_way.begun = True
        try:
            await self._make(commits, commit, later)
        except StorageError:
            return  # the state is `RefusedCommit`: `wait_settled` raises it
        self._set_state(SETTLED)

    async def _send_noted(self, commit: ThreadCommit, later: Later, committed: Committed) -> None:
        if self.topic.wanted:
            self._skip_unsent(commit, later)
        for item in later:
            if not self.has_listener():
                return
            if isinstance(item, int):
                self.seq = committed.first_event_seq + item
                event = _replace(commit.events[item], seq=self.seq, live=self._next_position())
            else:
                event = _replace(item, live=self._next_position())
            await self.send(event)

    def _skip_unsent(self, commit: ThreadCommit, later: Later) -> None:
        """Leave a number of live events out if listeners have not heard some event of a commit, nor
        will: there was none when the event was noted. One that came before the commit was made
        finds out by the number that it has to read the store."""
        told = {id(event) for event in self._begun.values()}
        told.update(id(commit.events[item]) for item in later if isinstance(item, int))
        if any(id(event) not in told for event in commit.events):
            self.topic.n += 1

    async def wait_settled(self) -> None:
        """Wait until the last commit is made. If its outcome is unknown, ask the store for it.

        Raises:
            StorageError: the commit was not made; its events were not sent.
        """
        while isinstance(state := self.state, UnderWay):
            await asyncio.wait([state.task])
            self._after_under_way(state)
        if isinstance(state, Lost) and self._commits is not None:
            unknown = CommitUnknown("the task that waited for it was cancelled")
            # A run that was cancelled has no time to wait: what the store does not take is held.
            committed = await self._after_error(
                self._commits, state.commit, state.later, unknown, patience=0
            )
            self._set_state(SETTLED)
            self.length = committed.length
            await self._send_noted(state.commit, state.later, committed)
            self.seq = committed.first_event_seq + len(state.commit.events) - 1
        elif isinstance(state, RefusedCommit):
            raise state.error

    async def _after_error(
        self,
        commits: Commits,
        commit: ThreadCommit,
        later: Later,
        error: BaseException,
        *,
        patience: float = PATIENCE,
    ) -> Committed:
        """Make a commit that failed with `error`, and return the store's answer.

        Raises:
            StorageError: the commit was not made; the state is `RefusedCommit`.
        """
        try:
            return await commit_again(commits, commit, error, self._clock, patience=patience)
        except asyncio.CancelledError:
            self._set_state(Lost(commit, later))
            raise
        except StorageError as failure:
            self._durable = [*commit.events, *self._durable]
            self._promised -= len(commit.events)
            self._set_state(RefusedCommit(commit, failure))
            raise

    # -- after a failure ----------------------------------------------------------------------

    def forgive(self, failure: StorageError) -> ThreadCommit | None:
        """Drop a refused commit that no store could write, so that the run can commit again. If a
        value in it was at fault, later commits leave out such values: the run can end, and no
        process begins it again.

        Returns the dropped commit, or `None` if there is none, another try could succeed, or a
        commit without such values was refused as well.
        """
        state, why = self.state, failure.cause
        if not isinstance(state, RefusedCommit) or not isinstance(
            why, Serialization | InvalidRecord
        ):
            return None
        if isinstance(why, Serialization):
            if self._leaves_out:
                return None
            self._leaves_out = True
        self._set_state(SETTLED)
        self._durable.clear()
        self._later.clear()
        ahead = any(seq > self.seq for seq in self._begun)
        self._begun.clear()
        if ahead:
            # Their numbers will be those of other events.
            reason = "the step could not be stored"
            self.note_transient(StreamReset(reason=reason, from_seq=self._promised + 1))
        return state.commit

    async def stop(self) -> None:
        """Cancel the commit under way, if there is one; then it is lost, and can be held."""
        state = self.state
        if isinstance(state, UnderWay):
            state.task.cancel()
            await asyncio.wait([state.task])
            self._after_under_way(state)

    def _after_under_way(self, ended: UnderWay) -> None:
        """Set the state after a commit whose task has ended without setting it."""
        if self.state is not ended:
            return
        if ended.begun:
            self._set_state(SETTLED)  # only the sending of its events was cut short
        else:
            self._set_state(Lost(ended.commit, ended.later))

    def hold(self) -> bool:
        """Put the commit that failed or was lost, and all that follow, into `pending_commits`.

        Returns false if that is of no use: the commit has no outcome of a call, so the process that
        takes the run over repeats the work, or the store will never take it.
        """
        state = self.state
        if isinstance(state, Lost) and has_outcomes(state.commit.calls):
            pass
        elif isinstance(state, RefusedCommit) and is_worth_waiting(state.commit, state.error.cause):
            self._durable = self._durable[len(state.commit.events) :]
            self._promised += len(state.commit.events)
        else:
            return False
        self._later.clear()
        self._set_state(HELD)
        self._hold(state.commit)
        return True

    def _hold(self, commit: ThreadCommit) -> None:
        self.pending_commits.append(commit)
        self.length += len(commit.messages)

    # -- streams ------------------------------------------------------------------------------

    async def keep_piece(self, piece: StreamLogEntry) -> bool:
        """Append to the thread's stream log; the next commit deletes the log.

        Returns false if the piece could not be stored: a process that takes over then requests more
        of the answer again.
        """
        if self._commits is None or self.fence is None:
            return False
        self.extras.ends_stream = True
        try:
            await self._commits.append_stream(self.fence, piece)
        except BaseException as error:
            if is_cancellation(error):
                raise
            log.warning("a piece of run %s could not be kept: %s", self._run, error)
            return False
        return True


def open_journal(setup: RunSetup) -> Journal:
    """The journal of a run, with the parts of its first commit that are not messages or state."""
    thread, first = setup.thread, setup.first_commit
    journal = Journal(
        setup.sink,
        setup.services.store,
        setup.identity,
        setup.services.clock,
        thread.log_length,
        thread.fence,
        seq=thread.event_count,
        topic=setup.topic,
        begins=thread.previous is None,
        pending_commits=setup.pending_commits,
    )
    if first.has_extras:
        extras = journal.extras
        extras.acks.extend(first.acks)
        extras.tickets.extend(first.tickets)
        extras.sends.extend(first.sends)
        extras.rewinds_to = first.rewinds_to
    return journal
