"""The rules for answering tickets and sending commands. No I/O: the stores write the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from awaken.codec import loads
from awaken.core.lifecycle import CancelledEnd
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.suspension import ResumeAction, ToolCallResume
from awaken.core.ticket import Ticket, TicketStatus
from awaken.errors import DecisionRefused, InvalidRecord

_OPEN = TicketStatus.OPEN
_ANSWERED = TicketStatus.ANSWERED
_DECISIONS = CommandKind.DECISIONS
_RUN = CommandKind.RUN
_replace = msgspec.structs.replace


def answered(
    target: str,
    answer: ToolCallResume,
    meant: Sequence[Ticket],
    waiting: Callable[[], Iterable[Ticket]],
    at_ms: int,
) -> Ticket | None:
    """The matching ticket with `answer` in it, or `None` if the same answer was taken before.

    Args:
        meant: the tickets the target may name: the one with that key, else all with that id.
        waiting: returns the thread's open tickets, to list them if the target is none of them.

    Raises:
        DecisionRefused: the answer cannot be taken.
    """
    if any(_was_taken(ticket, answer) for ticket in meant):
        return None
    still_open = [ticket for ticket in meant if ticket.status is _OPEN]
    if len(still_open) > 1:
        keys = ", ".join(repr(ticket.key) for ticket in still_open)
        raise DecisionRefused(target, f"several open tickets match, name one by its key: {keys}")
    if not still_open:
        raise DecisionRefused(target, _why(meant[-1]) if meant else _instead(waiting()))
    (ticket,) = still_open
    if is_past(ticket, at_ms):
        raise DecisionRefused(target, f"the ticket expired {_when(ticket.expires_at or 0)}")
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


def command_of(thread_id: str, tickets: Iterable[Ticket], at_ms: int) -> ThreadCommand:
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


def check_sent(command: ThreadCommand) -> None:
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


def is_past(ticket: Ticket, now_ms: int) -> bool:
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


def _why(ticket: Ticket) -> str:
    """Why a ticket that is not open takes no answer."""
    given = ticket.decision
    if ticket.status is _ANSWERED and given is not None:
        verdict = "approved" if given.action is ResumeAction.RESUME else "denied"
        return f"it was {verdict} {_when(given.updated_at)} by {given.by or 'an unnamed approver'}"
    return f"the ticket is {ticket.status.value}: the run no longer waits for an answer"


def _instead(waiting: Iterable[Ticket]) -> str:
    names = ", ".join(f"{ticket.key!r} ({ticket.tool_name})" for ticket in waiting)
    return f"no such ticket; waiting: {names}" if names else "no ticket of the thread is waiting"


def _when(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"at {at_ms} ms"


def cancelled_by(run: RunRecord, cancels: Iterable[ThreadCommand]) -> RunRecord:
    """The record of a finished run, with who had it cancelled, if it ended so."""
    if not isinstance(run.termination_reason, CancelledEnd):
        return run
    by = next((command.by for command in cancels if command.by is not None), None)
    return run if by is None else _replace(run, cancelled_by=by)
