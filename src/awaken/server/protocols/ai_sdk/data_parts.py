"""Data parts of the AI SDK: the reports of running tools, and the state of delegates.

Each call has one part for each type of report, and each run of a delegate has one part.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from awaken.codec import Json
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    Error,
    RunEvent,
    RunFinish,
    RunStart,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
)
from awaken.core.lifecycle import CancelledEnd, Failed, Suspended, TerminationReason
from awaken.server.protocols.json_patch import PatchError, apply_patch


class ActivityParts:
    """The latest report of each call, by its type."""

    def __init__(self) -> None:
        self._content: dict[str, Json] = {}

    def show(self, event: ActivitySnapshot) -> Iterator[Json]:
        yield self._part(event.message_id, event.activity_type, event.content)

    def change(self, event: ActivityDelta) -> Iterator[Json]:
        """The report with a change; no chunk if the change does not fit the last report."""
        before = self._content.get(_id(event.message_id, event.activity_type))
        try:
            content = apply_patch(before, event.patch)
        except PatchError:
            return
        yield self._part(event.message_id, event.activity_type, content)

    def _part(self, message_id: str, kind: str, content: Json) -> Json:
        id = _id(message_id, kind)
        self._content[id] = content
        data = {"toolCallId": message_id, "activityType": kind, "content": content}
        return {"type": "data-activity", "id": id, "data": data}


def _id(message_id: str, kind: str) -> str:
    return f"{message_id}:{kind}"


PACE_MS = 100
"""The fewest milliseconds, in the time of events, between two updates of one part."""


class DelegateParts:
    """The parts of the runs that the run `run_id` has started, directly or through other runs."""

    def __init__(self, run_id: str) -> None:
        self._root = run_id
        self._members: dict[str, _Member] = {}
        self._calls: set[str] = set()
        self.has_begun = self._is_whole = False

    def __bool__(self) -> bool:
        return bool(self._members)

    def begin(self, *, is_whole: bool) -> None:
        """Note the first event of the run `run_id`. The threads are read side by side, so that a
        delegate's events may come first: if the stream `is_whole`, it has the call that starts a
        delegate, and the delegate's part comes behind that."""
        self.has_begun, self._is_whole = True, is_whole

    def add_call(self, call_id: str) -> None:
        """Note a call of the run, which may start a delegate."""
        self._calls.add(call_id)

    def encode(self, event: RunEvent) -> Iterator[Json]:
        """The chunks of another run's event; none if the run `run_id` has not started that run."""
        member = self._members.get(event.run_id)
        if member is None:
            if event.parent_run_id != self._root and event.parent_run_id not in self._members:
                return
            member = self._members[event.run_id] = _Member(parent=event.parent_run_id)
        _update(event, member)
        if self._is_due(member, event.at_ms):
            yield self._part(event.run_id, event.at_ms, member)

    def encode_due(self, at_ms: int) -> Iterator[Json]:
        """The updates that were delayed and are due now."""
        for run_id, member in self._members.items():
            if self._is_due(member, at_ms):
                yield self._part(run_id, at_ms, member)

    def _is_due(self, member: _Member, at_ms: int) -> bool:
        is_late = member.sent_at is None or at_ms - member.sent_at >= PACE_MS
        return member.changed and is_late and self._has_call(member)

    def _has_call(self, member: _Member) -> bool:
        """Whether the client has the call that started a delegate, or that of the delegate's
        parent."""
        if not self._is_whole or member.call_id is None:
            return self.has_begun
        parent = self._members.get(member.parent or "")
        return member.call_id in self._calls if parent is None else self._has_call(parent)

    def _part(self, run_id: str, at_ms: int, member: _Member) -> Json:
        member.sent_at, member.changed = at_ms, False
        data = {"name": member.name, "status": member.status, "text": member.text}
        return {"type": "data-agent", "id": run_id, "data": data}


class _Member(msgspec.Struct):
    """One delegate's run: its agent, its status, and the text of its latest step. `parent` is the
    run that started it, with the call `call_id` if it was started by a call."""

    parent: str | None
    call_id: str | None = None
    name: str = ""
    status: str = "running"
    text: str = ""
    sent_at: int | None = None
    changed: bool = False


def _update(event: RunEvent, member: _Member) -> None:
    """Update a member with an event. A change of its status is sent at once."""
    before = member.text
    match event.event:
        case RunStart(identity=identity):
            member.status, member.sent_at, member.changed = "running", None, True
            if identity is not None:
                member.name, member.call_id = identity.agent_id, identity.parent_tool_call_id
        case RunFinish(termination=termination):
            member.status, member.sent_at, member.changed = _status(termination), None, True
        case Error():
            member.status, member.sent_at, member.changed = "failed", None, True
        case StepStart() | StreamReset():
            member.text = ""
        case TextDelta(delta=delta):
            member.text += delta
        case StepSnapshot(text=text):
            member.text = text
    member.changed = member.changed or member.text != before


def _status(termination: TerminationReason) -> str:
    match termination:
        case Suspended():
            return "waiting"
        case CancelledEnd():
            return "cancelled"
        case Failed():
            return "failed"
        case _:
            return "done"
