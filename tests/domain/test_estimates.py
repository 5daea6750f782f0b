"""Rules of thumb for tokens (01 §1.11)."""

from awaken.domain.estimate import estimate_message_tokens, estimate_tool_tokens
from awaken.domain.message import Image, Message, Text, Thinking, ToolCall, UrlSource
from awaken.domain.tool import ToolDescriptor


def test_text_and_thinking_count_by_their_bytes() -> None:
    message = Message.user_with_content([Text(text="äöü"), Thinking(thinking="abcd")])

    assert estimate_message_tokens(message) == 4 + (6 + 4) // 4


def test_any_other_block_counts_as_fifty_bytes() -> None:
    picture = Image(source=UrlSource(url="https://example.org/" + "x" * 500))

    assert estimate_message_tokens(Message.user_with_content([picture])) == 4 + 50 // 4


def test_the_arguments_of_calls_do_not_count() -> None:
    call = ToolCall(id="c", name="t", arguments={"text": "x" * 1000})

    assert estimate_message_tokens(Message.assistant_with_tool_calls("", [call])) == 4


def test_a_tool_counts_its_name_its_description_and_its_schema() -> None:
    tool = ToolDescriptor(id="t", name="four", description="twelve chars", parameters={"a": 1})

    assert estimate_tool_tokens(tool) == 4 + 12 + len('{"a":1}') // 4 + 10
