"""The damage to threads whose processes were killed: lost, done twice, invalid, left open.

Pure: dumps and notes in, sentences out. `compare` finds the differences from an undisturbed
thread.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from awaken.codec import digest, dumps, dumps_text
from awaken.core.event import ToolCallDone
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.message import Message, Role
from awaken.core.store.commits import CallPhase
from awaken.core.suspension import TicketStatus, ToolCallOutcome
from awaken.core.transcript import effective_view
from awaken.core.value import Value
from awaken.testing.chaos.effect_log import Note, NoteKind
from awaken.testing.chaos.store_dump import ThreadDump

_OPEN = (CallPhase.INTENT, CallPhase.SUSPENDED)
_EMPTY = ThreadDump()


def _empty_tuple() -> tuple[str, ...]:
    """An empty default that JSON still shows."""
    return ()


class Damage(Value, frozen=True, kw_only=True):
    """The damage of one trial, in one sentence for each finding.

    `ownerless` is remote work that goes on without a run here; only a check of the remote agent
    finds it.
    """

    lost: tuple[str, ...] = msgspec.field(default_factory=_empty_tuple)
    doubled: tuple[str, ...] = msgspec.field(default_factory=_empty_tuple)
    invalid: tuple[str, ...] = msgspec.field(default_factory=_empty_tuple)
    left_open: tuple[str, ...] = msgspec.field(default_factory=_empty_tuple)
    ownerless: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentences())

    def sentences(self) -> tuple[str, ...]:
        return self.lost + self.doubled + self.invalid + self.left_open + self.ownerless


def damage_between(
    thread_dumps: Sequence[ThreadDump],
    final: ThreadDump,
    notes: Sequence[Note],
    once: Collection[str],
) -> Damage:
    """The damage that the kills did to the dumps' thread and its child threads.

    Args:
        thread_dumps: one after each kill.
        notes: the effect log's notes, from all processes.
        once: the tools that must not run twice.
    """
    return Damage(
        lost=(
            *(text for dump in thread_dumps for text in _find_lost_since(dump, final)),
            *_find_lost_commits(notes, final),
            *_find_lost_messages(notes, final),
            *_find_repeated_requests(notes),
        ),
        doubled=(*_find_doubled_effects(notes, once), *_find_doubled_runs(notes, once)),
        invalid=(*_find_shown_faults(notes), *_check_threads(final, _find_faults)),
        left_open=(
            *([] if final.runs else ["there is no run"]),
            *_find_orphans(thread_dumps, final),
            *_check_threads(final, _find_open),
        ),
    )


def _check_threads(
    final: ThreadDump, check: Callable[[ThreadDump], Iterable[str]]
) -> Iterator[str]:
    """Run a check on each thread. Yields its findings, with the id of the thread."""
    for thread in final.threads():
        suffix = "" if thread is final else f" (thread {thread.thread_id})"
        yield from (text + suffix for text in check(thread))


def _index_by_id(final: ThreadDump) -> dict[str, ThreadDump]:
    return {thread.thread_id: thread for thread in final.threads()}


# -- lost -------------------------------------------------------------------------------------


def _find_lost_since(dump: ThreadDump, final: ThreadDump) -> Iterator[str]:
    """Find what the store had at a kill and has lost or changed at the end."""
    threads = _index_by_id(final)
    for thread in dump.threads():
        if thread.thread_id in threads:
            now = threads[thread.thread_id]
            suffix = "" if now is final else f" (thread {thread.thread_id})"
            yield from (text + suffix for text in _find_lost_in(thread, now))
        elif thread.runs:
            yield f"thread {thread.thread_id} is gone"


def _find_lost_in(dump: ThreadDump, final: ThreadDump) -> Iterator[str]:
    for what, before, after in (
        ("message", dump.messages, final.messages),
        ("event", dump.events, final.events),
    ):
        for index, value in enumerate(before):
            if index >= len(after):
                yield f"{what} {index + 1} of {len(before)} is gone"
            elif dumps(value) != dumps(after[index]):
                yield f"{what} {index + 1} was changed"
    for call in dump.calls:
        now = final.phase_of(call.key)
        if call.phase not in _OPEN and now is not call.phase:
            yield f"the outcome of {call.tool_name} was {call.phase} and is {now}"
    kept = {run.run_id for run in final.runs}
    yield from (f"run {run.run_id} is gone" for run in dump.runs if run.run_id not in kept)


def _find_lost_commits(notes: Sequence[Note], final: ThreadDump) -> Iterator[str]:
    """Find what the store has confirmed and does not have at the end."""
    threads = _index_by_id(final)
    for note in notes:
        if note.kind is not NoteKind.COMMIT:
            continue
        thread = threads.get(note.name, _EMPTY)
        length, messages = note.detail["length"], note.detail["messages"]
        for index, (message_id, mark) in enumerate(messages, start=length - len(messages)):
            found = thread.messages[index] if index < len(thread.messages) else None
            if found is None or digest(found) != mark:
                yield f"message {index + 1} ({message_id}) was committed and is not there"
        for key, phase in note.detail["calls"]:
            if phase not in _OPEN and thread.phase_of(key) != phase:
                yield f"call {key} was committed as {phase} and is {thread.phase_of(key)}"


def _find_lost_messages(notes: Sequence[Note], final: ThreadDump) -> Iterator[str]:
    """Find messages that were sent to a thread and are neither in its log nor among its unread
    messages."""
    threads = _index_by_id(final)
    for note in notes:
        for thread_id, message_id in _list_sent(note):
            thread = threads.get(thread_id, _EMPTY)
            came = [*(message.id for message in thread.messages), *thread.unread]
            if message_id not in came:
                yield f"message {message_id} was sent to thread {thread_id} and never came"


def _list_sent(note: Note) -> list[tuple[str, str]]:
    if note.kind is NoteKind.COMMIT:
        return [(thread_id, message_id) for thread_id, message_id in note.detail.get("sends", ())]
    if note.kind is NoteKind.SENT:
        return [(note.name, message_id) for message_id in note.detail]
    return []


def _find_repeated_requests(notes: Sequence[Note]) -> Iterator[str]:
    """Find requests to a model whose answer the store already had.

    Runs ask concurrently: a request belongs to the thread that holds its messages.
    """
    thread_of = {
        message_id: note.name
        for note in notes
        if note.kind is NoteKind.COMMIT
        for message_id, _ in note.detail["messages"]
    }
    asked: dict[str, str] = {}
    answered: set[str] = set()
    for note in notes:
        if note.kind is NoteKind.MODEL:
            question = note.detail["question"]
            if question in answered:
                yield f"{note.name} was asked again for an answer that had been committed"
            thread_id = next(
                (thread_of[id] for id in note.detail["messages"] if id in thread_of), None
            )
            if thread_id is not None:
                asked[thread_id] = question
        elif note.kind is NoteKind.COMMIT and note.detail["answers"] and note.name in asked:
            answered.add(asked[note.name])


# -- done twice -------------------------------------------------------------------------------


def _find_doubled_effects(notes: Sequence[Note], once: Collection[str]) -> Iterator[str]:
    """Find side effects that happened twice. They count even if two calls with different keys
    caused them."""
    done = Counter(
        (note.name, dumps_text(note.detail))
        for note in notes
        if note.kind is NoteKind.EFFECT and note.name in once
    )
    for (name, what), times in done.items():
        if times > 1:
            yield f"{name} took effect {times} times: {what}"


def _find_doubled_runs(notes: Sequence[Note], once: Collection[str]) -> Iterator[str]:
    """Find calls that ran again although neither a decision nor `verify` said that they had not
    happened."""
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
    """What a provider would refuse: each call must have one result, directly after it, in order."""
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


def find_log_faults(log: Sequence[Message]) -> list[str]:
    """The faults in a thread's messages after all runs have ended."""
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


