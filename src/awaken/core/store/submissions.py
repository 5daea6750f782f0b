"""Submissions: runs that are asked for durably, and carried out by whichever node can."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from awaken.codec import Json, digest, to_json
from awaken.core.budget import Budget
from awaken.core.identity import Adapter, RequestOrigin
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.principal import Principal
from awaken.core.run import RunRecord, RunRequestSnapshot
from awaken.core.suspension import Decision
from awaken.core.tool import ToolDescriptor
from awaken.core.value import Value

KEY_KEPT_MS = 7 * 24 * 3600 * 1000
"""How long the key of a submission, and the id of a deleted thread, are remembered."""

_replace = msgspec.structs.replace


_OPTIONS = ("overrides", "budget", "deps_key", "forwarded_props")
_NO_OPTIONS = (None, None, None, None)


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


class RunInput(Value, frozen=True, kw_only=True):
    """What a run is asked to do, with which options, and for whom: the part that a `Submission` and
    a request at once have in common.

    - `messages`, `decisions`: the new input, and the answers to open tickets.
    - `overrides`, `budget`, `frontend_tools`: options for this run.
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
    overrides: InferenceOverride | None = None
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
        given = (self.overrides, self.budget, self.deps_key, self.forwarded_props)
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
      run that asked goes on with them and with the messages.
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
    def asked(self) -> str:
        """A digest of what was asked, without the ids and times that differ at each attempt."""
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
                self.overrides,
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
