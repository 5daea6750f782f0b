"""The cursor of a reader that follows a thread. Pure: no I/O, no waiting.

A reader gets every durable event once and in order. Live events come from the bus, which may lose,
repeat and delay them; commits come from the store, which has everything. A `FollowerCursor`
decides which of them the reader has not got yet.

- The cursor is the last durable event that the reader has for good. Only an event that was not sent
  ahead of its commit moves it.
- Events sent ahead are given, and remembered until their commit confirms them. They, and the deltas
  of an answer that is not stored, are void when another owner takes the thread over: the reader
  then gets a `StreamReset`.
- Of each answer, the reader has the deltas it was given. What is missing is given as further deltas
  if the rest fits, else as a `StepSnapshot` that replaces them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import msgspec

from awaken.core.bus import PublisherState, Replay
from awaken.core.event import (
    AgentEvent,
    InferenceComplete,
    ReasoningDelta,
    RunEvent,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.core.message import Message, Role
from awaken.core.store.threads import CommitView

_replace = msgspec.structs.replace
_TAKEN_OVER = "another process has taken the thread over"
_NOT_KEPT = "the answer was not kept"
_READER_RETURNED = "the reader came back"


class Desynchronized(Exception):
    """A live event does not follow the last one. The follower must read the store, then ask for the
    publisher's state."""


class _PartialStep(msgspec.Struct):
    """The part of one step's answer that the reader has; `stored` means that the answer is in the
    log, and complete.

    `beginning` and `deltas` are its text: joining at every delta would copy a long text each time.
    """

    run_id: str
    message_id: str
    beginning: str = ""
    deltas: list[str] = msgspec.field(default_factory=list)
    reasoning: str = ""
    calls: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    outputs: dict[str, str] = msgspec.field(default_factory=dict)
    stored: bool = False
    announced: bool = False

    @property
    def text(self) -> str:
        if self.deltas:
            self.text = self.beginning + "".join(self.deltas)
        return self.beginning

    @text.setter
    def text(self, text: str) -> None:
        self.beginning = text
        self.deltas.clear()

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.reasoning or self.calls or self.outputs)

    def all_calls(self) -> tuple[tuple[str, str, str], ...]:
        return tuple((id, name, written) for id, (name, written) in self.calls.items())

    def snapshot(self, outputs: Mapping[str, str]) -> StepSnapshot:
        """All of it, with other outputs."""
        return StepSnapshot(
            message_id=self.message_id,
            text=self.text,
            reasoning=self.reasoning,
            calls=self.all_calls(),
            outputs=dict(outputs),
        )

    def forget(self) -> None:
        self.text = self.reasoning = ""
        self.calls, self.outputs = {}, {}

    def take(self, event: AgentEvent) -> None:
        """Note a transient event that the reader is given."""
        match event:
            case TextDelta(delta=delta):
                self.deltas.append(delta)
            case ReasoningDelta(delta=delta):
                self.reasoning += delta
            case ToolCallStart(id=id, name=name):
                self.calls[id] = (name, "")
            case ToolCallDelta(id=id, args_delta=delta):
                name, written = self.calls.get(id, ("", ""))
                self.calls[id] = (name, written + delta)
            case ToolCallStreamDelta(id=id, delta=delta):
                self.outputs[id] = self.outputs.get(id, "") + delta
            case ToolCallCancel(id=id):
                self.calls.pop(id, None)
            case StreamReset():
                self.forget()
            case StepSnapshot():
                self.text, self.reasoning = event.text, event.reasoning
                self.calls = {id: (name, written) for id, name, written in event.calls}
                self.outputs = dict(event.outputs)

    def missing(self, whole: StepSnapshot) -> list[AgentEvent] | None:
        """The deltas that the reader lacks; `None` if what it has is not the beginning of
        `whole`."""
        calls = {id: (name, written) for id, name, written in whole.calls}
        if not (
            whole.text.startswith(self.text)
            and whole.reasoning.startswith(self.reasoning)
            and _fit(self.calls, calls)
            and all(whole.outputs.get(id, "").startswith(out) for id, out in self.outputs.items())
        ):
            return None
        found: list[AgentEvent] = []
        if rest := whole.reasoning[len(self.reasoning) :]:
            found.append(ReasoningDelta(delta=rest))
        if rest := whole.text[len(self.text) :]:
            found.append(TextDelta(delta=rest))
        for id, (name, written) in calls.items():
            if id not in self.calls:
                found.append(ToolCallStart(id=id, name=name))
            if rest := written[len(self.calls.get(id, ("", ""))[1]) :]:
                found.append(ToolCallDelta(id=id, args_delta=rest))
        for id, output in whole.outputs.items():
            if rest := output[len(self.outputs.get(id, "")) :]:
                found.append(
                    ToolCallStreamDelta(id=id, name=calls.get(id, ("", ""))[0], delta=rest)
                )
        return found