def _find_shown_faults(notes: Sequence[Note]) -> Iterator[str]:
    for note in notes:
        if note.kind is NoteKind.FAULT:
            yield f"{note.name} was shown a transcript in which {note.detail}"


def _find_faults(thread: ThreadDump) -> Iterator[str]:
    """The faults in a thread's messages and events."""
    yield from find_log_faults(thread.messages)
    seqs = [event.seq for event in thread.events]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"events are numbered {seqs}"
    done = Counter(
        event.event.message_id
        for event in thread.events
        if isinstance(event.event, ToolCallDone)
        and event.event.outcome is not ToolCallOutcome.SUSPENDED
    )
    yield from (
        f"the end of {id} was told {times} times" for id, times in done.items() if times > 1
    )


# -- left open --------------------------------------------------------------------------------


def _find_open(thread: ThreadDump) -> Iterator[str]:
    for run in thread.runs:
        if run.status is not RunStatus.DONE:
            yield f"run {run.run_id} is {run.status}"
    for ticket in thread.tickets:
        if ticket.status is TicketStatus.OPEN:
            yield f"the ticket of {ticket.tool_name} is still open"
    if thread.owner is not None:
        yield f"the thread is still owned by {thread.owner}"
    if thread.runs and thread.runs[0].termination_reason != CANCELLED:
        yield from (f"message {id} waits to be read" for id in thread.unread)
    yield from (f"run {run_id} waits to be recovered" for run_id in thread.interrupted)


def _find_orphans(thread_dumps: Sequence[ThreadDump], final: ThreadDump) -> Iterator[str]:
    """Find orphaned delegates: those at a kill, before any recovery, and those at the end.

    The rule holds in the store at every instant: a delegate whose parent run is done is done
    itself, or has a cancel pending.
    """
    at_kills = (text for dump in thread_dumps for text in _find_orphans_in(dump))
    yield from (f"at a kill, {text}" for text in dict.fromkeys(at_kills))
    yield from _find_orphans_in(final)


def _find_orphans_in(dump: ThreadDump) -> Iterator[str]:
    """Find the orphans among all runs of a dump, as `list_orphans` does in a store."""
    ended = {
        run.run_id
        for thread in dump.threads()
        for run in thread.runs
        if run.status is RunStatus.DONE
    }
    for thread in dump.threads():
        for run in () if thread.has_cancel else thread.runs:
            if run.is_delegated and run.status is not RunStatus.DONE and run.parent_run_id in ended:
                yield (
                    f"run {run.run_id} waits for run {run.parent_run_id}, which has ended, and no "
                    "cancel is pending"
                )
