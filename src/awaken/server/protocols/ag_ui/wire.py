"""The requests of AG-UI clients.

The types are lenient: unknown properties are ignored and a null counts as absent, since clients of
several versions are in use.
"""

from __future__ import annotations

from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.storable import explain_json
from awaken.server.protocols.base import BadRequest

PROTOCOL_VERSION = "1.0"


class AgUiTool(msgspec.Struct, frozen=True):
    """A tool that the client carries out."""

    name: str
    description: str | None = None
    parameters: Json = None
    metadata: dict[str, Json] | None = None


class ContextItem(msgspec.Struct, frozen=True):
    """Something that the application tells the agent about itself."""

    description: str = ""
    value: Json = ""


class ResumeEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an interrupt. Without an id, it answers the only open one."""

    interrupt_id: str | None = None
    status: str | None = None
    payload: Json = None
    metadata: dict[str, Json] | None = None

    @property
    def is_cancelled(self) -> bool:
        return self.status == "cancelled"


class AgUiMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message of the client's list, as far as an agent reads it."""

    id: str
    role: str
    content: Json = None
    tool_call_id: str | None = None
    error: str | None = None


class RunAgentInput(msgspec.Struct, frozen=True, rename="camel"):
    """A request for a run. `messages` are stored as they came: the client has them like this."""

    thread_id: str
    run_id: str
    messages: list[dict[str, Json]] = msgspec.field(default_factory=list)
    protocol_version: str | None = None
    state: Json = None
    tools: list[AgUiTool] | None = None
    context: list[ContextItem] | None = None
    forwarded_props: Json = None
    resume: list[ResumeEntry] | ResumeEntry | None = None

    def parse_messages(self) -> list[AgUiMessage]:
        """
        Raises:
            BadRequest: an entry of the list is no message.
        """
        return [_convert(message, AgUiMessage) for message in self.messages]

    def answers(self) -> list[ResumeEntry]:
        """The answers to interrupts; early clients send a single one instead of a list."""
        if isinstance(self.resume, ResumeEntry):
            return [self.resume]
        return self.resume or []


def parse_input(body: bytes) -> RunAgentInput:
    """
    Raises:
        BadRequest: the body is not a `RunAgentInput`.
    """
    try:
        return msgspec.json.decode(body, type=RunAgentInput)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = explain_json(body, error)
        raise BadRequest(f"the body is not a RunAgentInput: {why}", code="bad_body") from None


def _convert(value: Json, type_: type[Any]) -> Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a message cannot be read: {error}", code="bad_body") from None
