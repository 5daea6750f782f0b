"""What the tests of hand-overs share."""

from __future__ import annotations

from collections.abc import Sequence

from awaken import Message
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Text
from awaken.testing import tool_call_response


def to(agent: str, call_id: str = "h1", text: str = "") -> StreamResult:
    """An answer that hands over."""
    return tool_call_response(text, "handoff", call_id, {"agent": agent})


def seen(request: InferenceRequest) -> list[str]:
    """The texts a model was asked with."""
    return texts(request.messages)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text() for message in messages]


def prompt(request: InferenceRequest) -> str:
    return "".join(block.text for block in request.system if isinstance(block, Text))


def offered(request: InferenceRequest) -> list[str]:
    return [tool.id for tool in request.tools]
