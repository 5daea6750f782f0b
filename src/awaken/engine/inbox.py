"""Reading the inbox of a running run: messages and task events that join its conversation."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.inbox import payload_messages
from awaken.core.message import Message
from awaken.engine.live_run import LiveRun


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
