"""The messages that an AG-UI client has, as far as this stream knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from awaken.server.protocols.ag_ui.messages import WireMessage, add_call


class ClientTranscript:
    """A client's list of messages.

    The client updates its list by the same rules. A `MESSAGES_SNAPSHOT` with all messages removes
    those that the client has received and that are not valid any more. `logged` are the ids of
    messages that are known to be in the thread's log: those are not removed.
    """

    def __init__(self, messages: Iterable[WireMessage] = ()) -> None:
        self.logged: set[str] = set()
        self.replace_all(messages)

    def replace_all(self, messages: Iterable[WireMessage]) -> None:
        """Replace all messages by these."""
        self._messages: dict[str, WireMessage] = {}
        # Text is joined when it is asked for: an answer comes in thousands of pieces.
        self._pieces: dict[str, list[str]] = {}
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}
        self._arguments: dict[str, list[str]] = {}
        for message in messages:
            self.add(message)

    def all(self) -> list[WireMessage]:
        """All messages, whole."""
        for id in list(self._pieces):
            self.text(id)
        for id in list(self._arguments):
            self.arguments(id)
        return [*self._messages.values()]

    def has(self, id: str) -> bool:
        return id in self._messages

    def add(self, message: WireMessage) -> None:
        """Add a message, unless there is one with its id."""
        id = str(message.get("id"))
        if id in self._messages:
            return
        if "toolCalls" in message:
            message = {**message, "toolCalls": _calls_of(message)}
        self._messages[id] = message
        for call in message.get("toolCalls", ()):
            self._calls[call["id"]] = (id, call["function"])

    def drop(self, id: str) -> None:
        """Remove a message, with its calls."""
        self._pieces.pop(id, None)
        message = self._messages.pop(id, {})
        for call in message.get("toolCalls", ()):
            self._calls.pop(call["id"], None)
            self._arguments.pop(call["id"], None)

    # -- text ---------------------------------------------------------------------------------

    def write(self, id: str, delta: str) -> None:
        """Append to a message's text."""
        self._pieces.setdefault(id, []).append(delta)

    def text(self, id: str) -> str:
        message = self._messages[id]
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        pieces = self._pieces.pop(id, None)
        if pieces is not None:
            text = message["content"] = "".join((text, *pieces))
        return text

    def clear(self, id: str) -> None:
        """Remove a message's text."""
        self._pieces.pop(id, None)
        self._messages[id]["content"] = ""

    # -- calls --------------------------------------------------------------------------------

    def add_call(self, message_id: str, call_id: str, name: str) -> None:
        message = self._messages[message_id]
        add_call(message, call_id, name)
        self._calls[call_id] = (message_id, message["toolCalls"][-1]["function"])

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def message_of(self, call_id: str) -> str | None:
        """The id of the message that made a call; `None` if the client does not have it."""
        found = self._calls.get(call_id)
        return found[0] if found is not None else None

    def write_arguments(self, call_id: str, delta: str) -> None:
        self._arguments.setdefault(call_id, []).append(delta)

    def arguments(self, call_id: str) -> str:
        """The part of a call's arguments that the client has."""
        function = self._calls[call_id][1]
        pieces = self._arguments.pop(call_id, None)
        if pieces is not None:
            function["arguments"] = "".join((function["arguments"], *pieces))
        return str(function["arguments"])

    def set_arguments(self, call_id: str, arguments: str) -> None:
        self._arguments.pop(call_id, None)
        self._calls[call_id][1]["arguments"] = arguments

    def drop_call(self, call_id: str) -> None:
        """Remove a call, and its message if that has nothing else."""
        message_id, _ = self._calls.pop(call_id)
        self._arguments.pop(call_id, None)
        message = self._messages[message_id]
        message["toolCalls"] = [call for call in message["toolCalls"] if call["id"] != call_id]
        if not message["toolCalls"]:
            del message["toolCalls"]
            if not self.text(message_id):
                self.drop(message_id)


def _calls_of(message: WireMessage) -> list[dict[str, Any]]:
    """The valid calls of a message that a client has sent."""
    calls = message["toolCalls"]
    return [call for call in calls if _is_call(call)] if isinstance(calls, list) else []


def _is_call(call: object) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(call, dict)
        and isinstance(call.get("id"), str)
        and isinstance(function, dict)
        and isinstance(function.get("arguments"), str)
    )
