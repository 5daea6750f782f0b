"""What all protocols share: the types of a request as the runtime reads it, and of an encoder.

The ingest of a protocol makes an `Intake` of a request and of what is known of its thread
(`KnownThread`). The server submits the intake, in the same way for every protocol. The protocol's
`Encoder` then turns the run's events into chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.core.event import RunEvent
from awaken.core.identity import Adapter
from awaken.core.inference import InferenceOverride
from awaken.core.message import Message
from awaken.core.store.commands import SubmitMode
from awaken.core.suspension import Decision, Ticket
from awaken.core.tool import ToolDescriptor
from awaken.core.value import Value


class Encoder(Protocol):
    """Turns the events of a run, as the follower gives them, into one protocol's chunks.

    A chunk is a JSON object. An encoder stores what is open in one client's stream, and nothing
    else; it takes the time from the events.
    """

    def start(self) -> Iterable[Json]:
        """The chunks at the beginning of the stream."""
        ...

    def encode(self, event: RunEvent) -> Iterable[Json]:
        """The chunks of an event, in order; none for an event that the protocol does not show."""
        ...

    def finish(self) -> Iterable[Json]:
        """The chunks at the end of the stream: they close what is open."""
        ...


class BadRequest(Exception):
    """A request that makes no sense; the message says what is wrong, and what to send instead."""

    def __init__(self, message: str, *, code: str = "bad_request") -> None:
        super().__init__(message)
        self.code = code


MAX_COMPARED = 1_000
"""How many of the thread's last messages are compared with those of a request."""


class KnownThread(Value, frozen=True, kw_only=True):
    """What the store has of the thread that a request is about.

    `messages` are the last `MAX_COMPARED` of its log, `tickets` are those that are open. `closed`
    are the tickets of the run that a request answers which are not open.
    """

    messages: tuple[Message, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    closed: tuple[Ticket, ...] = ()


def _nothing() -> dict[str, Json]:
    return {}


class Intake(Value, frozen=True, kw_only=True):
    """What a request asks for.

    - `messages` are new, `decisions` answer open tickets, each by its key and with the digest of
      the question that the client has seen.
    - `rewind_to` is the id of a message: the thread continues from before it.
    - `state` are values for public state keys, by name.
    - `forwarded_props` is a value of the client's application; the run's record has it.
    - `mode` says what happens to the thread's open run, if there is one.
    - `key` makes the request idempotent within the thread.
    - `adapter` is the protocol, `request_id` is the client's own id of the request or run; the
      record has both.
    """

    thread_id: str | None = None
    agent_id: str | None = None
    messages: tuple[Message, ...] = ()
    decisions: tuple[Decision, ...] = ()
    rewind_to: str | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    settings: InferenceOverride | None = None
    state: dict[str, Json] = msgspec.field(default_factory=_nothing)
    forwarded_props: Json = None
    mode: SubmitMode = SubmitMode.QUEUE
    key: str | None = None
    adapter: Adapter = Adapter.INTERNAL
    request_id: str | None = None
