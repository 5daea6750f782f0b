"""Questions that wait for an approver, and how they were answered."""

from __future__ import annotations

from enum import StrEnum

from awaken.codec import Json, digest
from awaken.core.suspension import Asker, ToolCallResume, ToolCallResumeMode
from awaken.core.value import Value

_EARLIER_LENGTH = 16
"""How many characters a digest had in earlier versions, whose tickets may still be open."""


class AskedCall(Value, frozen=True, kw_only=True):
    """A suspended call as an approver sees it, whether it is read from a store (`Ticket`) or from
    the record of the run that waits (`RunWaitingTicket`).

    `key` is unique: the call's key in the ledger and, if the call asks again, the number of the
    question. `ticket_id` comes from the tool and may repeat in other turns. An answer that names
    the `digest` is refused if the question has changed since. With an `asker`, `tool_name` and
    `arguments` are those of the call in that run. `expires_at` is in milliseconds. `message` is the
    question in words, `response_schema` the JSON schema of an answer, if the tool gave them.
    """

    key: str | None = None
    ticket_id: str
    tool_name: str
    arguments: Json = None
    resume_mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL
    reason: str | None = None
    digest: str | None = None
    expires_at: int | None = None
    asker: Asker | None = None
    message: str | None = None
    response_schema: Json = None

    @property
    def answered_by(self) -> str:
        """The name to answer the question by: its key, if it has one."""
        return self.key or self.ticket_id

    @property
    def answer_mode(self) -> ToolCallResumeMode:
        """What becomes of the answer: as the call says, or the call of the run that asks."""
        return self.resume_mode if self.asker is None else self.asker.resume_mode

    def __hash__(self) -> int:
        """Tickets can be keys of `answers`; their arguments alone could not be hashed."""
        return hash(self.key)


class TicketStatus(StrEnum):
    """A ticket is open until it is answered, once, or until its answer is no longer needed."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CLOSED = "closed"


class Ticket(AskedCall, frozen=True, kw_only=True):
    """A suspended call as stores keep it, with its place and its answer.

    `call_id` comes from the model and may repeat in other turns. `digest` is the `call_digest` of
    tool, arguments and run. `parameters` is the JSON schema of the tool, so that every node can
    check edited arguments; a ticket with an `asker` leaves it to the asker's own ticket.
    """

    key: str
    thread_id: str
    run_id: str
    call_id: str
    digest: str
    asked_at: int
    status: TicketStatus = TicketStatus.OPEN
    decision: ToolCallResume | None = None
    parameters: Json = None

    def answers_to(self, target: str) -> bool:
        """Whether `target` is the ticket's key, ticket id or call id."""
        return target in (self.key, self.ticket_id, self.call_id)

    def is_bound(self, target: str, answer: ToolCallResume) -> bool:
        """Whether an answer to `target` can only mean this question.

        A key names one question. Ticket and call ids may repeat in other turns: an answer to one of
        them needs a digest, which says what the approver has seen.
        """
        return target == self.key or bool(answer.digest)


def is_digest_of(given: str, digest: str) -> bool:
    """Whether `given` is that digest, or the shorter one earlier versions gave the question."""
    return given == digest or (len(given) == _EARLIER_LENGTH and digest.startswith(given))


def call_digest(run_id: str, tool_name: str, arguments: Json) -> str:
    """The digest that binds an approval to this tool, with these arguments, in this run."""
    return digest([run_id, tool_name, arguments])
