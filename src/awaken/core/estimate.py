"""Estimating tokens: about a quarter of the bytes."""

from __future__ import annotations

from awaken.codec import dumps
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
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
    UrlSource,
)
from awaken.core.tool import ToolDescriptor

_OTHER_BLOCK = 50


def estimate_message_tokens(message: Message) -> int:
    """An estimate by the bytes of text and thinking; other blocks count 50, tool calls nothing."""
    size = 0
    for block in message.content:
        if isinstance(block, Text):
            size += len(block.text.encode())
        elif isinstance(block, Thinking):
            size += len(block.thinking.encode())
        else:
            size += _OTHER_BLOCK
    return 4 + size // 4


def estimate_tool_tokens(tool: ToolDescriptor) -> int:
    """An estimate for a tool's name, description and schema."""
    return len(tool.name) + len(tool.description) + len(dumps(tool.parameters)) // 4 + 10


# -- a counter that can be replaced -----------------------------------------------------------

_IMAGE = 1600
_UNSEEN = 2000
"""For media given by URL, whose size is unknown here."""

_BYTES_A_TOKEN = {Audio: 500, Document: 25}
_VIDEO = 1000


class TokenCounter:
    """Estimates tokens. The usage that providers report corrects the estimate.

    For a better estimate, a plugin offers a subclass:
    `registrar.service(TokenCounter, MyCounter())`.
    """

    def text(self, text: str) -> int:
        """The tokens of a text: a quarter of its bytes."""
        return _bytes(text) // 4

    def message(self, message: Message) -> int:
        """The tokens of a message: its blocks and its tool calls."""
        tokens = 4
        for block in message.content:
            tokens += self.block(block)
        for call in message.tool_calls or ():
            tokens += self.text(call.name) + len(dumps(call.arguments)) // 4 + 4
        return tokens

    def block(self, block: ContentBlock) -> int:
        """The tokens of a content block: text by its length, media by their size if known."""
        match block:
            case Text():
                return self.text(block.text)
            case Thinking():
                return self.text(block.thinking)
            case ToolUse():
                return self.text(block.name) + len(dumps(block.input)) // 4 + 4
            case ToolResultBlock():
                return sum(self.block(part) for part in block.content)
            case Image():
                return _IMAGE
            case Opaque() | Citation():
                return len(dumps(block.data)) // 4
            case _:
                return _media(block.source, _BYTES_A_TOKEN.get(type(block), _VIDEO))

    def tool(self, tool: ToolDescriptor) -> int:
        """The tokens of a tool: its name, description and schema."""
        schema = len(dumps(tool.parameters)) // 4
        return self.text(tool.name) + self.text(tool.description) + schema + 10


DEFAULT_COUNTER = TokenCounter()


def _bytes(text: str) -> int:
    # Most text is ASCII and needs no encoding to be counted.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _media(source: MediaSource, bytes_a_token: int) -> int:
    if isinstance(source, UrlSource):
        return _UNSEEN
    if source.media_type.startswith("text/"):
        bytes_a_token = 4
    size = source.size if isinstance(source, BlobSource) else len(source.data) * 3 // 4
    return max(100, size // bytes_a_token)
