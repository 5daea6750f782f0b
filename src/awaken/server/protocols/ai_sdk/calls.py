"""Tool calls as parts of a message."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from awaken.codec import Json, dumps_text
from awaken.core.event import ToolCallDone, ToolCallResumed
from awaken.core.suspension import ResumedOutcome, ToolCallOutcome
from awaken.core.tool import ToolResult

PACE_MS = 100
"""The fewest milliseconds, in the time of events, between two previews of one call's output."""
_STARTED_OVER = "the model has started its answer over, without this call"
_REFUSED = (ResumedOutcome.DENIED, ResumedOutcome.EXPIRED)
_CARRIED_OUT = (ResumedOutcome.SUCCEEDED, None)


class CallParts:
    """The chunks of one run's tool calls.

    A call that is executed here is `providerExecuted`: otherwise the page's `onToolCall` would be
    asked to execute it, too. A call of the front end is not; its part stays at `input-available`
    until the page answers it. Once the answer is in the log, that call is marked like the others:
    the SDK would send the answer again for as long as the step has an open question.

    Args:
        frontend: the names of the tools that the page executes.
    """

    def __init__(self, frontend: Collection[str]) -> None:
        self._frontend = frozenset(frontend)
        # Calls of this step that have not ended, with the `seq` of `tool_call_ready` if it came.
        self._open: dict[str, tuple[str, int | None]] = {}
        self._void: dict[str, str] = {}
        self._outputs: dict[str, str] = {}
        self._previewed: dict[str, tuple[int, int]] = {}
        self.asked: dict[str, str] = {}
        """The approvals that this stream has asked for: the ticket's key by the call's id."""

    def is_frontend(self, name: str) -> bool:
        return name in self._frontend

    def is_ready(self, id: str) -> bool:
        """Whether the client has the call with all its arguments in this step."""
        return self._open.get(id, ("", None))[1] is not None

    # -- the call as the model writes it ------------------------------------------------------

    def start(self, id: str, name: str) -> Json:
        self._open[id] = (name, None)
        self._void.pop(id, None)
        return {
            "type": "tool-input-start",
            "toolCallId": id,
            "toolName": name,
            **self._execution_fields(name),
        }

    def write_arguments(self, id: str, delta: str) -> Iterator[Json]:
        if id in self._open and delta:
            yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": delta}

    def ready(self, id: str, name: str, arguments: Json, seq: int | None) -> Json:
        self._open[id] = (name, seq or 0)
        self._void.pop(id, None)
        return {
            "type": "tool-input-available",
            "toolCallId": id,
            "toolName": name,
            "input": arguments,
            **self._execution_fields(name),
        }

    def drop(self, id: str, name: str, reason: str) -> Json:
        self._open.pop(id, None)
        self._void.pop(id, None)
        return {
            "type": "tool-input-error",
            "toolCallId": id,
            "toolName": name,
            "input": None,
            "errorText": reason,
            **self._execution_fields(name),
        }

    def _execution_fields(self, name: str) -> dict[str, Json]:
        return {"dynamic": True} if name in self._frontend else {"providerExecuted": True}

    # -- output and results -------------------------------------------------------------------

    def preview(self, id: str, delta: str, at_ms: int) -> Iterator[Json]:
        """A preview of the output so far, unless the last one was a moment ago."""
        output = self._outputs[id] = self._outputs.get(id, "") + delta
        previewed_at, length = self._previewed.get(id, (None, 0))
        if (previewed_at is not None and at_ms - previewed_at < PACE_MS) or len(output) == length:
            return
        self._previewed[id] = (at_ms, len(output))
        yield {
            "type": "tool-output-available",
            "toolCallId": id,
            "output": output,
            "preliminary": True,
            "providerExecuted": True,
        }

    def finish(self, event: ToolCallDone) -> Iterator[Json]:
        self._forget_call(event.id)
        name, result = event.result.tool_name, event.result
        if event.outcome is ToolCallOutcome.SUSPENDED:
            if not self.is_frontend(name):
                yield from self._ask(event)
        elif event.outcome is ToolCallOutcome.SUCCEEDED:
            yield self._output(event.id, _output_of(result))
        else:
            yield self._error(event.id, result.message or dumps_text(result.data))

    def _ask(self, event: ToolCallDone) -> Iterator[Json]:
        ticket = event.result.suspension
        key = event.ticket_key or (ticket.suspension.id if ticket is not None else event.id)
        self.asked[event.id] = key
        yield {"type": "tool-approval-request", "approvalId": key, "toolCallId": event.id}
        yield {"type": "data-approval", "id": key, "data": _question(event)}

    def resume(self, event: ToolCallResumed) -> Iterator[Json]:
        id = event.target_id
        if event.edited is not None:
            fields = {
                "toolCallId": id,
                "toolName": event.name,
                **self._execution_fields(event.name),
            }
            yield {"type": "tool-input-available", **fields, "input": event.edited}
        if event.outcome in _REFUSED:
            yield {"type": "tool-output-denied", "toolCallId": id}
        elif event.outcome in _CARRIED_OUT:
            yield self._output(id, _unwrap(event.result))
        else:
            yield self._error(id, _why(event))

    def _output(self, id: str, output: Json) -> Json:
        return {
            "type": "tool-output-available",
            "toolCallId": id,
            "output": output,
            "providerExecuted": True,
        }

    def _error(self, id: str, text: str) -> Json:
        return {
            "type": "tool-output-error",
            "toolCallId": id,
            "errorText": text,
            "providerExecuted": True,
        }

    def _forget_call(self, id: str) -> None:
        self._open.pop(id, None)
        self._outputs.pop(id, None)
        self._previewed.pop(id, None)

    # -- answers that start over --------------------------------------------------------------

    def start_over(self, from_seq: int | None) -> None:
        """The answer starts over: its calls are void until they come again. Calls that are ready
        stay, except those whose event is void because its `seq` is `from_seq` or more."""
        for id, (name, seq) in list(self._open.items()):
            if seq is None or (from_seq is not None and seq >= from_seq):
                self._void[id] = name
                del self._open[id]

    def complete(self) -> Iterator[Json]:
        """The answer is complete: the calls that did not come again end with an error."""
        for id, name in list(self._void.items()):
            yield self.drop(id, name, _STARTED_OVER)

    def forget(self) -> None:
        """The step is over, or the client has dropped it."""
        self._open, self._void, self._outputs, self._previewed = {}, {}, {}, {}


