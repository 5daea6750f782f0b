"""Messages and artifacts: converting them between our form and the Agent2Agent protocol's.

Our messages become the protocol's parts; the parts of an answer become text and artifacts.
`Artifacts` builds the artifacts of one task from the events of its stream.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from mimetypes import MimeTypes
from typing import Any, assert_never
from uuid import NAMESPACE_URL, uuid5

from a2a.types.a2a_pb2 import Artifact, Part
from a2a.types.a2a_pb2 import Message as A2aMessage
from google.protobuf.json_format import MessageToDict, ParseError

from awaken.codec import Json, clean_text, dumps_text
from awaken.core.backend import BackendOutputArtifact, ExecutionFailed
from awaken.core.message import (
    Audio,
    BlobSource,
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
from awaken.net.pinned import TooLarge

UNREADABLE = (ParseError, ValueError, TypeError, AttributeError, OverflowError)
"""What `ParseDict` raises for JSON that does not fit a message."""


# -- messages to send -------------------------------------------------------------------------

_NAMESPACE = uuid5(NAMESPACE_URL, "awaken:a2a")
# The built-in table only: the machine's own types must not change what is sent.
_TYPES = MimeTypes()


def sendable_messages(messages: Iterable[Message]) -> list[Message]:
    """The messages to send to the agent: visible user messages that are not empty."""
    return [message for message in messages if message.is_visible_user() and parts_of(message)]


def select_unanswered(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages after the last one of an assistant or a tool."""
    for index in range(len(messages), 0, -1):
        if messages[index - 1].role in (Role.ASSISTANT, Role.TOOL):
            return messages[index:]
    return messages


def message_id(run_id: str, messages: Iterable[Message]) -> str:
    """The protocol's id for these messages of a run; deterministic, for when they are sent
    again."""
    ids = [message.id or dumps_text(message) for message in messages]
    return str(uuid5(_NAMESPACE, dumps_text([run_id, ids])))


def parts_of(message: Message) -> list[Part]:
    """The parts of a message. Empty texts are left out, unless there is nothing else.

    Raises:
        ExecutionFailed: media is not base64.
    """
    parts = [part for block in message.content if (part := _part(block)) is not None]
    return [part for part in parts if part.text or part.WhichOneof("content") != "text"] or parts


def _part(block: ContentBlock) -> Part | None:
    match block:
        case Text(text=text):
            return Part(text=clean_text(text))
        case Document(source=source, title=title):
            return _media(source, title)
        case Image(source=source) | Audio(source=source) | Video(source=source):
            return _media(source, None)
        case ToolUse() | ToolResultBlock() | Thinking() | Opaque() | Citation():
            return None
        case _:
            assert_never(block)


