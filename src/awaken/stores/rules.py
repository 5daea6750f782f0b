"""The rules that all stores share. No I/O: the stores write the results.

They cover tickets and commands, the metadata of threads, rewinds, submissions, and commits that are
too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from awaken.codec import dumps, loads
from awaken.core.identity import id_of
from awaken.core.lifecycle import CANCELLED, CancelledEnd
from awaken.core.run import RunRecord
from awaken.core.store.commands import (
    KEY_KEPT_MS,
    CommandKind,
    Submission,
    SubmitMode,
    Submitted,
    ThreadCommand,
)
from awaken.core.store.commits import KEPT_IN_REWINDS, MAX_COMMIT, ThreadCommit
from awaken.core.suspension import ResumeAction, Ticket, TicketStatus, ToolCallResume
from awaken.core.thread import MAX_METADATA, ThreadMetadata, ThreadPatch
from awaken.errors import (
    CommitTooLarge,
    DecisionRefused,
    InvalidRecord,
    KeyReused,
    Serialization,
    UnreadableValue,
    VersionConflict,
    describe,
)

_OPEN = TicketStatus.OPEN
_ANSWERED = TicketStatus.ANSWERED
_DECISIONS = CommandKind.DECISIONS
_RUN = CommandKind.RUN
_replace = msgspec.structs.replace


# -- tickets and commands ---------------------------------------------------------------------


def answer_ticket(
    target: str,
    answer: ToolCallResume,
    candidates: Sequence[Ticket],
    list_open: Callable[[], Iterable[Ticket]],
    at_ms: int,
) -> Ticket | None:
    """Answer a ticket. Returns the ticket with `answer` in it, or `None` if the store has taken the
    same answer before.

    Args:
        candidates: the tickets that `target` may name: the one with that key, else all with that
            id.
        list_open: returns the thread's open tickets, for the text of the error.

    Raises:
        DecisionRefused: the answer cannot be taken.
    """
    if any(_was_taken(ticket, answer) for ticket in candidates):
        return None
    still_open = [ticket for ticket in candidates if ticket.status is _OPEN]
    if len(still_open) > 1:
        keys = ", ".join(repr(ticket.key) for ticket in still_open)
        raise DecisionRefused(target, f"several open tickets match, name one by its key: {keys}")
    if not still_open:
        raise DecisionRefused(
            target,
            _describe_closed_ticket(candidates[-1]) if candidates else _no_ticket_text(list_open()),
        )
    (ticket,) = still_open
    if is_expired(ticket, at_ms):
        raise DecisionRefused(target, f"the ticket expired {_format_time(ticket.expires_at or 0)}")
    if not ticket.is_bound(target, answer):
        raise DecisionRefused(
            target,
            "a later question may use the same ticket id or call id: name the ticket by its key "
            f"{ticket.key!r}, or give the digest of the question that was seen",
        )
    if answer.digest not in (None, ticket.digest):
        raise DecisionRefused(
            target,
            f"it answers the question with digest {answer.digest!r}, but the question now has "
            f"{ticket.digest!r}: read the ticket {ticket.key!r} again",
        )
    stamped = _replace(answer, updated_at=at_ms, digest=ticket.digest)
    return _replace(ticket, status=_ANSWERED, decision=stamped)


def decisions_command(thread_id: str, tickets: Iterable[Ticket], at_ms: int) -> ThreadCommand:
    """The command that brings the answers of these tickets to the thread's owner."""
    taken = [(ticket, ticket.decision) for ticket in tickets]
    runs = {ticket.run_id for ticket, _ in taken}
    return ThreadCommand(
        thread_id=thread_id,
        kind=_DECISIONS,
        run_id=runs.pop() if len(runs) == 1 else None,
        decisions=tuple((ticket.key, answer) for ticket, answer in taken if answer is not None),
        at_ms=at_ms,
    )


def check_send(command: ThreadCommand) -> None:
    """Check that a command may be sent.

    Raises:
        InvalidRecord: the command holds decisions or a submission.
    """
    if command.kind is _DECISIONS:
        raise InvalidRecord(
            "decisions cannot be sent: call `decide`, which checks them against their tickets"
        )
    if command.kind is _RUN:
        raise InvalidRecord("a run cannot be sent: call `submit`, which also stores its record")


def has_pending(outbox: msgspec.Raw) -> bool:
    """Whether a thread's outbox, as its state stores it, has unsent messages."""
    kept = loads(outbox)
    return isinstance(kept, dict) and bool(kept.get("pending"))


def is_expired(ticket: Ticket, now_ms: int) -> bool:
    """Whether a ticket has expired; at `expires_at` itself it has not."""
    return ticket.expires_at is not None and ticket.expires_at < now_ms


def _was_taken(ticket: Ticket, answer: ToolCallResume) -> bool:
    given = ticket.decision
    return (
        given is not None
        and bool(answer.decision_id)
        and (given.decision_id, given.action, given.result, given.mode)
        == (answer.decision_id, answer.action, answer.result, answer.mode)
    )


def _describe_closed_ticket(ticket: Ticket) -> str:
    """Why a ticket that is not open takes no answer."""
    given = ticket.decision
    if ticket.status is _ANSWERED and given is not None:
        verdict = "approved" if given.action is ResumeAction.RESUME else "denied"
        approver = given.by or "an unnamed approver"
        return f"it was {verdict} {_format_time(given.updated_at)} by {approver}"
    return f"the ticket is {ticket.status.value}: the run no longer waits for an answer"


def _no_ticket_text(open_tickets: Iterable[Ticket]) -> str:
    names = ", ".join(f"{ticket.key!r} ({ticket.tool_name})" for ticket in open_tickets)
    return f"no such ticket; waiting: {names}" if names else "no ticket of the thread is waiting"


