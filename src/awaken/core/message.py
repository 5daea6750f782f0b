"""Messages: the entries of a thread's message log."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import msgspec

from awaken.codec import Json
from awaken.core.value import Value
from awaken.errors import ConfigError
from awaken.ids import UUID7

if TYPE_CHECKING:
    from pathlib import Path


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Visibility(StrEnum):
    """`internal` messages are for the model; API consumers do not see them."""

    ALL = "all"
    INTERNAL = "internal"


# -- content ----------------------------------------------------------------------------------


class Base64Source(Value, frozen=True, kw_only=True, tag="base64", tag_field="type"):
    """Media inside the message, as base64 text."""

    media_type: str
    data: str


class UrlSource(Value, frozen=True, kw_only=True, tag="url", tag_field="type"):
    """Media that the reader of the message fetches from a URL."""

    url: str


class BlobSource(Value, frozen=True, kw_only=True, tag="blob", tag_field="type"):
    """Media in the blob store, of the scope that the message's thread is in.

    A model adapter never sees it: the bytes are loaded just before a model is asked.
    """

    id: str
    media_type: str
    size: int
    name: str | None = None


InlineSource = Base64Source | UrlSource
MediaSource = Base64Source | UrlSource | BlobSource


class Text(Value, frozen=True, tag="text", tag_field="type"):
    """Plain text.

    If it is the beginning of a tool result that was too large for the log, `whole` is the blob with
    all of it.
    """

    text: str
    whole: BlobSource | None = None


class Image(Value, frozen=True, kw_only=True, tag="image", tag_field="type"):
    """A picture."""

    source: MediaSource

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str | None = None) -> Self:
        """A picture as bytes; the type of PNG, JPEG, GIF and WebP need not be given.

        Raises:
            ValueError: it is another kind of picture, and no type is given.
        """
        kind = media_type or next(
            (found for found, begins in _PICTURES.items() if data.startswith(begins)), None
        )
        if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            kind = "image/webp"
        if kind is None:
            raise ValueError("the bytes do not tell their type: give media_type, as in 'image/png'")
        return cls(source=Base64Source(media_type=kind, data=b64encode(data).decode()))


_PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
}
"""How the bytes of pictures begin."""


class Audio(Value, frozen=True, kw_only=True, tag="audio", tag_field="type"):
    """Sound."""

    source: MediaSource


class Video(Value, frozen=True, kw_only=True, tag="video", tag_field="type"):
    """Moving pictures."""

    source: MediaSource


class Document(Value, frozen=True, kw_only=True, tag="document", tag_field="type"):
    """A file, such as a PDF."""

    source: MediaSource
    title: str | None = None


class ToolUse(Value, frozen=True, kw_only=True, tag="tool_use", tag_field="type"):
    """A call as some providers write it inside the content."""

    id: str
    name: str
    input: Json


class ToolResultBlock(Value, frozen=True, kw_only=True, tag="tool_result", tag_field="type"):
    """A result as some providers write it inside the content."""

    tool_use_id: str
    content: tuple[ContentBlock, ...]


class Thinking(Value, frozen=True, kw_only=True, tag="thinking", tag_field="type"):
    """Reasoning of the model.

    `id`, `signature` and `encrypted` are for the provider `origin` only, which wants them back
    unchanged in later requests.
    """

    thinking: str
    id: str | None = None
    signature: str | None = None
    encrypted: str | None = None
    origin: str | None = None


class Opaque(Value, frozen=True, kw_only=True, tag="opaque", tag_field="type"):
    """A part of an answer that only the provider `origin` understands, such as the call and the
    result of a tool that it runs itself. Later requests send `data` back to it unchanged.
    """

    origin: str
    kind: str
    data: Json


class Citation(Value, frozen=True, kw_only=True, tag="citation", tag_field="type"):
    """A source of the text block before it.

    `start` and `end` are positions in that block, `quote` is the cited text of the source, and
    `data` the citation as the provider `origin` wrote it.
    """

    origin: str
    data: Json
    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None


ContentBlock = (
    Text
    | Image
    | Audio
    | Video
    | Document
    | ToolUse
    | ToolResultBlock
    | Thinking
    | Opaque
    | Citation
)


# -- messages ---------------------------------------------------------------------------------


class ToolCall(Value, frozen=True, kw_only=True):
    """A tool call by the model. The `signature` is for its provider, as in `Thinking`."""

    id: str
    name: str
    arguments: Json
    signature: str | None = None


class CompactionInterval(Value, frozen=True, kw_only=True):
    """The positions in the message log that a summary replaces."""

    from_seq: int
    to_seq: int


class MessageMetadata(Value, frozen=True, kw_only=True):
    """The run, step and agent that a message comes from; the interval if it is a summary.

    `by` is the id of the principal that sent it to a run.
    """

    run_id: str | None = None
    step_index: int | None = None
    sender_agent_id: str | None = None
    compaction: CompactionInterval | None = None
    by: str | None = None


class Message(Value, frozen=True, kw_only=True):
    """One entry of a thread's log."""

    id: str | None = None
    role: Role
    content: tuple[ContentBlock, ...]
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    visibility: Visibility = Visibility.ALL
    metadata: MessageMetadata | None = None

    @classmethod
    def system(cls, text: str, *, id: str | None = None) -> Self:
        return cls(id=id or UUID7.new(), role=Role.SYSTEM, content=(Text(text=text),))

    @classmethod
    def internal_system(cls, text: str, *, id: str | None = None) -> Self:
        return cls(
            id=id or UUID7.new(),
            role=Role.SYSTEM,
            content=(Text(text=text),),
            visibility=Visibility.INTERNAL,
        )

    @classmethod
    def user(cls, *parts: str | Path | ContentBlock, id: str | None = None) -> Self:
        """A message of a user: texts, files and other content, in order, as in
        `Message.user("What is this?", Path("cat.png"))`. A file is read at once.

        Raises:
            OSError: a file cannot be read.
            ValueError: the name of a file does not tell what it holds.
        """
        content = tuple(
            [Text(text=part) if isinstance(part, str) else as_content(part) for part in parts]
        )
        return cls(id=id or UUID7.new(), role=Role.USER, content=content)

    @classmethod
    def internal_user(cls, text: str, *, id: str | None = None) -> Self:
        return cls(
            id=id or UUID7.new(),
            role=Role.USER,
            content=(Text(text=text),),
            visibility=Visibility.INTERNAL,
        )

    @classmethod
    def user_with_content(cls, content: Iterable[ContentBlock], *, id: str | None = None) -> Self:
        return cls(id=id or UUID7.new(), role=Role.USER, content=tuple(content))

    @classmethod
    def assistant(cls, text: str, *, id: str | None = None) -> Self:
        return cls(id=id or UUID7.new(), role=Role.ASSISTANT, content=(Text(text=text),))

    @classmethod
    def assistant_with_tool_calls(
        cls, text: str, tool_calls: Sequence[ToolCall], *, id: str | None = None
    ) -> Self:
        return cls(
            id=id or UUID7.new(),
            role=Role.ASSISTANT,
            content=(Text(text=text),) if text else (),
            tool_calls=tuple(tool_calls) or None,
        )

    @classmethod
    def tool(cls, call_id: str, text: str, *, id: str | None = None) -> Self:
        return cls.tool_with_content(call_id, (Text(text=text),), id=id)

    @classmethod
    def tool_with_content(
        cls, call_id: str, content: Iterable[ContentBlock], *, id: str | None = None
    ) -> Self:
        return cls(
            id=id or UUID7.new(), role=Role.TOOL, content=tuple(content), tool_call_id=call_id
        )

    def with_id(self, id: str) -> Self:
        return msgspec.structs.replace(self, id=id)

    def text(self) -> str:
        """The text blocks joined; everything else is ignored."""
        content = self.content
        if len(content) == 1:  # the most frequent case
            block = content[0]
            return block.text if isinstance(block, Text) else ""
        return "".join([block.text for block in content if isinstance(block, Text)])

    def last_text(self) -> str:
        """The last text block: a structured output is written there."""
        texts = [block.text for block in self.content if isinstance(block, Text)]
        return texts[-1] if texts else ""

    def sent_by(self, principal_id: str | None) -> Self:
        """This message with the principal that sent it; unchanged if none is known."""
        if principal_id is None:
            return self
        metadata = self.metadata or MessageMetadata()
        return msgspec.structs.replace(
            self, metadata=msgspec.structs.replace(metadata, by=principal_id)
        )

    def mark_produced_by(self, run_id: str, step_index: int | None = None) -> Self:
        """This message with the run that produced it; a run that is set already stays."""
        old = self.metadata
        if old is None:
            return msgspec.structs.replace(
                self, metadata=MessageMetadata(run_id=run_id, step_index=step_index)
            )
        marked = msgspec.structs.replace(
            old,
            run_id=old.run_id if old.run_id is not None else run_id,
            step_index=old.step_index if old.step_index is not None else step_index,
        )
        return self if marked == old else msgspec.structs.replace(self, metadata=marked)

    def produced_by_run_id(self) -> str | None:
        return self.metadata.run_id if self.metadata else None

    def is_visible_user(self) -> bool:
        return self.role is Role.USER and self.visibility is Visibility.ALL


