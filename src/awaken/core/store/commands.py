"""Commands to a thread's owner, stored until the owner has carried them out.

A submission is a durable request for a run; whichever worker owns the thread, or claims it, starts
the run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any, Protocol, Self

import msgspec

from awaken.codec import Json, digest, to_json
from awaken.core.budget import Budget
from awaken.core.identity import Adapter, Principal, RequestOrigin
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord, RunRequestSnapshot
from awaken.core.suspension import Decision
from awaken.core.thread import Thread
from awaken.core.tool import ToolDescriptor
from awaken.core.value import Value


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
        submission = self.submission
        not_before = submission.not_before_ms if submission is not None else None
        return not_before is None or not_before <= now_ms

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


def build_cancels(run_ids: Iterable[str], at_ms: int) -> list[ThreadCommand]:
    """The commands that cancel delegates. The store drops a command to a delegate that never
    started or has ended, so the ids need not be checked before."""
    return [ThreadCommand.cancel(run_id, run_id, at_ms=at_ms) for run_id in run_ids]


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

    def watch_commands(self) -> AsyncGenerator[set[str], None]:
        """Yields the threads in which commands wait, of those that this store owns or that have no
        live owner, for as long as the caller iterates.

        The first set holds every such thread, and may be empty. A later one names the thread of a
        command that became visible, at once if the database notifies the store and within a second
        otherwise; threads whose commands still wait are named again every few seconds. A thread
        may be named twice, or without a reason: the caller reads its commands.
        """
        ...


OUTBOX_KEY = "background_message_outbox"
"""The state key of a thread's unsent messages; its field `pending` lists them."""


# -- submissions ------------------------------------------------------------------------------


KEY_KEPT_MS = 7 * 24 * 3600 * 1000
"""How long the key of a submission, and the id of a deleted thread, are remembered."""


class SubmitMode(StrEnum):
    """What a submission does if its thread has an open run.

    `queue` waits until that run has ended. `steer` gives the messages to that run. `interrupt`
    cancels that run, everything it started and the runs that wait behind it, and is carried out
    next. `refuse` raises. In a thread without an open run, all four start a run.
    """

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"
    REFUSE = "refuse"


_replace = msgspec.structs.replace


_OPTIONS = ("overrides", "budget", "deps_key", "forwarded_props")
_NO_OPTIONS = (None, None, None, None)


class RunInput(Value, frozen=True, kw_only=True):
    """What a run is asked to do, with which options, and for whom: the part that a `Submission` and
    a request at once have in common.

    - `messages`, `decisions`: the new input, and the answers to open tickets.
    - `settings`, `budget`, `frontend_tools`: options for this run. A parameter in `settings`
      replaces that of the agent; the others stay the agent's.
    - `state`: values for public state keys, by name; a new run starts with those that its agent has
      such keys for.
    - `deps_key`: is given to the function that makes the dependencies of the run.
    - `forwarded_props`: what the client's application passes on; only the record keeps it.
    - `rewind_to`: the id of a message in view, before which the run begins.
    - `principal`, `user`, `labels`: who asks, the end user it is for, and labels for filters.

    The other fields say where the request comes from.
    """

    thread_id: str
    messages: tuple[Message, ...] = ()
    decisions: tuple[Decision, ...] = ()
    settings: InferenceOverride | None = msgspec.field(default=None, name="overrides")
    budget: Budget | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    state: dict[str, Json] = msgspec.field(default_factory=dict)
    deps_key: Json = None
    forwarded_props: Json = None
    rewind_to: str | None = None
    principal: Principal | None = None
    user: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    origin: RequestOrigin = RequestOrigin.USER
    adapter: Adapter = Adapter.INTERNAL
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None

    def extras(self) -> Json:
        """The options that the run's record keeps, by name; `None` if there are none."""
        given = (self.settings, self.budget, self.deps_key, self.forwarded_props)
        if given == _NO_OPTIONS:
            return None
        options = zip(_OPTIONS, given, strict=True)
        return {name: to_json(option) for name, option in options if option is not None}

    def fields(self) -> dict[str, Any]:
        """The values of these fields, by name."""
        return {name: getattr(self, name) for name in RunInput.__struct_fields__}


class Submission(RunInput, frozen=True, kw_only=True):
    """A request for a run that survives the process that accepted it.

    - `run_id` is the id that the new run gets.
    - `decisions` answer open tickets of the thread. A submission with decisions starts no run: the
      run that asked continues with them and with the messages.
    - `rewind_to` is the id of a message in view. The run begins by rewinding the thread to before
      that message: its first commit takes that message and all behind it out of view, and adds the
      submission's own messages.
    - `key` makes it idempotent: a thread takes a submission with the same key once.
    - `not_before_ms` is the time before which the run does not start.
    - `principal` is the person or program on whose behalf it was submitted; its decisions are
      theirs. `user` is the end user that the run is for, `labels` are for filters. A new thread
      keeps all three.
    """

    run_id: str
    agent_id: str
    mode: SubmitMode = SubmitMode.QUEUE
    key: str | None = None
    not_before_ms: int | None = None
    at_ms: int = 0

    @property
    def request_digest(self) -> str:
        """A digest of the request, without the ids and times that differ at each attempt."""
        rewound = () if self.rewind_to is None else (self.rewind_to,)
        key = () if self.deps_key is None else ("deps_key", self.deps_key)
        return digest(
            (
                self.agent_id,
                [_replace(message, id=None) for message in self.messages],
                [
                    (target, _replace(answer, decision_id="", updated_at=0))
                    for target, answer in self.decisions
                ],
                self.settings,
                self.budget,
                self.frontend_tools,
                self.mode,
                self.not_before_ms,
                self.user,
                self.labels,
                *rewound,
                *((self.state,) if self.state else ()),
                *key,
            )
        )

    def record(self) -> RunRecord:
        """The record of the run until it starts."""
        at = self.at_ms // 1000
        return RunRecord(
            run_id=self.run_id,
            thread_id=self.thread_id,
            agent_id=self.agent_id,
            request=RunRequestSnapshot(
                origin=self.origin,
                sender_id=self.principal.id if self.principal is not None else None,
                input_message_ids=tuple([message.id for message in self.messages if message.id]),
                input_message_count=len(self.messages),
                request_extras=self.extras(),
                frontend_tools=self.frontend_tools,
                transport_request_id=self.transport_request_id,
                principal=self.principal,
                user=self.user,
                labels=self.labels,
            ),
            status=RunStatus.CREATED,
            dispatch_id=self.dispatch_id,
            session_id=self.session_id,
            transport_request_id=self.transport_request_id,
            created_at=at,
            updated_at=at,
            created_at_ms=self.at_ms,
            updated_at_ms=self.at_ms,
        )


class Submitted(Value, frozen=True, kw_only=True):
    """The answer to a submission.

    `run_id` is the run that carries it out: a new one, or the open run that got its messages or
    answers. `cursor` is the number of the thread's last event: a client follows the thread from
    there. `is_new` is false if the thread had taken the same submission before.
    """

    thread_id: str
    run_id: str
    cursor: int = 0
    is_new: bool = True
