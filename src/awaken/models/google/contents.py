"""Converting the messages of a request, and their content blocks, to Gemini's. Pure.

Gemini has two roles, user and model. The results of calls have the role user and must follow the
calls directly; system messages within a conversation are put in tags.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from awaken.codec import Json, digest
from awaken.core.address import split_address
from awaken.core.llm import InferenceRequest, InvalidRequest, inline_source
from awaken.core.message import (
    Audio,
    Citation,
    ContentBlock,
    Document,
    Image,
    MediaSource,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.models.google.model_names import is_older
from awaken.models.wire import MAX_NAME, build_unsupported_error, call_input

if TYPE_CHECKING:
    from google.genai import types

ORIGIN = "google"

# Gemini 3 requires a signature on every call of the current turn. This value is accepted in its
# place on calls that Gemini did not make itself.
FOREIGN_CALL = b"skip_thought_signature_validator"

_MEDIA = (Image, Audio, Video, Document)


def contents_of(request: InferenceRequest) -> list[dict[str, Any]]:
    """The conversation.

    Raises:
        InvalidRequest: there is no user message, or Gemini cannot take a part of it.
    """
    messages = request.messages
    first = _count_leading_system(messages)
    turn = max((i for i, m in enumerate(messages) if m.role is Role.USER), default=-1)
    contents = _Contents(request.upstream_model)
    for index in range(first, len(messages)):
        contents.add(messages[index], index, this_turn=index > turn)
    return contents.finish()


def system_of(request: InferenceRequest) -> list[Part]:
    """The system instruction: the system prompt and the system messages at the beginning."""
    parts: list[Part] = []
    for index, block in enumerate(request.system):
        parts += text_part(only_text(block, f"system[{index}]", request.upstream_model))
    for index, message in enumerate(request.messages[: _count_leading_system(request.messages)]):
        for at, block in enumerate(message.content):
            where = f"messages[{index}].content[{at}]"
            parts += text_part(only_text(block, where, request.upstream_model))
    return parts


def _count_leading_system(messages: Sequence[Message]) -> int:
    """How many system messages come before everything else."""
    count = 0
    while count < len(messages) and messages[count].role is Role.SYSTEM:
        count += 1
    return count


class _Contents:
    """The contents while they are built."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._older = is_older(model, 3)
        self._contents: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}
        self._unanswered: set[str] = set()
        self._later: list[Part] = []
        self._add: dict[Role, Callable[[Message, str, bool], None]] = {
            Role.SYSTEM: self._system,
            Role.USER: self._user,
            Role.ASSISTANT: self._assistant,
            Role.TOOL: self._tool,
        }

    def add(self, message: Message, index: int, *, this_turn: bool) -> None:
        self._add[message.role](message, f"messages[{index}]", this_turn)

    def finish(self) -> list[dict[str, Any]]:
        self._flush_later_parts()
        if not self._contents:
            raise InvalidRequest(
                f"there is nothing to ask model {self._model!r}: messages has no user message"
            )
        return self._contents

    def _system(self, message: Message, where: str, _: bool) -> None:
        text = "".join(
            only_text(block, f"{where}.content[{at}]", self._model)
            for at, block in enumerate(message.content)
        )
        if text:
            self._add_user_parts([{"text": f"<system>\n{text}\n</system>"}])

    def _user(self, message: Message, where: str, _: bool) -> None:
        for at, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                self._result(block.tool_use_id, block.content, f"{where}.content[{at}]")
            else:
                self._add_user_parts(self._plain(block, f"{where}.content[{at}]"))

    def _tool(self, message: Message, where: str, _: bool) -> None:
        self._result(message.tool_call_id or "", message.content, where)

    def _assistant(self, message: Message, where: str, this_turn: bool) -> None:
        self._flush_later_parts()
        parts: list[Part] = []
        for at, block in enumerate(message.content):
            if isinstance(block, Thinking):
                self._add_thought(block, f"{where}.content[{at}]", parts)
            else:
                parts += self._plain(block, f"{where}.content[{at}]")
        for at, call in enumerate(message.tool_calls or ()):
            part = self._call(call.id, call.name, call.arguments)
            parts.append(sign_part(part, call.signature, f"{where}.tool_calls[{at}].signature"))
        if this_turn and not self._older:
            first = next((part for part in parts if "function_call" in part), None)
            if first is not None:
                first.setdefault("thought_signature", FOREIGN_CALL)
        self._append("model", parts)

    def _plain(self, block: ContentBlock, where: str) -> list[Part]:
        if isinstance(block, Text):
            return text_part(block.text)
        if isinstance(block, _MEDIA):
            return [media_part(block, where)]
        if isinstance(block, ToolUse):
            return [self._call(block.id, block.name, block.input)]
        if isinstance(block, Opaque):
            return opaque_part(block.data) if block.origin == ORIGIN else []
        if isinstance(block, Thinking | Citation):
            return []
        raise build_unsupported_error(self._model, block, where)

    def _add_thought(self, block: Thinking, where: str, parts: list[Part]) -> None:
        if block.origin != ORIGIN:
            return
        if block.thinking:
            parts.append(
                sign_part({"text": block.thinking, "thought": True}, block.signature, where)
            )
        elif block.signature:
            # A signature without a thought belongs to the text before it.
            if not (parts and "text" in parts[-1] and "thought_signature" not in parts[-1]):
                parts.append({"text": ""})
            sign_part(parts[-1], block.signature, where)

    def _call(self, id: str, name: str, arguments: Any) -> Part:
        name = self._names[id] = wire_name(name)
        self._unanswered.add(id)
        return {"function_call": {"id": id, "name": name, "args": call_input(arguments)}}

    def _result(self, id: str, content: Sequence[ContentBlock], where: str) -> None:
        texts = [block.text for block in content if isinstance(block, Text)]
        media = [
            media_part(block, f"{where}.content[{at}]")
            for at, block in enumerate(content)
            if isinstance(block, _MEDIA)
        ]
        name = self._names.get(id)
        if name is None:
            self._add_user_parts([*text_part("".join(texts)), *media])
            return
        response: Part = {"id": id, "name": name, "response": {"output": "".join(texts)}}
        inside = [] if self._older else [part for part in media if fits_result(part)]
        if inside:
            response["parts"] = inside
        self._later += [part for part in media if part not in inside]
        self._append("user", [{"function_response": response}])
        self._unanswered.discard(id)
        if not self._unanswered:
            self._flush_later_parts()

    def _add_user_parts(self, parts: list[Part]) -> None:
        """Add parts with the role user, once all calls before them have their results."""
        if self._unanswered:
            self._later += parts
        else:
            self._append("user", parts)

    def _flush_later_parts(self) -> None:
        self._unanswered.clear()
        later, self._later = self._later, []
        self._append("user", later)

    def _append(self, role: str, parts: list[Part]) -> None:
        if not parts:
            return
        if self._contents and self._contents[-1]["role"] == role:
            self._contents[-1]["parts"] += parts
        else:
            self._contents.append({"role": role, "parts": parts})


