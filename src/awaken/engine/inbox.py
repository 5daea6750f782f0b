"""The inbox of a running run: messages and task events that join its conversation."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from awaken.codec import Json, dumps_text, from_json, to_json
from awaken.core.message import Message
from awaken.engine.live_run import LiveRun
from awaken.errors import InvalidResume

MESSAGES = "messages"


def messages_payload(messages: Iterable[Message], command: int | None = None) -> Json:
    """The inbox payload for messages, with the id of the command that brought them, if any."""
    payload = {"kind": MESSAGES, "messages": [to_json(message) for message in messages]}
    return payload if command is None else {**payload, "command": command}


def payload_messages(payload: Json) -> list[Message]:
    """The messages of a payload. Any other payload becomes one message, a background-task event.

    Raises:
        InvalidResume: the payload is of the kind `messages`, but its messages are missing or
            malformed.
    """
    kind = payload.get("kind") if isinstance(payload, dict) else None
    if kind == MESSAGES:
        entries = payload.get("messages")
        if not isinstance(entries, list):
            raise InvalidResume("inbox messages payload is missing a messages array")
        return [_entry(index, entry) for index, entry in enumerate(entries)]
    task = payload.get("task_id") if isinstance(payload, dict) else None
    head = (
        f'<background-task-event kind="{_attribute(kind or "event")}" '
        f'task_id="{_attribute(task or "unknown")}">'
    )
    return [Message.internal_user(f"{head}\n{dumps_text(payload)}\n</background-task-event>")]


def _attribute(value: object) -> str:
    text = str(value)
    for plain, escaped in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return text


def _entry(index: int, entry: Json) -> Message:
    try:
        return from_json(entry, Message)
    except msgspec.ValidationError as error:
        raise InvalidResume(f"inbox message {index} is malformed: {error}") from error


def read_inbox(run: LiveRun) -> list[Message]:
    """Empty the run's inbox and return its payloads as messages. The next commit acknowledges the
    commands that brought them.

    Raises:
        InvalidResume: a payload of the kind `messages` is malformed.
    """
    inbox = run.inbox
    arrived: list[Message] = []
    if inbox is not None and len(inbox):
        for payload in inbox.drain():
            arrived += take_payload(run, payload)
    return arrived


def take_payload(run: LiveRun, payload: Json) -> list[Message]:
    """The messages of one payload; the next commit acknowledges its command. Raises as
    `payload_messages` does."""
    command = payload.get("command") if isinstance(payload, dict) else None
    if isinstance(command, int):
        run.journal.extras.acks.append(command)
    return payload_messages(payload)
