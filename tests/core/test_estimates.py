"""Rules of thumb for tokens (01 §1.11)."""

from awaken.core.message import (
    Audio,
    Base64Source,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultBlock,
    UrlSource,
    Video,
)
from awaken.core.tool import ToolDescriptor
from awaken.core.window import TokenCounter, estimate_message_tokens, estimate_tool_tokens


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


# -- the counter (02/DB-34) -------------------------------------------------------------------

COUNTER = TokenCounter()


def test_the_counter_counts_calls_with_their_arguments() -> None:
    """02/DB-34: what a model writes into a call is sent back to it."""
    call = ToolCall(id="c", name="t", arguments={"text": "x" * 1000})

    assert COUNTER.message(Message.assistant_with_tool_calls("", [call])) > 250


def test_media_take_what_they_take_and_not_a_few_bytes() -> None:
    """02/DB-34: not 50 per image."""
    url = UrlSource(url="https://example.org/a")
    sound = Audio(source=Base64Source(media_type="audio/mpeg", data="A" * 400_000))
    notes = Document(source=Base64Source(media_type="text/plain", data="A" * 400_000))

    assert COUNTER.block(Image(source=url)) == 1600
    assert COUNTER.block(Document(source=url)) == 2000
    assert 500 < COUNTER.block(sound) < 1000
    assert COUNTER.block(notes) == 75_000
    assert COUNTER.block(Video(source=url)) == 2000
    nested = ToolResultBlock(tool_use_id="c", content=(Image(source=url), Text(text="abcd")))
    assert COUNTER.block(nested) == 1601


def test_a_tool_is_counted_in_tokens_throughout() -> None:
    """02/DB-34: characters and tokens are not mixed."""
    tool = ToolDescriptor(id="t", name="four", description="d" * 400, parameters={"a": 1})

    assert COUNTER.tool(tool) == 1 + 100 + len('{"a":1}') // 4 + 10


def test_text_that_is_not_ascii_counts_by_its_bytes() -> None:
    assert COUNTER.text("äöü" * 4) == 6
    assert COUNTER.text("\ud800abc") == 1
