"""Makes commits that continue a thread as a run would, with times and ids that count up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import MessageSeqRange, RunMessageOutput, RunRecord
from awaken.core.store.commits import CallEntry, CallPhase, Committed, ThreadCommit, call_key
from awaken.core.ticket import Ticket, TicketStatus
from awaken.testing.conformance.making import asks, event, raw, record, says, ticket

RUNS = ("1", "2")
KEYS = ("k0", "k1", "k2")
LATE = "k2"
"""The ticket with a time limit; those that are not `k1` share a call id."""


class Author:
    """Remembers what is needed to write the next commit of each thread."""

    def __init__(self) -> None:
        self.now = 0
        self.lengths: dict[str, int] = {}
        self.events: dict[str, int] = {}
        self.asked: dict[tuple[str, str], int] = {}
        self._born: dict[str, int] = {}
        self._turns: dict[str, tuple[Message, str]] = {}

    def tick(self) -> int:
        self.now += 1
        return self.now

    # -- making -------------------------------------------------------------------------------

    def commit(
        self,
        thread_id: str,
        *,
        words: int = 0,
        calls: int = 0,
        events: int = 0,
        run: tuple[str, RunStatus] | None = None,
        phases: Sequence[CallPhase] = (),
        run_state: Mapping[str, Any] | None = None,
        thread_state: Mapping[str, Any] | None = None,
        tickets: Mapping[str, TicketStatus] | None = None,
        **more: Any,
    ) -> ThreadCommit:
        """The next commit of a thread. Without a run it has no calls, ledger or run state."""
        now = self.tick()
        length = self.lengths.get(thread_id, 0)
        made = self._run(thread_id, length, *run) if run else None
        messages = says(*(f"{now}.{number}" for number in range(words)))
        turn = self._turns.get(thread_id)
        if made is not None and calls:
            asking = asks(f"turn {now}", *(f"c{index}" for index in range(calls)))
            turn = asking.mark_produced_by(made.run_id), made.run_id
            messages = (*messages, turn[0])
        told = event(thread_id=thread_id, run_id=made.run_id if made else "")
        return ThreadCommit(
            thread_id=thread_id,
            expected_length=length,
            messages=messages,
            run=made,
            run_state=raw(**(run_state or {})) if made else {},
            thread_state=raw(**(thread_state or {})),
            events=(told,) * events,
            calls=self._lines(*turn, phases) if turn and made and turn[1] == made.run_id else (),
            tickets=tuple(
                self._ticket(thread_id, made, *asked) for asked in (tickets or {}).items()
            ),
            at_ms=now,
            **more,
        )

    def _run(self, thread_id: str, length: int, name: str, status: RunStatus) -> RunRecord:
        run_id = f"{thread_id} {name}"
        return record(
            run_id,
            thread_id,
            agent_id=name,
            parent_run_id=f"{thread_id} {RUNS[0]}" if name != RUNS[0] else None,
            status=status,
            output=RunMessageOutput(thread_id=thread_id, range=MessageSeqRange.new(1, length)),
            created_at=self._born.get(run_id, self.now),
            updated_at=self.now,
            revision=self.now,
        )

    def _lines(
        self, turn: Message, run_id: str, phases: Sequence[CallPhase]
    ) -> tuple[CallEntry, ...]:
        """Ledger entries for calls of the run's last message with calls, or of this commit's."""
        return tuple(
            CallEntry(
                key=call_key(turn.id or "", index),
                run_id=run_id,
                call_id=call.id,
                tool_name=call.name,
                phase=phase,
                arguments={"at": self.now} if phase is CallPhase.INTENT else None,
            )
            for index, (call, phase) in enumerate(zip(turn.tool_calls or (), phases, strict=False))
        )

    def _ticket(
        self, thread_id: str, run: RunRecord | None, key: str, status: TicketStatus
    ) -> Ticket:
        return ticket(
            key,
            thread_id=thread_id,
            run_id=run.run_id if run else f"{thread_id} {RUNS[0]}",
            call_id=f"call-{key}" if key == "k1" else "same",
            asked_at=self.asked.get((thread_id, key), self.now * 10 + KEYS.index(key)),
            expires_at=self.now + 5 if key == LATE else None,
            status=status,
        )

    # -- remembering --------------------------------------------------------------------------

    def note(self, commit: ThreadCommit, committed: Committed) -> None:
        """Remember that a commit was written."""
        thread_id = commit.thread_id
        self.lengths[thread_id] = committed.length
        self.events[thread_id] = committed.first_event_seq - 1 + len(commit.events)
        if commit.run is not None:
            self._born.setdefault(commit.run.run_id, commit.run.created_at)
            for message in commit.messages:
                if message.tool_calls:
                    self._turns[thread_id] = message, commit.run.run_id
        for asked in commit.tickets:
            self.asked.setdefault((thread_id, asked.key), asked.asked_at)

    def note_fork(self, thread_id: str, length: int, events: int) -> None:
        self.lengths[thread_id], self.events[thread_id] = length, events

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Forget deleted threads."""
        for thread_id in thread_ids:
            del self.lengths[thread_id], self.events[thread_id]
            self._turns.pop(thread_id, None)
            for name in RUNS:
                self._born.pop(f"{thread_id} {name}", None)
            for key in KEYS:
                self.asked.pop((thread_id, key), None)
