"""What became of a thread whose processes were killed: lost, done twice, invalid, left open.

Pure: pictures and notes in, sentences out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence

import msgspec

from awaken.codec import Json, digest, dumps, dumps_text
from awaken.contract.commits import CallPhase, call_key
from awaken.domain.event import ToolCallDone
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, Role
from awaken.domain.suspension import ToolCallOutcome
from awaken.domain.ticket import TicketStatus
from awaken.domain.transcript import effective_view
from awaken.domain.value import Value
from awaken.testing.chaos.picture import Picture
from awaken.testing.chaos.witness import Note, NoteKind

_OPEN = (CallPhase.INTENT, CallPhase.SUSPENDED)


def _none() -> tuple[str, ...]:
    """Nothing, and JSON says so."""
    return ()


class Damage(Value, frozen=True, kw_only=True):
    """What should not have happened, a sentence each."""

    lost: tuple[str, ...] = msgspec.field(default_factory=_none)
    doubled: tuple[str, ...] = msgspec.field(default_factory=_none)
    invalid: tuple[str, ...] = msgspec.field(default_factory=_none)
    left_open: tuple[str, ...] = msgspec.field(default_factory=_none)

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.invalid or self.left_open)

    def sentences(self) -> tuple[str, ...]:
        return self.lost + self.doubled + self.invalid + self.left_open


def damage_between(
    pictures: Sequence[Picture], final: Picture, notes: Sequence[Note], once: Collection[str]
) -> Damage:
    """What the kills did.

    Args:
        pictures: one after each kill.
        notes: what the witness saw, over all lives.
        once: the tools that must not run twice.
    """
    return Damage(
        lost=(
            *(text for picture in pictures for text in _lost_since(picture, final)),
            *_lost_commits(notes, final),
            *_asked_again(notes),
        ),
        doubled=(*_doubled_effects(notes, once), *_doubled_runs(notes, once)),
        invalid=(*_faults_shown(notes), *log_faults(final.messages), *_event_faults(final)),
        left_open=tuple(_left_open(final)),
    )


# -- lost -------------------------------------------------------------------------------------


def _lost_since(picture: Picture, final: Picture) -> Iterator[str]:
    """What was durable at a kill and is not there, as it was, at the end."""
    for what, before, after in (
        ("message", picture.messages, final.messages),
        ("event", picture.events, final.events),
    ):
        for place, value in enumerate(before):
            if place >= len(after):
                yield f"{what} {place + 1} of {len(before)} is gone"
            elif dumps(value) != dumps(after[place]):
                yield f"{what} {place + 1} was changed"
    for call in picture.calls:
        now = final.phase_of(call.key)
        if call.phase not in _OPEN and now is not call.phase:
            yield f"the outcome of {call.tool_name} was {call.phase} and is {now}"
    kept = {run.run_id for run in final.runs}
    yield from (f"run {run.run_id} is gone" for run in picture.runs if run.run_id not in kept)


def _lost_commits(notes: Sequence[Note], final: Picture) -> Iterator[str]:
    """What a store promised, and does not have."""
    for note in notes:
        if note.kind is not NoteKind.COMMIT or note.name != final.thread_id:
            continue
        length, messages = note.detail["length"], note.detail["messages"]
        for place, (message_id, mark) in enumerate(messages, start=length - len(messages)):
            found = final.messages[place] if place < len(final.messages) else None
            if found is None or digest(found) != mark:
                yield f"message {place + 1} ({message_id}) was committed and is not there"
        for key, phase in note.detail["calls"]:
            if phase not in _OPEN and final.phase_of(key) != phase:
                yield f"call {key} was committed as {phase} and is {final.phase_of(key)}"


def _asked_again(notes: Sequence[Note]) -> Iterator[str]:
    """Questions to a model whose answer was durable already."""
    answered: set[str] = set()
    question = ""
    for note in notes:
        if note.kind is NoteKind.MODEL:
            question = note.detail
            if question in answered:
                yield f"{note.name} was asked again for an answer that had been committed"
        elif note.kind is NoteKind.COMMIT and note.detail["answers"]:
            answered.add(question)


# -- done twice -------------------------------------------------------------------------------


def _doubled_effects(notes: Sequence[Note], once: Collection[str]) -> Iterator[str]:
    """By what was done, not by which call did it: a call under a new key does harm as well."""
    done = Counter(
        (note.name, dumps_text(note.detail))
        for note in notes
        if note.kind is NoteKind.EFFECT and note.name in once
    )
    for (name, what), times in done.items():
        if times > 1:
            yield f"{name} took effect {times} times: {what}"


def _doubled_runs(notes: Sequence[Note], once: Collection[str]) -> Iterator[str]:
    """Calls that ran again though nobody had said that they did not happen."""
    ran: dict[str, NoteKind] = {}
    for note in notes:
        if note.name not in once:
            continue
        name, key, before = note.name, note.key, ran.get(note.key)
        if note.kind is NoteKind.START:
            if before is not None:
                yield f"{name} ran again in call {key}"
            ran[key] = note.kind
        elif note.kind is NoteKind.END:
            ran[key] = note.kind
        elif note.kind is NoteKind.ASKED:
            ran.pop(key, None)
        elif note.kind is NoteKind.VERIFIED and note.detail == "False":
            if before is NoteKind.END:
                yield f"{name} had run to its end, and its verify says that it did not happen"
            ran.pop(key, None)


# -- invalid ----------------------------------------------------------------------------------


def transcript_faults(messages: Sequence[Message]) -> list[str]:
    """What a provider would refuse: each call has one result, right behind it, in call order."""
    faults: list[str] = []
    expected: deque[str] = deque()
    for message in messages:
        if message.role is Role.TOOL:
            call_id = message.tool_call_id or ""
            if expected and expected[0] == call_id:
                expected.popleft()
            else:
                faults.append(f"the result of {call_id!r} is not behind its call")
            continue
        faults.extend(f"call {call_id!r} has no result" for call_id in expected)
        expected = deque(call.id for call in message.tool_calls or ())
    return faults + [f"call {call_id!r} has no result" for call_id in expected]


def log_faults(log: Sequence[Message]) -> list[str]:
    """What is wrong with a thread's log when all is done."""
    faults = transcript_faults(effective_view(log))
    ids = Counter(message.id for message in log)
    faults.extend(f"message {id} is there {times} times" for id, times in ids.items() if times > 1)
    calls = Counter[str | None](c.id for message in log for c in message.tool_calls or ())
    results = Counter(message.tool_call_id for message in log if message.role is Role.TOOL)
    for call_id in calls.keys() | results.keys():
        if calls[call_id] != results[call_id]:
            faults.append(
                f"call {call_id!r} is there {calls[call_id]} times, "
                f"its result {results[call_id]} times"
            )
    return faults


