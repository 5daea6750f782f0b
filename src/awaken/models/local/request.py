"""Converting a conversation for a model without tools that reads only text. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest
from awaken.core.message import (
    Citation,
    ContentBlock,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
)
from awaken.models.settings import refuse_settings, tool_choice_of, warn_dropped
from awaken.models.wire import build_unsupported_error

MODEL = "local"


def plain_request(request: InferenceRequest, max_tokens: int) -> InferenceRequest:
    """The request without tools; calls are left out, and their results become text.

    Args:
        max_tokens: the limit if the request sets none, because a small model may never stop.

    Raises:
        InvalidRequest: the request contains something other than text.
    """
    warn_dropped(request, "seed", "parallel_tool_calls", "extra")
    refuse_settings(request, "stop")
    if tool_choice_of(request) not in (None, "none"):
        refuse_settings(request, "tool_choice")
    overrides = request.overrides or InferenceOverride()
    return msgspec.structs.replace(
        request,
        upstream_model=MODEL,
        messages=_messages(request.messages),
        system=tuple(
            Text(text=_text([block], f"system[{index}]"))
            for index, block in enumerate(request.system)
        ),
        tools=(),
        overrides=msgspec.structs.replace(
            overrides,
            upstream_model=None,
            reasoning_effort=None,
            tool_choice=None,
            max_tokens=overrides.max_tokens or max_tokens,
        ),
    )


def _messages(messages: Sequence[Message]) -> list[Message]:
    told: list[Message] = []
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        for call in message.tool_calls or ():
            names[call.id] = call.name
        text = _text(message.content, f"messages[{index}].content")
        role = message.role
        if role is Role.TOOL:
            role = Role.USER
            text = f"{names.get(message.tool_call_id or '', 'A tool')} answered: {text}"
        if text:
            told.append(Message(id=message.id, role=role, content=(Text(text=text),)))
    return told


def _text(content: Sequence[ContentBlock], where: str) -> str:
    pieces: list[str] = []
    for place, block in enumerate(content):
        if isinstance(block, Text):
            pieces.append(block.text)
        elif isinstance(block, ToolResultBlock):
            pieces.append(_text(block.content, f"{where}[{place}]"))
        elif not isinstance(block, Thinking | ToolUse | Opaque | Citation):
            raise build_unsupported_error(MODEL, block, f"{where}[{place}]")
    return "".join(pieces)
