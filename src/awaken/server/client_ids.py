"""Ids as clients see them: without the scope of their tenant. Scopes are added and removed here,
nowhere else."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from awaken.codec import dumps_text, loads
from awaken.core.event import (
    ActivitySnapshot,
    AgentEvent,
    Error,
    MessagesSnapshot,
    RunEvent,
    RunFinish,
    RunStart,
    ToolCallDone,
    ToolCallResumed,
)
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import Failed, TerminationReason
from awaken.core.message import Message
from awaken.core.suspension import AskedCall, Asker, SuspendTicket
from awaken.core.thread_ids import join_scope, without_scope
from awaken.core.tool import PROGRESS_ACTIVITY, ToolResult

_replace = msgspec.structs.replace
_PROGRESS_IDS = ("thread_id", "run_id", "parent_run_id")
_CHILD = "child_run_id"
"""The field in which a tool result or a question names the delegate's run that it comes from."""

Asked = TypeVar("Asked", bound=AskedCall)


class ClientIds:
    """Converts the ids of one tenant between those that clients see (outside) and those in stores
    (inside)."""

    __slots__ = ("_prefix", "scope")

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self._prefix = f"{scope}/" if scope else ""

    # -- composing ----------------------------------------------------------------------------

    def new(self, given: str) -> str:
        """The id of a thread that the client names.

        Raises:
            InvalidId: clients may not name threads so.
        """
        return join_scope(self.scope, given)

    def inside(self, given: str) -> str:
        """The id of a thread that exists already, such as one that a run has created."""
        return self._prefix + given

    def candidates(self, given: str) -> tuple[str, ...]:
        """The ids that a client's id of a thread or run may stand for.

        The ids of submitted runs have no scope, and those of delegates have one; so the caller
        checks the scope in the record that it finds.
        """
        return (self._prefix + given, given) if self._prefix else (given,)

    # -- stripping ----------------------------------------------------------------------------

    def outside(self, id: str) -> str:
        """An id as this tenant's clients see it."""
        return id.removeprefix(self._prefix)

    def outside_if(self, id: str | None) -> str | None:
        """The same for an id that may be missing."""
        return None if id is None else id.removeprefix(self._prefix)

    def text(self, text: str) -> str:
        """An error text of our own, without the scope in the ids that it quotes."""
        if not self._prefix or self._prefix not in text:
            return text
        return re.sub(rf"(?<![\w./@=+-]){re.escape(self._prefix)}", "", text)

    def reason(self, reason: TerminationReason, thread_id: str) -> TerminationReason:
        """The reason why a run of a thread ended, as this tenant's clients see it. A failure quotes
        ids; texts of tools and models that it quotes stay as they are."""
        if not self._prefix or not isinstance(reason, Failed):
            return reason
        return Failed(value=without_scope(reason.value, thread_id))

    def values(self, values: dict[str, Any], thread_id: str) -> dict[str, Any]:
        """The state or the request of a run of a thread, with the ids of the thread's tree as
        this tenant's clients see them."""
        if not self._prefix:
            return values
        stripped: dict[str, Any] = loads(
            without_scope(dumps_text(values), thread_id), dict[str, Any]
        )
        return stripped

    def event(self, run_event: RunEvent) -> RunEvent:
        """An event as this tenant's clients see it."""
        if not self._prefix:
            return run_event
        return _replace(
            run_event,
            thread_id=self.outside(run_event.thread_id),
            run_id=self.outside(run_event.run_id),
            parent_run_id=self.outside_if(run_event.parent_run_id),
            event=self._strip_event(run_event.event, run_event.thread_id),
        )

    def _strip_event(self, event: AgentEvent, thread_id: str) -> AgentEvent:
        match event:
            case RunStart():
                return _replace(
                    event,
                    thread_id=self.outside(event.thread_id),
                    run_id=self.outside(event.run_id),
                    parent_run_id=self.outside_if(event.parent_run_id),
                    identity=self._identity(event.identity),
                )
            case RunFinish():
                return _replace(
                    event,
                    thread_id=self.outside(event.thread_id),
                    run_id=self.outside(event.run_id),
                    identity=self._identity(event.identity),
                    tickets=tuple(map(self.question, event.tickets)),
                    termination=self.reason(event.termination, event.thread_id),
                )
            case Error():
                return _replace(event, message=without_scope(event.message, thread_id))
            case ToolCallDone():
                return _replace(event, result=self._result(event.result))
            case ToolCallResumed(result={"metadata": {"child_run_id": _} as metadata} as result):
                result = {**result, "metadata": self._without_scope(metadata)}
                return _replace(event, result=result)
            case MessagesSnapshot():
                return _replace(event, messages=tuple(map(self.message, event.messages)))
            case ActivitySnapshot(content=dict() as report) if _is_progress(event):
                found = {name: report.get(name) for name in _PROGRESS_IDS}
                named = {
                    name: self.outside(id) for name, id in found.items() if isinstance(id, str)
                }
                return _replace(event, content=report | named)
            case _:
                return event

    def _result(self, result: ToolResult) -> ToolResult:
        """A tool result with the ids of a delegate's run and question as clients see them."""
        if result.suspension is not None:
            result = _replace(result, suspension=self._strip_ticket(result.suspension))
        if _CHILD in result.metadata:
            result = _replace(result, metadata=self._without_scope(result.metadata))
        return result

    def _strip_ticket(self, asked: SuspendTicket) -> SuspendTicket:
        question = asked.suspension
        parameters = question.parameters
        if isinstance(parameters, dict) and _CHILD in parameters:
            parameters = self._without_scope(parameters)
        question = _replace(question, id=self.text(question.id), parameters=parameters)
        return _replace(asked, suspension=question, asker=self._asker(asked.asker))

    def _without_scope(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """The metadata of a delegate, with the id of its run as clients see it."""
        child = metadata[_CHILD]
        return {**metadata, _CHILD: self.outside(child) if isinstance(child, str) else child}

    def _asker(self, asker: Asker | None) -> Asker | None:
        if asker is None:
            return None
        thread, run = self.outside(asker.thread_id), self.outside(asker.run_id)
        return _replace(asker, thread_id=thread, run_id=run)

    def question(self, asked: Asked) -> Asked:
        """The question of a suspended call, as this tenant's clients see it."""
        if not self._prefix or asked.asker is None:
            return asked
        return _replace(asked, ticket_id=self.text(asked.ticket_id), asker=self._asker(asked.asker))

    def message(self, message: Message) -> Message:
        """A message of the log, as this tenant's clients see it."""
        metadata, id = message.metadata, message.id
        if not self._prefix:
            return message
        if id is not None and id.startswith(self._prefix) and "~" in id:
            message = _replace(message, id=self.outside(id))  # the report of a task
        if metadata is None or metadata.run_id is None:
            return message
        return _replace(message, metadata=_replace(metadata, run_id=self.outside(metadata.run_id)))

    def _identity(self, identity: RunIdentity | None) -> RunIdentity | None:
        if identity is None:
            return None
        return _replace(
            identity,
            thread_id=self.outside(identity.thread_id),
            run_id=self.outside(identity.run_id),
            parent_thread_id=self.outside_if(identity.parent_thread_id),
            parent_run_id=self.outside_if(identity.parent_run_id),
        )


def _is_progress(event: ActivitySnapshot) -> bool:
    return event.activity_type == PROGRESS_ACTIVITY
