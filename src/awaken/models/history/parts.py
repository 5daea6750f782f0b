"""What the readers of other libraries' messages share."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Never

import msgspec

from awaken.codec import Json
from awaken.core.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Message,
    Role,
    Text,
    ToolCall,
    UrlSource,
    Video,
)
from awaken.errors import ConfigError
from awaken.ids import UUID7

_KINDS: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}


class Item(NamedTuple):
    """A message, or a part of one, as plain data, and where it stands in the history."""

    data: dict[str, Any]
    where: str

    def fail(self, why: str) -> Never:
        raise ConfigError(f"{self.where} {why}")

    def text(self, name: str) -> str:
        """The text in a field."""
        value = self.data.get(name)
        if not isinstance(value, str):
            self.fail(f"has no text in {name!r}, but {value!r}")
        return value

    def inner(self, name: str) -> Item:
        """The mapping in a field."""
        value = self.data.get(name)
        if not isinstance(value, dict):
            self.fail(f"has no mapping in {name!r}, but {value!r}")
        return Item(value, self.where)

    def parts(self, name: str) -> Iterator[Item]:
        """The mappings of the list in a field, which may be missing; a text is one of them."""
        value = self.data.get(name)
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | None):
            self.fail(f"has no list in {name!r}, but {value!r}")
        for part in value or ():
            if isinstance(part, str):
                part = {"type": "text", "kind": "text", "text": part}
            if not isinstance(part, dict):
                self.fail(f"has a part {part!r}, which is no mapping")
            yield Item(part, self.where)

    def unknown(self, what: str, kind: object) -> Never:
        self.fail(f"has {what} of the kind {kind!r}, which cannot be imported: leave it out")

    def call(self, id: str, name: str, arguments: str) -> ToolCall:
        """A call; `arguments` is the field with its arguments, as data or as JSON text."""
        given: Json = self.data.get(arguments)
        if isinstance(given, str):
            try:
                given = msgspec.json.decode(given) if given.strip() else {}
            except msgspec.DecodeError:
                self.fail(f"has a call whose arguments are no JSON: {given!r}")
        return ToolCall(id=self.text(id), name=self.text(name), arguments=given or {})


def answer(content: Sequence[ContentBlock], calls: Sequence[ToolCall]) -> Iterator[Message]:
    """The message of an answer, if anything is left of it."""
    if content or calls:
        yield Message(
            id=UUID7.new(),
            role=Role.ASSISTANT,
            content=tuple(content),
            tool_calls=tuple(calls) or None,
        )


def media(address: str, media_type: str | None = None, title: str | None = None) -> ContentBlock:
    """Media at an address, which may hold them (`data:image/png;base64,…`). Without a type, an
    address is that of a picture."""
    if address.startswith("data:"):
        head, _, data = address[len("data:") :].partition(",")
        return inline_media(head.partition(";")[0] or "text/plain", data, title)
    kind = _KINDS.get((media_type or "image/").partition("/")[0])
    source = UrlSource(url=address)
    return Document(source=source, title=title) if kind is None else kind(source=source)


def inline_media(media_type: str, data: str, title: str | None = None) -> ContentBlock:
    """Media as base64 text, in either of its two alphabets."""
    source = Base64Source(
        media_type=media_type, data=data.replace("-", "+").replace("_", "/").replace("\n", "")
    )
    kind = _KINDS.get(media_type.partition("/")[0])
    return Document(source=source, title=title) if kind is None else kind(source=source)


def text_document(text: str, media_type: str, title: str | None = None) -> Document:
    """A document with this text."""
    data = b64encode(text.encode()).decode()
    return Document(source=Base64Source(media_type=media_type, data=data), title=title)


def result_content(content: Json) -> tuple[ContentBlock, ...]:
    """The result of a call that is any data: text as it is, all else as JSON."""
    if isinstance(content, str):
        return (Text(text=content),)
    return (Text(text=msgspec.json.encode(content).decode()),)