class MessageRecord(Value, frozen=True, kw_only=True):
    """A message with its position in a thread's log."""

    message_id: str
    thread_id: str
    seq: int
    message: Message
    produced_by_run_id: str | None = None
    step_index: int | None = None
    tool_call_id: str | None = None
    created_at: int | None = None

    @classmethod
    def from_message(
        cls, thread_id: str, seq: int, message: Message, *, created_at: int | None = None
    ) -> Self:
        """A record of a message; a message without an id gets one."""
        if message.id is None:
            message = message.with_id(UUID7.new())
        metadata = message.metadata
        return cls(
            message_id=message.id or "",
            thread_id=thread_id,
            seq=seq,
            message=message,
            produced_by_run_id=metadata.run_id if metadata else None,
            step_index=metadata.step_index if metadata else None,
            tool_call_id=message.tool_call_id,
            created_at=created_at,
        )


_MEDIA: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}


def as_content(part: Path | ContentBlock) -> ContentBlock:
    """The content of a file; other parts are content already."""
    if isinstance(part, Value):
        return part
    given: Any = part
    if not isinstance(given, PathLike):
        raise TypeError(f"a message has texts, paths and content such as Image(…), not {given!r}")
    from mimetypes import guess_type  # noqa: PLC0415  # only messages with files need it

    media_type = guess_type(part)[0]
    if media_type is None:
        raise ValueError(
            f"the name of {str(part)!r} does not tell what it holds: give it an ending such as "
            ".png or .pdf, or write Image(source=Base64Source(…))"
        )
    with open(part, "rb") as file:  # importing pathlib takes long
        data = b64encode(file.read()).decode()
    source = Base64Source(media_type=media_type, data=data)
    kind = _MEDIA.get(media_type.partition("/")[0])
    return Document(source=source, title=part.name) if kind is None else kind(source=source)


def as_messages(value: str | Message | Iterable[Message | str] | None) -> tuple[Message, ...]:
    """A caller's input as messages; text becomes a user message.

    Raises:
        ConfigError: the input is neither text nor messages; the error says what to write.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (Message.user(value),)
    if isinstance(value, Message):
        return (_with_id(value),)
    given: Any = value
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise _no_input(given)
    messages: list[Message] = []
    for item in value:
        checked: Any = item
        if not isinstance(checked, str | Message):
            raise _no_input(checked)
        messages.append(Message.user(item) if isinstance(item, str) else _with_id(item))
    return tuple(messages)


def _no_input(value: object) -> ConfigError:
    if isinstance(value, Mapping):
        return ConfigError(
            "input is text or messages, not a mapping: write Message.user(…); messages of another "
            "library are read with awaken.models.import_history(…, dialect='openai')"
        )
    return ConfigError(
        f"input is text or messages, not {type(value).__name__}: {value!r}: write text, "
        "Message.user(…), or a list of both"
    )


def _with_id(message: Message) -> Message:
    return message if message.id else message.with_id(UUID7.new())
