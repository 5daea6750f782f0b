"""The state key that holds the status of each tool call."""

from __future__ import annotations

import msgspec

from awaken.codec import Json
from awaken.core.state.key import BuiltInKey, Merge, Scope, StateKey
from awaken.core.suspension import (
    Asker,
    ToolCallResume,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.core.value import Value

_replace = msgspec.structs.replace
# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_SUCCEEDED = ToolCallStatus.SUCCEEDED
_FAILED = ToolCallStatus.FAILED
_CANCELLED = ToolCallStatus.CANCELLED
_REPLAY = ToolCallResumeMode.REPLAY_TOOL_CALL


class ToolCallState(Value, frozen=True, kw_only=True):
    """The status of one call.

    `key` is its key in the call ledger. `asked` counts the questions (tickets) it has asked;
    `digest`, `expires_at`, `asker`, `message` and `response_schema` belong to the last one. `asker`
    is set if the question comes from a run that this call started.
    """

    call_id: str
    tool_name: str
    arguments: Json
    status: ToolCallStatus = msgspec.field(default_factory=lambda: ToolCallStatus.NEW)
    updated_at: int = msgspec.field(default_factory=int)
    resume_mode: ToolCallResumeMode = msgspec.field(default_factory=lambda: _REPLAY)
    suspension_id: str | None = None
    suspension_reason: str | None = None
    resume_input: ToolCallResume | None = None
    key: str = ""
    asked: int = 0
    digest: str | None = None
    expires_at: int | None = None
    asker: Asker | None = None
    message: str | None = None
    response_schema: Json = None

    @property
    def question_key(self) -> str:
        """The unique key of the last question this call asked."""
        return self.key if self.asked <= 1 else f"{self.key}#{self.asked}"

    @property
    def asks_about(self) -> tuple[str, Json]:
        """The tool name and arguments that an approver decides about."""
        if self.asker is not None:
            return self.asker.tool_name, self.asker.arguments
        return self.tool_name, self.arguments

    @property
    def is_edited(self) -> bool:
        """Whether the approver has given the call other arguments. The question of a delegate is
        passed on to the delegate, with them."""
        is_passed_on = self.resume_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL
        return is_passed_on and self.asker is None and self.resume_input is not None

    def with_resume_mode(self, mode: ToolCallResumeMode) -> ToolCallState:
        return _replace(self, resume_mode=mode)

    def with_suspension(
        self,
        id: str | None,
        reason: str | None,
        message: str | None = None,
        response_schema: Json = None,
    ) -> ToolCallState:
        """The call with this suspension; a blank id counts as `None`, the reason is trimmed."""
        suspension_id = id if id is not None and id.strip() else None
        return _replace(
            self,
            suspension_id=suspension_id,
            suspension_reason=_trim(reason),
            message=message or None,
            response_schema=response_schema,
        )


def _trim(text: str | None) -> str | None:
    return (text.strip() or None) if text is not None else None


def _no_calls() -> dict[str, ToolCallState]:
    return {}


class ToolCallStatesValue(Value, frozen=True, kw_only=True):
    """The calls of the latest step that made any, by call id.

    `turn` is the id of the assistant message that made them. Calls that have ended stay here as
    long as this process has the run; commits leave them out.
    """

    calls: dict[str, ToolCallState] = msgspec.field(default_factory=_no_calls)
    turn: str = ""


class PutCall(Value, frozen=True, kw_only=True):
    """Set the state of one call, unless its old status may not change to the new one.

    `turn` is the id of the assistant message that made the call. A new id removes the calls of the
    message before it; with `None` the call joins those already there.
    """

    call: ToolCallState
    turn: str | None = None


class ClearCalls(Value, frozen=True, kw_only=True):
    """Remove all calls: a new step begins."""


ToolCallUpdate = PutCall | ClearCalls


def _tool_calls(state: ToolCallStatesValue, update: ToolCallUpdate) -> ToolCallStatesValue:
    if isinstance(update, ClearCalls):
        return ToolCallStatesValue(turn=state.turn)
    call, turn = update.call, state.turn if update.turn is None else update.turn
    if turn != state.turn:
        return ToolCallStatesValue(calls={call.call_id: call}, turn=turn)
    old = state.calls.get(call.call_id)
    if old is not None and not old.status.can_go_to(call.status):
        return state
    return ToolCallStatesValue(calls={**state.calls, call.call_id: call}, turn=turn)


def _drop_settled_calls(state: ToolCallStatesValue) -> ToolCallStatesValue | None:
    """The calls a restarted process needs from the state, or `None` if there are none.

    That process reads about ended calls in the message log and the call ledger. A call that ended
    is kept only if it has an answer that was not carried out, or a question that neither of them
    records.
    """
    kept: dict[str, ToolCallState] | None = None
    for id, call in state.calls.items():
        status = call.status
        if (
            (status is _SUCCEEDED or status is _FAILED or status is _CANCELLED)
            and call.resume_input is None
            and call.suspension_reason is None
        ):
            continue
        kept = kept or {}
        kept[id] = call
    return None if kept is None else ToolCallStatesValue(calls=kept, turn=state.turn)


TOOL_CALL_STATES: StateKey[ToolCallStatesValue, ToolCallUpdate] = BuiltInKey(
    "__runtime.tool_call_states",
    initial=ToolCallStatesValue,
    apply=_tool_calls,
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
    durable=_drop_settled_calls,
)