def _fit(had: Mapping[str, tuple[str, str]], now: Mapping[str, tuple[str, str]]) -> bool:
    return all(
        id in now and now[id][0] == name and now[id][1].startswith(written)
        for id, (name, written) in had.items()
    )


class FollowerCursor:
    """The position of a reader in one thread; `seq` is the last durable event that it has.

    Each method returns the events that the reader is given next, in order.

    Args:
        after: the last durable event that the reader has.
    """

    def __init__(self, thread_id: str, after: int = 0) -> None:
        self.seq = after
        self.thread_id = thread_id
        self._epoch = 0
        # The number of the last live event of that epoch; `None` if events may be missing.
        self._n: int | None = None
        self._ahead: dict[int, RunEvent] = {}
        self._answer: _PartialStep | None = None
        self._at_ms = 0

    @classmethod
    def from_replay(cls, thread_id: str, sent: Replay, n: int) -> Self | None:
        """The cursor of a reader whose last event was number `n` of those that an owner has sent;
        `None` if `sent` does not have all events that the reader has got since then."""
        cursor = cls(thread_id, sent.base.seq)
        try:
            cursor.on_publisher_state(sent.base)
            for event in sent.events:
                if cursor._n == n:
                    break
                cursor.on_live_event(event)
        except Desynchronized:
            return None
        return cursor if cursor._n == n else None

    def reset_event(self) -> RunEvent:
        """The reset for a reader that has got events behind its cursor from another follower."""
        return self._make_event("", StreamReset(reason=_READER_RETURNED, from_seq=self.seq + 1))

    def on_gap(self) -> None:
        """Note that live events may be missing: the next one is `Desynchronized`."""
        self._n = None

    # -- from the store -----------------------------------------------------------------------

    def on_commit(self, view: CommitView) -> list[RunEvent]:
        """What a commit of the thread adds to what the reader has."""
        return list(self._on_commit(view))

    def _on_commit(self, view: CommitView) -> Iterator[RunEvent]:
        if view.first_event + len(view.events) - 1 > self.seq:
            # The reader is ahead of the live events that it has not got yet.
            self.on_gap()
        answers = {m.id: m for m in view.messages if m.role is Role.ASSISTANT}
        if self._answer is None and view.first_event <= self.seq:
            self._answer = self._open_at(view)
        for event in view.events:
            seq = event.seq or 0
            if seq <= self.seq:
                continue
            yield from self._on_durable_event(event, seq, answers)
        yield from self._complete_stored_answer(answers)

    def _open_at(self, view: CommitView) -> _PartialStep | None:
        """The answer that is open at the cursor, if the cursor is inside a commit: the reader may
        have left before it was given the answer."""
        given: _PartialStep | None = None
        for event in view.events:
            if (event.seq or 0) > self.seq:
                break
            if isinstance(event.event, StepStart):
                given = _PartialStep(event.run_id, event.event.message_id)
            elif isinstance(event.event, InferenceComplete | StepEnd):
                given = None
        return given

    def _on_durable_event(
        self, event: RunEvent, seq: int, answers: Mapping[str | None, Message]
    ) -> Iterator[RunEvent]:
        self._at_ms = event.at_ms
        told = self._ahead.get(seq)
        if told is not None and not _is_same(told, event):
            yield from self._void(_TAKEN_OVER)
            told = None
        yield from self._complete_stored_answer(answers)
        if isinstance(event.event, StepEnd):
            yield from self._close()
        elif isinstance(event.event, StepStart) and told is None:
            yield from self._drop(event.event.message_id)
        self.seq = seq
        self._ahead.pop(seq, None)
        if told is None:
            yield from self._give(event)
        if isinstance(event.event, StepStart):
            yield from self._repeat_answer()
            yield from self._complete_stored_answer(answers)

    def _repeat_answer(self) -> Iterator[RunEvent]:
        """The step whose answer the reader has already begins in the log: a reader that clears a
        message when its step begins gets it back."""
        given = self._answer
        if given is None or not given.announced:
            return
        given.announced = False
        had = given.snapshot(given.outputs)
        given.forget()
        yield from self._complete(given, had)

    def _complete_stored_answer(self, answers: Mapping[str | None, Message]) -> Iterator[RunEvent]:
        """Complete what the reader has of the open answer, if that is in the log."""
        given = self._answer
        answer = answers.get(given.message_id) if given is not None else None
        if given is None or answer is None or given.stored:
            return
        whole = StepSnapshot.of(answer)
        if not given.is_empty:
            # The events of its calls have their arguments, and the log does not have the outputs.
            whole = _replace(whole, calls=given.all_calls(), outputs=given.outputs)
        given.stored = True
        yield from self._complete(given, whole)

    def _close(self) -> Iterator[RunEvent]:
        """The step ends: deltas of an answer that is not in the log are void."""
        given, self._answer = self._answer, None
        if given is not None and not given.stored and (given.text or given.reasoning):
            yield self._make_event(given.run_id, StreamReset(reason=_NOT_KEPT))

    def _drop(self, message_id: str) -> Iterator[RunEvent]:
        """The thread goes on with another answer: what was given of one that is not in the log, and
        is not this one, is void."""
        given = self._answer
        if given is None or given.stored or given.message_id == message_id:
            return
        self._answer = None
        if not given.is_empty:
            yield self._make_event(given.run_id, StreamReset(reason=_TAKEN_OVER))

    def on_owner_gone(self) -> list[RunEvent]:
        """Void the events sent ahead, when the thread has no owner: they will not be stored."""
        return list(self._void(_TAKEN_OVER)) if self._ahead else []

    def on_stored_answer(self, run_id: str, turn: StepSnapshot) -> list[RunEvent]:
        """Bring the reader up to the part of an unfinished answer that the store has."""
        return list(self._show(run_id, turn))

    # -- live ---------------------------------------------------------------------------------

    def on_publisher_state(self, state: PublisherState) -> list[RunEvent]:
        """Continue live from the owner's state. The caller has read the store up to its `seq`.

        Raises:
            Desynchronized: the reader's cursor is another; read the store, and ask again.
        """
        if state.seq != self.seq or state.epoch < self._epoch:
            raise Desynchronized
        given = list(self._go_live(state))
        if given and given[-1].seq is None:
            # A reader that comes back with the last of them has got all that was sent until now.
            given[-1] = _replace(given[-1], live=(state.epoch, state.n))
        return given

    def _go_live(self, state: PublisherState) -> Iterator[RunEvent]:
        ahead = {event.seq or 0: event for event in state.ahead}
        if not all(
            seq in ahead and _is_same(event, ahead[seq]) for seq, event in self._ahead.items()
        ):
            yield from self._void(_TAKEN_OVER)
        if state.epoch != self._epoch:
            yield from self._drop("" if state.turn is None else state.turn.message_id)
        self._epoch, self._n = state.epoch, state.n
        new = [event for seq, event in ahead.items() if seq not in self._ahead]
        self._ahead |= ahead
        # The answer comes between the start of its step and the calls that it makes.
        starts = [index for index, event in enumerate(new) if isinstance(event.event, StepStart)]
        calls = starts[-1] + 1 if starts else 0
        for event in new[:calls]:
            yield from self._give(event)
        if state.turn is not None:
            yield from self._show(state.run_id, state.turn)
        else:
            yield from self._close()
        for event in new[calls:]:
            yield from self._give(event)

    def on_live_events(self, events: Sequence[RunEvent], given: list[RunEvent]) -> None:
        """Add to `given` what the reader is given of live events.

        Raises:
            Desynchronized: events are missing before one of them.
        """
        answer = self._answer
        for event in events:
            live, kind = event.live, event.event
            # Most events are the next piece of text. A server pays for them once for each client.
            if (
                type(kind) is TextDelta
                and answer is not None
                and answer is self._answer
                and live is not None
                and self._n is not None
                and live[1] == self._n + 1
                and live[0] == self._epoch
                and event.run_id == answer.run_id
            ):
                self._n, self._at_ms = live[1], event.at_ms
                answer.deltas.append(kind.delta)
                given.append(event)
            else:
                given += self.on_live_event(event)
                answer = self._answer

    def on_live_event(self, event: RunEvent) -> list[RunEvent]:
        """A live event.

        Raises:
            Desynchronized: events are missing before it.
        """
        if event.live is None:
            return []
        epoch, n = event.live
        if epoch < self._epoch or (epoch == self._epoch and self._n is not None and n <= self._n):
            return []
        if epoch != self._epoch or self._n is None or n != self._n + 1:
            raise Desynchronized
        self._n, self._at_ms = n, event.at_ms
        if event.seq is None:
            if isinstance(event.event, StreamReset) and event.event.from_seq is not None:
                self._ahead.clear()
        elif event.seq <= self.seq or event.again:
            return []
        elif event.ahead:
            self._check_order(event.seq)
            self._ahead[event.seq] = event
        else:
            self._check_order(event.seq)
            self._confirm(event.seq)
            if isinstance(event.event, StepEnd):
                self._answer = None
            elif isinstance(event.event, InferenceComplete) and self._answer is not None:
                self._answer.stored = True  # the answer is in the same commit
        return list(self._give(event))

    def _check_order(self, seq: int) -> None:
        """
        Raises:
            Desynchronized: the reader has not got all durable events before `seq`: one of them may
                have been stored before this process listened, and was not sent.
        """
        if any(number not in self._ahead for number in range(self.seq + 1, seq)):
            self.on_gap()
            raise Desynchronized

    def _confirm(self, seq: int) -> None:
        """Move the cursor: everything up to `seq` is stored."""
        self.seq = seq
        if self._ahead:
            self._ahead = {number: told for number, told in self._ahead.items() if number > seq}

    # -- what the reader has ------------------------------------------------------------------

    def _give(self, event: RunEvent) -> Iterator[RunEvent]:
        """Note that the reader is given an event, and give it."""
        kind = event.event
        if isinstance(kind, StepStart):
            # The reader may have pieces of that answer already, from the store.
            if self._answer is None or self._answer.message_id != kind.message_id:
                self._answer = _PartialStep(event.run_id, kind.message_id)
        elif self._answer is not None and event.run_id == self._answer.run_id:
            self._answer.take(kind)
        yield event

    def _show(self, run_id: str, turn: StepSnapshot) -> Iterator[RunEvent]:
        """Bring what the reader has of the open answer up to `turn`."""
        given = self._answer
        if given is not None and given.stored and given.message_id == turn.message_id:
            turn = given.snapshot(outputs=turn.outputs)
        if given is None or given.message_id != turn.message_id:
            yield from self._drop(turn.message_id)
            given = self._answer = _PartialStep(run_id, turn.message_id, announced=True)
            yield self._make_event(run_id, StepStart(message_id=turn.message_id))
        yield from self._complete(given, turn)

    def _complete(self, given: _PartialStep, whole: StepSnapshot) -> Iterator[RunEvent]:
        deltas = None if given.is_empty else given.missing(whole)
        if deltas is None:
            if not given.is_empty:
                given.forget()
                yield self._make_event(
                    given.run_id, StreamReset(reason="it was told otherwise before")
                )
            empty = StepSnapshot(message_id=whole.message_id)
            deltas = [whole] if whole != empty else []
        for delta in deltas:
            given.take(delta)
            yield self._make_event(given.run_id, delta)

    def _void(self, reason: str) -> Iterator[RunEvent]:
        """Take back what went ahead, and the deltas of an answer that is not in the log."""
        first = min(self._ahead, default=self.seq + 1)
        run_id = next((event.run_id for event in self._ahead.values()), "")
        given = self._answer
        if given is not None and not given.stored:
            self._answer, run_id = None, given.run_id
        self._ahead.clear()
        yield self._make_event(run_id, StreamReset(reason=reason, from_seq=first))

    def _make_event(self, run_id: str, event: AgentEvent) -> RunEvent:
        """An event that the follower makes itself."""
        return RunEvent(thread_id=self.thread_id, run_id=run_id, at_ms=self._at_ms, event=event)


def _is_same(one: RunEvent, other: RunEvent) -> bool:
    return (one.run_id, one.at_ms, one.event) == (other.run_id, other.at_ms, other.event)