def _media(source: MediaSource, title: str | None) -> Part:
    filename = clean_text(title) if title else None
    if isinstance(source, BlobSource):
        raise ExecutionFailed(f"{source.media_type} in a message is in a blob that was not loaded")
    if isinstance(source, UrlSource):
        path = source.url.partition("?")[0].partition("#")[0]
        guessed, _ = _TYPES.guess_type(path, strict=False)
        return Part(url=source.url, media_type=guessed or "", filename=filename)
    try:
        raw = base64.b64decode(source.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ExecutionFailed(f"{source.media_type} in a message is not base64: {error}") from error
    return Part(raw=raw, media_type=source.media_type, filename=filename)


# -- parts of an answer -----------------------------------------------------------------------


def message_text(message: A2aMessage) -> str:
    """The text of a message's parts, separated by blank lines."""
    return "\n\n".join(text for part in message.parts if (text := part_text(part)))


def message_artifacts(message: A2aMessage) -> list[BackendOutputArtifact]:
    """The parts of a message that are not text, as artifacts."""
    return [
        BackendOutputArtifact(
            id=f"{message.message_id}:{index}",
            name=part.filename or None,
            media_type=media_type(part),
            content={"parts": [plain(MessageToDict(part))]},
        )
        for index, part in enumerate(message.parts)
        if part.WhichOneof("content") not in ("text", None)
    ]


def part_text(part: Part) -> str:
    """The text of a part: its text, or its data as JSON."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text
    return dumps_text(plain(MessageToDict(part.data))) if kind == "data" else ""


def media_type(part: Part) -> str | None:
    """The media type of a part, or `None` if it is unknown."""
    if part.media_type:
        return part.media_type
    return {"text": "text/plain", "data": "application/json"}.get(part.WhichOneof("content") or "")


def plain(value: Json) -> Json:
    """Normalised JSON: the protocol's types turn integers into floats and lose the order of
    keys."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


# -- the artifacts of a task ------------------------------------------------------------------

MAX_PIECES = 50_000
"""The most artifacts, parts and entries of metadata of a task, together."""
_PIECE = 64
"""The approximate overhead of a piece in bytes, besides its text."""


class Artifacts:
    """The artifacts of one task, in the order in which they came.

    `size` is their approximate size in bytes. Each part is read only once, when it arrives: an
    agent may send a hundred thousand of them.
    """

    def __init__(self, artifacts: Iterable[Artifact] = ()) -> None:
        self._all: list[_Artifact] = []
        self._by_id: dict[str, _Artifact] = {}
        self._pieces = self.size = 0
        for artifact in artifacts:
            self._add(artifact)

    def update(self, artifact: Artifact, *, append: bool) -> None:
        """Add an artifact. It replaces the one with its id; with `append`, it extends that one.

        Raises:
            TooLarge: the task has too many pieces.
        """
        known = self._by_id.get(artifact.artifact_id)
        if known is None:
            self._add(artifact)
            return
        if not append:
            self._count(-known.pieces, -known.size)
            known.clear()
            known.describe(artifact)
        before, size = known.pieces, known.size
        known.extend(artifact)
        self._count(known.pieces - before, known.size - size)

    def _add(self, artifact: Artifact) -> None:
        made = _Artifact()
        made.describe(artifact)
        made.extend(artifact)
        self._all.append(made)
        self._by_id.setdefault(artifact.artifact_id, made)
        self._count(1 + made.pieces, _PIECE + made.size)

    def _count(self, pieces: int, size: int) -> None:
        self._pieces += pieces
        self.size += size
        if self._pieces > MAX_PIECES:
            raise TooLarge(f"the agent's task has more than {MAX_PIECES} artifacts and parts")

    @property
    def text(self) -> str:
        """The text of the first artifact that has any."""
        return next((text for one in self._all if (text := one.text)), "")

    def outputs(self) -> tuple[BackendOutputArtifact, ...]:
        """All artifacts in their present state."""
        return tuple(made.output() for made in self._all)


class _Artifact:
    """One unfinished artifact."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.pieces = self.size = 0
        self._about: dict[str, Any] = {}
        self._parts: list[Json] = []
        self._metadata: dict[str, Json] = {}
        self._texts: list[str] = []
        self._was_text = True
        self._kinds: set[str | None] = set()

    def describe(self, artifact: Artifact) -> None:
        """Take over an artifact's description, without its parts."""
        about = Artifact(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            extensions=artifact.extensions,
        )
        self._about = plain(MessageToDict(about))

    def extend(self, artifact: Artifact) -> None:
        """Add its parts and its metadata."""
        for part in artifact.parts:
            self._extend(part)
        if artifact.HasField("metadata"):
            before = len(self._metadata)
            self._metadata.update(plain(MessageToDict(artifact.metadata)))
            self.pieces += len(self._metadata) - before
        self.size += artifact.ByteSize() + _PIECE * len(artifact.parts)

    def _extend(self, part: Part) -> None:
        self._parts.append(plain(MessageToDict(part)))
        self._kinds.add(media_type(part))
        self.pieces += 1
        text = part_text(part)
        if not text:
            return
        # Adjacent texts are joined without a separator: text that an agent streams comes in many
        # parts.
        is_text = part.WhichOneof("content") == "text"
        if self._texts and not (is_text and self._was_text):
            self._texts.append("\n\n")
        self._texts.append(text)
        self._was_text = is_text

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def output(self) -> BackendOutputArtifact:
        content = {
            key: self._about[key] for key in self._about if key not in ("artifactId", "name")
        }
        if self._metadata:
            content["metadata"] = plain(self._metadata)
        if self._parts:
            content["parts"] = list(self._parts)
        return BackendOutputArtifact(
            id=self._about.get("artifactId"),
            name=self._about.get("name"),
            media_type=next(iter(self._kinds)) if len(self._kinds) == 1 else None,
            content={key: content[key] for key in sorted(content)},
        )
