"""An AG-UI client in a page of Python: it checks a stream by the rules of `verifyEvents`, and keeps
the messages as the official clients do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
_CONTINUES = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
}
_CLOSES = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}


class Client:
    """What one client holds."""

    def __init__(self, messages: Iterable[Any] = (), state: Any = None) -> None:
        self.messages: list[Any] = [dict(message) for message in messages]
        self.state = state
        self.events: list[Any] = []
        self._open: dict[tuple[str, str], str | None] = {}
        self._owners: dict[tuple[str, str], str | None] = {}
        self._closed_subagents: set[str] = set()
        self._is_over = False

    def take(self, chunks: Iterable[Any]) -> None:
        for chunk in chunks:
            event = json.loads(json.dumps(chunk))  # the client gets a copy
            self.events.append(event)
            _check_shape(event)
            self._verify(event)
            self._apply(event)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def message(self, id: str) -> Any:
        return next((message for message in self.messages if message["id"] == id), None)

    # -- rules --------------------------------------------------------------------------------

    def _verify(self, event: Any) -> None:
        kind = event["type"]
        assert not self._is_over, f"{kind} comes after the end"
        assert (len(self.events) == 1) == (kind == "RUN_STARTED"), f"{kind} at {len(self.events)}"
        if kind in _OPENS:
            self._open_one(event, *_OPENS[kind])
        elif kind in _CONTINUES:
            self._find_open(event, *_CONTINUES[kind])
        elif kind in _CLOSES:
            del self._open[self._find_open(event, *_CLOSES[kind])]
            if kind.startswith("SUBAGENT"):
                self._closed_subagents.add(event["subagentRunId"])
        elif kind == "RUN_FINISHED":
            assert not self._open, f"left open: {self._open}"
        self._is_over = kind in ("RUN_FINISHED", "RUN_ERROR")

    def _key(self, event: Any, kind: str, name: str) -> tuple[str, str]:
        # A step's name is its own only within its agent.
        id = event[name]
        return kind, f"{event.get('subagentRunId')}/{id}" if kind == "step" else id

    def _open_one(self, event: Any, kind: str, name: str) -> None:
        key, tag = self._key(event, kind, name), event.get("subagentRunId")
        assert key not in self._open, f"{key} is opened twice"
        assert self._owners.setdefault(key, tag) == tag, f"{key} has another owner"
        if kind == "subagent":
            assert key[1] not in self._closed_subagents, f"{key} is opened again"
            above = event.get("parentSubagentRunId")
            assert above is None or ("subagent", above) in self._owners, f"{above} is not known"
        if kind == "call":
            owner = self._owners.get(("text", event["parentMessageId"]), tag)
            assert owner == tag, f"the message of {key} has another owner"
        self._open[key] = tag

    def _find_open(self, event: Any, kind: str, name: str) -> tuple[str, str]:
        key = self._key(event, kind, name)
        assert key in self._open, f"{event['type']}: {key} is not open"
        assert self._open[key] == event.get("subagentRunId"), f"{key} has another owner"
        return key

    # -- messages -----------------------------------------------------------------------------

    def _apply(self, event: Any) -> None:
        apply = getattr(self, f"_on_{event['type'].lower()}", None)
        if apply is not None:
            apply(event)

    def _made(self, event: Any, role: str, id: str) -> Any:
        found = self.message(id)
        if found is None:
            found = {"id": id, "role": role}
            if "subagentRunId" in event:
                found["subagentRunId"] = event["subagentRunId"]
            self.messages.append(found)
        return found

    def _on_text_message_start(self, event: Any) -> None:
        self._made(event, "assistant", event["messageId"])

    def _on_reasoning_message_start(self, event: Any) -> None:
        self._made(event, "reasoning", event["messageId"])

    def _on_text_message_content(self, event: Any) -> None:
        message = self.message(event["messageId"])
        assert message is not None, "text for a message that the client does not have"
        message["content"] = (message.get("content") or "") + event["delta"]

    _on_reasoning_message_content = _on_text_message_content

    def _on_tool_call_start(self, event: Any) -> None:
        said = self._made(event, "assistant", event["parentMessageId"])
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": event["toolCallId"], "type": "function", "function": function}
        said.setdefault("toolCalls", []).append(call)

    def _on_tool_call_args(self, event: Any) -> None:
        self._call(event["toolCallId"])["function"]["arguments"] += event["delta"]

    def _call(self, id: str) -> Any:
        calls = (call for message in self.messages for call in message.get("toolCalls", ()))
        return next(call for call in calls if call["id"] == id)

    def _on_tool_call_result(self, event: Any) -> None:
        assert self.message(event["messageId"]) is None, "the client would hold it twice"
        said = self._made(event, "tool", event["messageId"])
        said.update(content=event["content"], toolCallId=event["toolCallId"])

    def _on_messages_snapshot(self, event: Any) -> None:
        told = {message["id"]: message for message in event["messages"]}
        has_reasoning = any(message["role"] == "reasoning" for message in event["messages"])
        kept = [
            told.pop(message["id"], message)
            for message in self.messages
            if message["id"] in told or (message["role"] == "reasoning" and not has_reasoning)
        ]
        self.messages = [*kept, *told.values()]

    def _on_state_snapshot(self, event: Any) -> None:
        self.state = event["snapshot"]

    def _on_state_delta(self, event: Any) -> None:
        for change in event["delta"]:
            name = change["path"].removeprefix("/").replace("~1", "/").replace("~0", "~")
            if change["op"] == "remove":
                del self.state[name]
            else:
                self.state[name] = change["value"]


def _check_shape(event: Any) -> None:
    """The protocol's own types accept it, and know each of its fields."""
    read = EVENT.validate_python(event)
    assert EVENT.dump_python(read, mode="json", by_alias=True, exclude_unset=True) == event