def _output_of(result: ToolResult) -> Json:
    return result.message if result.data is None else result.data


def _unwrap(result: Json) -> Json:
    """A resumed call's data; a tool that gave metadata has both in the result of its event."""
    is_wrapped = isinstance(result, dict) and set(result) == {"data", "metadata"}
    return result["data"] if is_wrapped else result


def _why(event: ToolCallResumed) -> str:
    error = event.result.get("error") if isinstance(event.result, dict) else None
    return error if isinstance(error, str) else event.reason or f"the call was {event.outcome}"


def _question(event: ToolCallDone) -> Json:
    """The question to the approver, which is not always about the call itself: a delegate's
    question is asked through the call that started the delegate."""
    ticket = event.result.suspension
    asker = ticket.asker if ticket is not None else None
    pending = ticket.pending if ticket is not None else None
    shown: dict[str, Json] = {"toolCallId": event.id, "toolName": event.result.tool_name}
    if asker is not None:
        shown |= {"toolName": asker.tool_name, "input": asker.arguments, "agent": asker.agent_id}
    elif pending is not None:
        shown["input"] = pending.arguments
    message = ticket.suspension.message if ticket is not None else None
    schema = ticket.suspension.response_schema if ticket is not None else None
    optional = {"message": message, "responseSchema": schema, "expiresAt": event.expires_at}
    return shown | {name: value for name, value in optional.items() if value}
