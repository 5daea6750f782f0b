"""The body of a chat request, as `DefaultChatTransport` sends it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from awaken.codec import Json
from awaken.core.storable import explain_json
from awaken.core.tool import ToolDescriptor
from awaken.server.protocols.intake import BadRequest


class UiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the page holds it."""

    role: str
    id: str = ""
    parts: tuple[dict[str, Any], ...]


class FrontendTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the page carries out itself."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(
            id=self.name,
            name=self.name,
            description=self.description,
            parameters=self.parameters,
        )


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a page sends. Fields that are not listed are ignored.

    `id`, `messages`, `trigger` and `message_id` come from the transport. The page may add, in the
    transport's `body` or in the options of a call:

    - `agent_id`, if the route does not name the agent;
    - `ai_sdk_version`, the major version, if it does not send the header;
    - `tools`, those that it carries out itself;
    - `state` and `context`, which the model is shown with the new message;
    - `answers`, by approval id: other arguments for a call that needs an approval, or the value
      that a question asks for, beside a no.
    """

    id: str
    messages: tuple[UiMessage, ...]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    agent_id: str | None = None
    ai_sdk_version: int | str | None = None
    tools: tuple[FrontendTool, ...] = ()
    state: Json = None
    context: Json = None
    answers: dict[str, Json] = msgspec.field(default_factory=dict)


def read_request(body: bytes) -> ChatRequest:
    """
    Raises:
        BadRequest: it is not a chat request.
    """
    try:
        return msgspec.json.decode(body, type=ChatRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = explain_json(body, error)
        raise BadRequest(f"This is not a chat request of the AI SDK: {why}") from None


def major_version(given: int | str | None) -> int:
    """The major version that a client says it has, such as `7` or `7.0.169`; else 6."""
    major = str(given or "").strip().partition(".")[0]
    return int(major) if major.isascii() and major.isdigit() and len(major) < 4 else 6