# -- content blocks ---------------------------------------------------------------------------


Part = dict[str, Any]
Media = Image | Audio | Video | Document

_RESULT_KINDS = {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}


def wire_name(name: str) -> str:
    """A tool's name in the characters that Gemini accepts; deterministic."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name) and len(name) <= MAX_NAME:
        return name
    letters = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return f"_{letters[: MAX_NAME - 18]}_{digest(name)[:16]}"


def text_part(text: str) -> list[Part]:
    """One part, or none for an empty text, which Gemini refuses."""
    return [{"text": text}] if text else []


def media_part(block: Media, where: str) -> Part:
    """A picture, sound, video or file: its bytes or its URL.

    Raises:
        InvalidRequest: the data is not base64.
    """
    return _media(block.source, where)


def sign_part(part: Part, signature: str | None, where: str) -> Part:
    """The part with its signature, which Gemini needs to see again."""
    if signature:
        part["thought_signature"] = _bytes(signature, where)
    return part


def opaque_data(part: types.Part) -> Part | None:
    """A part that is neither text nor a call, as plain JSON; `None` for those that are."""
    if part.text is not None or part.function_call is not None:
        return None
    data: Part = part.model_dump(mode="json", exclude_none=True)
    return data if data.keys() - {"thought", "thought_signature"} else None


def opaque_part(data: Json) -> list[Part]:
    """The part that `opaque_data` was made from, for a request."""
    if not isinstance(data, dict):
        return []
    part: Part = dict(data)
    if isinstance(inline := part.get("inline_data"), dict):
        part["inline_data"] = {**inline, "data": base64.urlsafe_b64decode(inline["data"])}
    if "thought_signature" in part:
        part["thought_signature"] = base64.urlsafe_b64decode(part["thought_signature"])
    return [part]


def fits_result(part: Part) -> bool:
    """Whether Gemini takes a medium inside the result of a call."""
    medium = part.get("inline_data") or part["file_data"]
    return medium.get("mime_type", "").partition(";")[0] in _RESULT_KINDS


def only_text(block: object, where: str, model: str) -> str:
    """The text of a block, where only text is allowed.

    Raises:
        InvalidRequest: it is something else.
    """
    if isinstance(block, Text):
        return block.text
    raise build_unsupported_error(model, block, where)


def _media(source: MediaSource, where: str) -> Part:
    source = inline_source(source)
    if not isinstance(source, UrlSource):
        return _inline(source.media_type, _bytes(source.data, where))
    scheme, _, rest = source.url.partition(":")
    if scheme.lower() == "data":
        head, _, data = rest.partition(",")
        kind, *options = head.split(";")
        raw = unquote_to_bytes(data)
        return _inline(
            kind or "text/plain",
            _bytes(raw.decode("latin-1"), where) if "base64" in options else raw,
        )
    file: dict[str, str] = {"file_uri": source.url}
    if guessed := guess_type(split_address(source.url).path)[0]:
        file["mime_type"] = guessed
    return {"file_data": file}


def _inline(media_type: str, data: bytes) -> Part:
    return {"inline_data": {"mime_type": media_type, "data": data}}


def _bytes(data: str, where: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"what is at {where} should be base64: {error}") from error
