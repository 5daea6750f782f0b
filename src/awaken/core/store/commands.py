"""Commands to a thread's owner, stored until the owner has carried them out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from enum import StrEnum
from typing import Protocol, Self

import msgspec

from awaken.core.message import Message
from awaken.core.store.submissions import Submission, Submitted
from awaken.core.suspension import Decision
from awaken.core.thread import Thread
from awaken.core.value import Value

OUTBOX_KEY = "background_message_outbox"
"""The state key of a thread's unsent messages; its field `pending` lists them."""


class CommandKind(StrEnum):
    """Cancel a run, give it messages, give it answers to its questions, or start a new one."""

    CANCEL = "cancel"
    MESSAGES = "messages"
    DECISIONS = "decisions"
    RUN = "run"


class ThreadCommand(Value, frozen=True, kw_only=True):
    """A command for the owner of a thread. The ids of one sender grow in the order of sending.

    It is stored until a commit acknowledges it; a cancel is also dropped when its run ends. `by` is
    the id of the principal that sent it. A thread accepts a `key` once: a later command with the
    same key is dropped, whatever happened to the first. A command of kind `run` holds a submission;
    if that rewinds the thread, `rewinds_to` is the position before the message it names.
    """

    id: int = msgspec.field(default_factory=int)
    thread_id: str
    kind: CommandKind
    run_id: str | None = None
    messages: tuple[Message, ...] = ()
    decisions: tuple[Decision, ...] = ()
    at_ms: int = msgspec.field(default_factory=int)
    key: str | None = None
    by: str | None = None
    submission: Submission | None = None
    rewinds_to: int | None = None

    @classmethod
    def cancel(cls, thread_id: str, run_id: str, *, at_ms: int, by: str | None = None) -> Self:
        """A command to cancel a run."""
        return cls(thread_id=thread_id, kind=CommandKind.CANCEL, run_id=run_id, at_ms=at_ms, by=by)

    def is_due(self, now_ms: int) -> bool:
        """Whether the command may be carried out: false for a submission before its time."""
        asked = self.submission
        return asked is None or asked.not_before_ms is None or asked.not_before_ms <= now_ms

    @classmethod
    def run(cls, submission: Submission, rewinds_to: int | None = None) -> Self:
        """A command to start the run that was submitted."""
        return cls(
            thread_id=submission.thread_id,
            kind=CommandKind.RUN,
            run_id=submission.run_id,
            at_ms=submission.at_ms,
            submission=submission,
            rewinds_to=rewinds_to,
        )


class Commands(Protocol):
    """Sends commands and answers from any process to the owner of a thread."""

    async def send(self, command: ThreadCommand) -> int:
        """Store a command and return its new id (the id in the argument is ignored).

        If the thread has seen the command's key, nothing is stored: returns the id of the first
        command if that is still pending, else 0. A cancel for a run that has ended is not stored
        either: returns 0. A cancel for a submitted run that has not started ends it,
        and stays until an owner of the thread commits the run's events. The cost does
        not depend on how many other commands there are.

        Raises:
            NotFound: no such thread.
            InvalidRecord: the command is of kind `DECISIONS` or `RUN`; use `decide` or `submit`.
        """
        ...

    async def submit(self, submission: Submission) -> Submitted:
        """Store a submission: its thread if that is new, the record of its run with status
        `created`, the command that starts the run, and its key, all or none.

        The thread exists for readers from then on; its open run stays what it was. Whichever node
        owns the thread, or claims it, carries its submissions out one after the other in the order
        of their ids; the run's first commit acknowledges the command. A submission with the key of
        an earlier one is not stored again: the first answer is returned.

        Raises:
            KeyReused: the thread has taken another submission with this key.
            ThreadDeleted: the thread was deleted, and not created again since.
            ThreadBusy: a run of the thread is open or waits to start, and the mode is `refuse`, or
                the submission rewinds the thread and the mode is not `interrupt`.
            RewindRefused: the message it rewinds to is unknown or out of view.
            AlreadyExists: a run has the submission's run id.
            DecisionRefused: an answer cannot be taken; see `decide`.
            Serialization: a value in it cannot be encoded.
        """
        ...

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        """Answer tickets of a thread, all or none, and store the command with the answers.

        Returns the id of the command, or `None` if all decisions were taken before (same non-empty
        `decision_id`, same answer); such decisions are left out.

        A decision's target is the ticket's key, or its ticket id or call id. The ids may be used
        again by a later question, so they are accepted only with the digest of the question. The
        command names each ticket by its key, and each decision gets the time and its ticket's
        digest.

        Raises:
            DecisionRefused: no ticket matches a target; the ticket is answered or expired; the
                digest differs from the ticket's, or is missing where it is needed. Nothing was
                changed.
        """
        ...

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        """Send a cancel to the open run of a thread and to every open run beneath it, atomically.

        `by` is the id of the principal that cancels; a run that ends cancelled keeps it.
        Returns the threads of those runs, oldest first. A run that has a pending cancel gets no
        second one. The cost depends on the number of open runs, not of ended ones.
        """
        ...

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        """The pending commands of a thread in the order of their ids, without those in `skip`.

        A command may become visible after one with a higher id, so a reader remembers the ids it
        has taken, not the highest of them.
        """
        ...

    async def is_pending(self, id: int) -> bool:
        """Whether a command is stored and not acknowledged yet."""
        ...

    async def list_outboxes(self) -> Sequence[str]:
        """The threads without an owner that have unsent messages (see `OUTBOX_KEY`).

        The cost depends on the number of such threads, not of all threads.
        """
        ...

    def told(self) -> AsyncGenerator[set[str], None]:
        """Yields the threads in which commands wait, of those that this store owns or that have no
        live owner, for as long as the caller iterates.

        The first set holds every such thread, and may be empty. A later one names the thread of a
        command that became visible, at once if the store is told of it and within a second
        otherwise; threads whose commands still wait are named again every few seconds. A thread
        may be named twice, or without a reason: the caller reads its commands.
        """
        ...