def _faults_shown(notes: Sequence[Note]) -> Iterator[str]:
    for note in notes:
        if note.kind is NoteKind.FAULT:
            yield f"{note.name} was shown a transcript in which {note.detail}"


def _event_faults(final: Picture) -> Iterator[str]:
    seqs = [event.seq for event in final.events]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"events are numbered {seqs}"
    done = Counter(
        event.event.message_id
        for event in final.events
        if isinstance(event.event, ToolCallDone)
        and event.event.outcome is not ToolCallOutcome.SUSPENDED
    )
    yield from (
        f"the end of {id} was told {times} times" for id, times in done.items() if times > 1
    )


# -- left open --------------------------------------------------------------------------------


def _left_open(final: Picture) -> Iterator[str]:
    if not final.runs:
        yield "there is no run"
    for run in final.runs:
        if run.status is not RunStatus.DONE:
            yield f"run {run.run_id} is {run.status}"
    for ticket in final.tickets:
        if ticket.status is TicketStatus.OPEN:
            yield f"the ticket of {ticket.tool_name} is still open"
    if final.owner is not None:
        yield f"the thread is still owned by {final.owner}"
    yield from (f"run {run_id} waits to be recovered" for run_id in final.interrupted)


# -- against the undisturbed run --------------------------------------------------------------


def differences(undisturbed: Picture, final: Picture, open_calls: Collection[str]) -> list[str]:
    """Where a recovered thread is not what it would have been, but for ids and times.

    Logs are compared as a model sees them: a result that came late stands beside its call.

    Args:
        open_calls: the keys of calls that were open at a kill; their results may say so.
    """
    before, after = effective_view(undisturbed.messages), effective_view(final.messages)
    found = []
    if len(undisturbed.messages) != len(final.messages):
        found.append(
            f"the log has {len(final.messages)} messages, undisturbed {len(undisturbed.messages)}"
        )
    settled = _result_keys(after)
    for place, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        open_at_kill = settled.get(other.id or "") in open_calls
        if _bare(one, content=not open_at_kill) != _bare(other, content=not open_at_kill):
            found.append(f"message {place} is {_words(other)}, undisturbed {_words(one)}")
    if len(undisturbed.runs) != len(final.runs):
        found.append(f"{len(final.runs)} runs, undisturbed {len(undisturbed.runs)}")
    for run, again in zip(undisturbed.runs, final.runs, strict=False):
        for name in ("agent_id", "status", "termination_reason", "final_output", "steps"):
            if (now := getattr(again, name)) != (then := getattr(run, name)):
                found.append(f"the run's {name} is {now!r}, undisturbed {then!r}")
        if not open_calls and run.output_tokens != again.output_tokens:
            found.append(f"{again.output_tokens} tokens counted, undisturbed {run.output_tokens}")
    then, now = _user_state(undisturbed), _user_state(final)
    if not open_calls and dumps(then) != dumps(now):
        found.append(f"the thread's state is {dumps_text(now)}, undisturbed {dumps_text(then)}")
    return found


def _user_state(picture: Picture) -> dict[str, Json]:
    """What tools and plugins keep; the runtime's own keys are full of ids and times."""
    stored = picture.state.extensions if picture.state else {}
    return {name: value for name, value in stored.items() if not name.startswith("__runtime.")}


def _result_keys(log: Sequence[Message]) -> dict[str, str]:
    """The ledger key of each tool message, by its id."""
    keys: dict[str, str] = {}
    called: dict[str, str] = {}
    for message in log:
        for index, call in enumerate(message.tool_calls or ()):
            called[call.id] = call_key(message.id or "", index)
        if message.role is Role.TOOL and message.id and message.tool_call_id in called:
            keys[message.id] = called[message.tool_call_id]
    return keys


def _bare(message: Message, *, content: bool) -> Json:
    bare = msgspec.structs.replace(message, id=None, metadata=None)
    return dumps(bare if content else msgspec.structs.replace(bare, content=()))


def _words(message: Message) -> str:
    calls = ", ".join(call.name for call in message.tool_calls or ())
    return f"{message.role} {message.text()!r}" + (f" calling {calls}" if calls else "")
