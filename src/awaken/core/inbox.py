"""Queues into a live run: messages for it, and answers to its questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from awaken.codec import Json, dumps_text, from_json, to_json
from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.message import Message
from awaken.core.suspension import Decision
from awaken.errors import Cancelled, InvalidResume

QUEUE_LIMIT = 10_000
"""How many unread entries a queue holds; further ones are refused."""

log = logging.getLogger("awaken.control")


class InboxClosed(Exception):
    """All senders are closed and the inbox is empty: no payload can come any more."""


class _Channel:
    """The state that both ends of an inbox share."""

    __slots__ = ("items", "receiver_gone", "senders", "waiter")

    def __init__(self) -> None:
        # A list, because most inboxes stay empty and an empty deque takes ten times the memory.
        self.items: list[Json] = []
        self.waiter: asyncio.Future[None] | None = None
        self.senders = 1
        self.receiver_gone = False

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class InboxSender:
    """The writing end of an inbox."""

    __slots__ = ("_channel", "_closed", "_on_closed")

    def __init__(self, channel: _Channel, on_closed: Callable[[Json], None] | None) -> None:
        self._channel = channel
        self._closed = False
        self._on_closed = on_closed

    def send(self, payload: Json) -> bool:
        """Queue a payload. Returns `False` if the reader is gone or the inbox is full.

        If the reader is gone, `on_closed` gets the payload.
        """
        if self.try_send(payload):
            return True
        if not self._channel.receiver_gone:
            log.warning(
                "an inbox is full with %d unread payloads: another was refused", QUEUE_LIMIT
            )
        elif self._on_closed is not None:
            self._on_closed(payload)
        return False

    def try_send(self, payload: Json) -> bool:
        """Queue a payload. Returns `False` if the reader is gone or the inbox is full."""
        if self._channel.receiver_gone or len(self._channel.items) >= QUEUE_LIMIT:
            return False
        self._channel.items.append(payload)
        self._channel.wake()
        return True

    @property
    def is_closed(self) -> bool:
        """Whether the reader is gone."""
        return self._channel.receiver_gone

    @property
    def hands_over(self) -> bool:
        """Whether payloads that are sent after the reader is gone go to an `on_closed` function."""
        return self._on_closed is not None

    def clone(self) -> InboxSender:
        self._channel.senders += 1
        return InboxSender(self._channel, self._on_closed)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.senders -= 1
            self._channel.wake()


class InboxReceiver:
    """The reading end of an inbox; payloads come in the order they were sent."""

    __slots__ = ("_channel",)

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def drain(self) -> list[Json]:
        """Remove and return all payloads that are queued now."""
        if not self._channel.items:
            return []
        items, self._channel.items = self._channel.items, []
        return items

    def __len__(self) -> int:
        return len(self._channel.items)

    async def recv(self) -> Json:
        """Wait for the next payload, and return it.

        Raises:
            InboxClosed: all senders are closed and the inbox is empty.
        """
        await self.ready()
        return self._channel.items.pop(0)

    async def ready(self) -> None:
        """Wait until there is a payload to read.

        Raises:
            InboxClosed: all senders are closed and the inbox is empty.
        """
        channel = self._channel
        while not channel.items:
            if channel.senders <= 0:
                raise InboxClosed
            channel.waiter = asyncio.get_running_loop().create_future()
            try:
                await channel.waiter
            finally:
                channel.waiter = None

    async def recv_or_cancel(self, token: CancellationToken | None) -> Json | None:
        """The next payload, or `None` if the token is cancelled or all senders are closed."""
        try:
            with interruptible(token):
                return await self.recv()
        except (Cancelled, InboxClosed):
            return None

    def close(self) -> None:
        self._channel.receiver_gone = True
        self._channel.items.clear()


def inbox_channel(
    on_closed: Callable[[Json], None] | None = None,
) -> tuple[InboxSender, InboxReceiver]:
    """Both ends of a queue of JSON payloads; it holds at most `QUEUE_LIMIT` of them.

    `on_closed` gets the payloads that are sent after the reader is gone.
    """
    channel = _Channel()
    return InboxSender(channel, on_closed), InboxReceiver(channel)


DecisionBatch = tuple[tuple[Decision, ...], int | None]
"""Answers that are applied together, and the sequence number of the command they came with."""


class DecisionQueue:
    """The queue of answers for a run, in batches.

    With `waits`, the run waits for answers still to come; else it ends suspended when it needs one.
    """

    __slots__ = ("_batches", "_waiter", "closed", "waits")

    def __init__(self, *, waits: bool = True) -> None:
        self.waits = waits
        self._batches: list[DecisionBatch] = []
        self._waiter: asyncio.Future[None] | None = None
        self.closed = False

    def send(self, decisions: Sequence[Decision], command: int | None = None) -> bool:
        """Queue a batch of answers. Returns `False` if the queue is closed or full."""
        if self.closed or len(self._batches) >= QUEUE_LIMIT:
            return False
        self._batches.append((tuple(decisions), command))
        self._wake()
        return True

    def drain(self) -> list[DecisionBatch]:
        """Remove and return all batches that are queued now."""
        batches, self._batches = self._batches, []
        return batches

    def __len__(self) -> int:
        return len(self._batches)

    def close(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def ready(self) -> None:
        """Wait until there is a batch to read, or the queue is closed."""
        while not self._batches and not self.closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


# -- payloads --------------------------------------------------------------------------------

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
