"""What a run tells: events out, in one order, the durable ones with the commit they belong to."""

from __future__ import annotations

import logging

import msgspec

from awaken.clock import Clock
from awaken.contract.commits import CallEntry, Commits, Committed, Fence, ThreadCommit
from awaken.contract.events import EventSink, NullEventSink
from awaken.domain.event import AgentEvent, RunEvent
from awaken.domain.identity import RunIdentity
from awaken.domain.message import Message
from awaken.domain.run import RunRecord
from awaken.errors import StorageError

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


class Journal:
    """The only place a run's events and commits come from."""

    __slots__ = (
        "_clock",
        "_commits",
        "_durable",
        "_fence",
        "_later",
        "_now",
        "_parent_run",
        "_parent_thread",
        "_run",
        "_thread",
        "calls",
        "length",
        "live",
        "sink",
    )

    def __init__(
        self,
        sink: EventSink,
        commits: Commits | None,
        identity: RunIdentity,
        clock: Clock,
        length: int,
        fence: Fence | None = None,
    ) -> None:
        self.sink = sink
        self.live = not isinstance(sink, NullEventSink)
        self.length = length
        self.calls: list[CallEntry] = []
        self._commits = commits
        self._clock = clock
        self._now = 0
        self._fence = fence
        self._thread, self._run = identity.thread_id, identity.run_id
        self._parent_run, self._parent_thread = identity.parent_run_id, identity.parent_thread_id
        # What the next commit keeps, and what is sent after it: a place in the former, or an
        # event nobody keeps.
        self._durable: list[RunEvent] = []
        self._later: list[int | RunEvent] = []

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
        except Exception:
            self.live = False
            log.exception("the event sink of run %s failed and is not used any more", self._run)

    async def tell(self, event: AgentEvent) -> None:
        """Send a transient event, if anybody listens."""
        if self.live:
            await self.send(self.envelope(event))

    async def announce(self, *events: AgentEvent) -> None:
        """Send durable events at once: they tell of beginnings. The next commit keeps them."""
        for event in events:
            envelope = self.envelope(event)
            self._durable.append(envelope)
            if self.live:
                await self.send(envelope)

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

    async def commit(
        self,
        messages: tuple[Message, ...],
        record: RunRecord,
        run_state: dict[str, msgspec.Raw],
        thread_state: dict[str, msgspec.Raw],
    ) -> None:
        """Make everything since the last commit true, then send what was noted.

        Raises:
            StorageError: the store refused or failed; nothing is claimed.
        """
        durable, calls, later = tuple(self._durable), tuple(self.calls), self._later
        self._durable.clear()
        self.calls.clear()
        if later:
            self._later = []
        first_seq: int | None = None
        if self._commits is not None:
            try:
                committed: Committed = await self._commits.commit(
                    ThreadCommit(
                        thread_id=self._thread,
                        expected_length=self.length,
                        messages=messages,
                        run=record,
                        run_state=run_state,
                        thread_state=thread_state,
                        events=durable,
                        calls=calls,
                        parent_thread_id=self._parent_thread,
                        at_ms=self._now if durable else self._clock.now_ms(),
                        fence=self._fence,
                    )
                )
            except Exception as error:
                self._durable = list(durable)
                raise StorageError(error) from error
            self.length = committed.length
            first_seq = committed.first_event_seq
        for item in later:
            if self.live:
                await self.send(
                    _placed(durable[item], item, first_seq) if isinstance(item, int) else item
                )


def _placed(event: RunEvent, offset: int, first_seq: int | None) -> RunEvent:
    return event if first_seq is None else _replace(event, seq=first_seq + offset)
