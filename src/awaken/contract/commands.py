"""What other processes ask of a thread's owner, kept until it is done."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, Self

import msgspec

from awaken.domain.message import Message
from awaken.domain.suspension import Decision
from awaken.domain.thread import Thread
from awaken.domain.value import Value

OUTBOX_KEY = "background_message_outbox"
"""The state key under which a thread keeps messages that are still to be sent, as `pending`."""


class CommandKind(StrEnum):
    """Stop, read this, or go on with these answers."""

    CANCEL = "cancel"
    MESSAGES = "messages"
    DECISIONS = "decisions"


class ThreadCommand(Value, frozen=True, kw_only=True):
    """Something to be done by whoever runs the thread. Ids grow in the order of sending.

    It is there until a commit acknowledges it; a cancel goes with the end of its run. With a `key`,
    a thread takes it once: another one of that key is dropped, whatever has become of the first.
    """

    id: int = msgspec.field(default_factory=int)
    thread_id: str
    kind: CommandKind
    run_id: str | None = None
    messages: tuple[Message, ...] = ()
    decisions: tuple[Decision, ...] = ()
    at_ms: int = msgspec.field(default_factory=int)
    key: str | None = None

    @classmethod
    def cancel(cls, thread_id: str, run_id: str, *, at_ms: int) -> Self:
        """A run is to end."""
        return cls(thread_id=thread_id, kind=CommandKind.CANCEL, run_id=run_id, at_ms=at_ms)


class Commands(Protocol):
    """Commands and answers, from any process to the one that owns the thread."""

    async def send(self, command: ThreadCommand) -> int:
        """Keep a command, and return the id it got (that of the argument is not looked at).

        One whose key the thread knows is not kept again: returns the id of the first if that is
        still to be done, else 0. A cancel for a run that has ended is not kept: returns 0. What
        this costs does not depend on how many others there are.

        Raises:
            NotFound: no such thread.
            InvalidRecord: decisions are not sent but decided.
        """
        ...

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        """Answer tickets of a thread, all or none, and keep the command that says so.

        A target is a ticket's key; or its ticket id or call id, which may come again with another
        question, and are taken with the digest of the question only. Each decision is stamped
        with the time and with its ticket's digest, and names its ticket by key in the command. A
        decision that was taken before (same non-empty `decision_id`, same answer) is left out;
        returns `None` if none is left.

        Raises:
            DecisionRefused: no open ticket fits, it was answered or expired, the digest given is
                not the ticket's, or there is none where there must be. Nothing was changed.
        """
        ...

    async def cancel_tree(self, thread_id: str, *, at_ms: int) -> Sequence[Thread]:
        """Tell the open run of a thread, and every open run beneath it, to end, all at once.

        Returns their threads, the oldest first; none if nothing is open there. A run that was told
        before is not told again. What it costs depends on what is open, not on what has ended.
        """
        ...

    async def load_commands(
        self, thread_id: str | None = None, *, after: int = 0
    ) -> Sequence[ThreadCommand]:
        """What is still to be done in a thread, or in all of them, oldest first; only commands
        with ids above `after`."""
        ...

    async def is_pending(self, id: int) -> bool:
        """Whether a command is still to be done."""
        ...

    async def list_outboxes(self) -> Sequence[str]:
        """The threads that nobody owns, and that have something to send (see `OUTBOX_KEY`).

        What it costs depends on how many have, not on how many threads there are.
        """
        ...

    async def next_commands(self, after: int) -> Sequence[ThreadCommand]:
        """Wait for commands, of any thread, with ids above `after`; at least one."""
        ...
