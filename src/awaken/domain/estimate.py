"""How many tokens something may take, as a rule of thumb: a quarter of its bytes."""

from __future__ import annotations

from awaken.codec import dumps
from awaken.domain.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    MediaSource,
    Message,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
)
from awaken.domain.tool import ToolDescriptor

_OTHER_BLOCK = 50


def estimate_message_tokens(message: Message) -> int:
    """Text and thinking by their bytes, any other block as fifty; calls' arguments do not count."""
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
    """A tool's name, description and schema."""
    return len(tool.name) + len(tool.description) + len(dumps(tool.parameters)) // 4 + 10


# -- a counter that can be replaced -----------------------------------------------------------

_IMAGE = 1600
_UNSEEN = 2000
"""Media that somebody else fetches: nobody here knows how large they are."""

_BYTES_A_TOKEN = {Audio: 500, Document: 25}
_VIDEO = 1000


class TokenCounter:
    """Guesses how many tokens something takes, all of it in tokens.

    Whoever knows better makes a subclass, and has a plugin offer it:
    `registrar.service(TokenCounter, MyCounter())`. What providers report corrects the guess.
    """

    def text(self, text: str) -> int:
        """A quarter of its bytes."""
        return _bytes(text) // 4

    def message(self, message: Message) -> int:
        """What it says, what it shows, and the calls it makes."""
        tokens = 4
        for block in message.content:
            tokens += self.block(block)
        for call in message.tool_calls or ():
            tokens += self.text(call.name) + len(dumps(call.arguments)) // 4 + 4
        return tokens

    def block(self, block: ContentBlock) -> int:
        """Text by its length; media by their size, as far as one knows it."""
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
            case _:
                return _media(block.source, _BYTES_A_TOKEN.get(type(block), _VIDEO))

    def tool(self, tool: ToolDescriptor) -> int:
        """Its name, its description and its schema."""
        schema = len(dumps(tool.parameters)) // 4
        return self.text(tool.name) + self.text(tool.description) + schema + 10


DEFAULT_COUNTER = TokenCounter()


def _bytes(text: str) -> int:
    # Most text is ASCII, and then there is nothing to encode.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _media(source: MediaSource, bytes_a_token: int) -> int:
    if not isinstance(source, Base64Source):
        return _UNSEEN
    if source.media_type.startswith("text/"):
        bytes_a_token = 4
    return max(100, len(source.data) * 3 // 4 // bytes_a_token)
