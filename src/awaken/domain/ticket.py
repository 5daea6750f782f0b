"""Questions that wait for a person, and how they were answered."""

from __future__ import annotations

from enum import StrEnum

from awaken.codec import Json, digest
from awaken.domain.suspension import Asker, ToolCallResume, ToolCallResumeMode
from awaken.domain.value import Value

_EARLIER_LENGTH = 16
"""Digests had 64 bits once, and tickets that were put then may still be open."""


class TicketStatus(StrEnum):
    """A ticket is open until it is answered, once, or nobody needs the answer any more."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CLOSED = "closed"


class Ticket(Value, frozen=True, kw_only=True):
    """One suspended call, as the approver sees it; instants are milliseconds.

    `key` is unique: the call's key in the ledger and, if the call asks again, which question it is.
    `ticket_id` and `call_id` come from the tool and the model and may repeat in other turns.
    `digest` binds the answer to what was asked: `call_digest` of tool, arguments and run. With an
    `asker`, tool and arguments are those of the call of that run.
    """

    key: str
    thread_id: str
    run_id: str
    ticket_id: str
    call_id: str
    tool_name: str
    digest: str
    asked_at: int
    arguments: Json = None
    resume_mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL
    reason: str | None = None
    message: str | None = None
    expires_at: int | None = None
    status: TicketStatus = TicketStatus.OPEN
    decision: ToolCallResume | None = None
    asker: Asker | None = None

    def answers_to(self, target: str) -> bool:
        """Whether `target` is one of the ticket's names."""
        return target in (self.key, self.ticket_id, self.call_id)

    def is_bound(self, target: str, answer: ToolCallResume) -> bool:
        """Whether an answer to `target` can be for no other question.

        A key names one question only. Ticket and call ids come again in other turns, so that they
        need a digest, which says what the approver has seen.
        """
        return target == self.key or bool(answer.digest)

    def __hash__(self) -> int:
        """Tickets can be keys of `answers`; their arguments alone could not be hashed."""
        return hash(self.key)


def is_digest_of(given: str, digest: str) -> bool:
    """Whether `given` is that digest, or the shorter one the same question had in earlier days."""
    return given == digest or (len(given) == _EARLIER_LENGTH and digest.startswith(given))


def call_digest(run_id: str, tool_name: str, arguments: Json) -> str:
    """What an approval is bound to: this tool, with these arguments, in this run."""
    return digest([run_id, tool_name, arguments])
