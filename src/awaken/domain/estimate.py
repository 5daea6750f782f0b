"""How many tokens something may take, as a rule of thumb: a quarter of its bytes."""

from __future__ import annotations

from awaken.codec import dumps
from awaken.domain.message import Message, Text, Thinking
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