def _format_time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"at {at_ms} ms"


# -- metadata ---------------------------------------------------------------------------------


def change_metadata(
    thread_id: str, known: ThreadMetadata, patch: ThreadPatch, expected_revision: int | None
) -> tuple[ThreadMetadata, bytes]:
    """Apply a patch to the metadata of a thread. Returns the new metadata, and its JSON.

    Raises:
        VersionConflict: the metadata has another revision than the expected one.
        Serialization: a value in the patch cannot be encoded.
        UnreadableValue: it could not be read back.
        InvalidRecord: the metadata would be larger than `MAX_METADATA`, and larger than it is.
    """
    if expected_revision is not None and expected_revision != known.revision:
        raise VersionConflict(thread_id, expected=expected_revision, actual=known.revision)
    try:
        text = dumps(patch.apply(known))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Serialization(f"the metadata of thread {thread_id!r}: {describe(error)}") from error
    if len(text) > max(MAX_METADATA, len(dumps(known))):
        raise InvalidRecord(
            f"the metadata of thread {thread_id!r} would have {len(text)} bytes, more than "
            f"{MAX_METADATA}: keep large values in blobs, and only their ids in `custom`"
        )
    try:
        return loads(text, ThreadMetadata), text
    except msgspec.ValidationError as error:
        raise UnreadableValue(f"the metadata of thread {thread_id!r}", error) from error


# -- rewinds ----------------------------------------------------------------------------------


def check_rewind(commit: ThreadCommit) -> None:
    """Check the position that a commit rewinds its thread to, if it does.

    Raises:
        InvalidRecord: there is no message behind that position.
    """
    to = commit.rewinds_to
    if to is not None and not 0 <= to < commit.expected_length:
        raise InvalidRecord(
            f"thread {commit.thread_id!r} cannot be rewound to position {to}: its log has "
            f"{commit.expected_length} messages"
        )


def merge_rewound_state(
    then: dict[str, msgspec.Raw], now: dict[str, msgspec.Raw]
) -> dict[str, msgspec.Raw]:
    """The state after a rewind: the earlier state, with the current values of the keys that a
    rewind does not change."""
    kept = {key: now[key] for key in KEPT_IN_REWINDS & now.keys()}
    return {key: value for key, value in then.items() if key not in KEPT_IN_REWINDS} | kept


# -- submissions ------------------------------------------------------------------------------


def needs_idle_thread(submission: Submission) -> bool:
    """Whether a submission is refused while a run of its thread is open or waits to start.

    A thread must not be rewound under a live run: the run is cancelled first, or the submission is
    refused.
    """
    if submission.mode is SubmitMode.REFUSE:
        return True
    return submission.rewind_to is not None and submission.mode is not SubmitMode.INTERRUPT


class StoredKey(msgspec.Struct, frozen=True, gc=False):
    """The key of a submission, with the digest of the request and the answer."""

    request_digest: str
    run_id: str
    cursor: int
    at_ms: int

    def answer(self, submission: Submission) -> Submitted | None:
        """The answer to the first submission with this key, or `None` if the key is too old.

        Raises:
            KeyReused: the key belongs to another request.
        """
        if self.at_ms < submission.at_ms - KEY_KEPT_MS:
            return None
        if self.request_digest != submission.request_digest:
            raise KeyReused(submission.thread_id, submission.key or "")
        return Submitted(
            thread_id=submission.thread_id, run_id=self.run_id, cursor=self.cursor, is_new=False
        )


def can_withdraw(owner: object | None, open_run_id: str | None) -> bool:
    """Whether the submitted runs of a thread can be ended without starting them.

    An owner without an open run may be starting one of them at this moment.
    """
    return owner is None or open_run_id is not None


def cancel_submitted_run(record: RunRecord, at_ms: int) -> RunRecord:
    """The record of a submitted run that was cancelled before it started."""
    return record.finish(at_ms, CANCELLED)


def set_canceller(run: RunRecord, cancels: Iterable[ThreadCommand]) -> RunRecord:
    """The record of a finished run, with the canceller if the run was cancelled."""
    if not isinstance(run.termination_reason, CancelledEnd):
        return run
    by = next((command.by for command in cancels if command.by is not None), None)
    return run if by is None else _replace(run, cancelled_by=by)


def steering_command(submission: Submission) -> ThreadCommand:
    """The command that gives the messages of a submission to the thread's open run."""
    return ThreadCommand(
        thread_id=submission.thread_id,
        kind=CommandKind.MESSAGES,
        messages=submission.messages,
        at_ms=submission.at_ms,
        by=id_of(submission.principal),
    )


# -- commits that are too large ---------------------------------------------------------------


_MAX_NAMED_PARTS = 3


def too_large(commit: ThreadCommit, size: int) -> CommitTooLarge:
    """The error for a commit whose row would have `size` bytes: it names the largest parts."""
    parts = sorted(_parts(commit), key=lambda part: part[1], reverse=True)[:_MAX_NAMED_PARTS]
    return CommitTooLarge(commit.thread_id, size=size, limit=MAX_COMMIT, parts=tuple(parts))


def _parts(commit: ThreadCommit) -> Iterator[tuple[str, int]]:
    for message in commit.messages:
        yield f"message {message.id!r} ({message.role.value})", len(dumps(message))
    for state in (commit.run_state, commit.thread_state):
        for key, value in state.items():
            yield f"state key {key!r}", len(bytes(value))
    for envelope in commit.events:
        event = envelope.event
        yield f"event {type(event).__struct_config__.tag!r}", len(dumps(event))
    for call in commit.calls:
        yield f"call {call.key!r} of tool {call.tool_name!r}", len(dumps(call))
