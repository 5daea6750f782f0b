"""Messages, content blocks and the durable record of a message (01 §1.1, §1.2)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from awaken.codec import dumps, from_json, loads, to_json
from awaken.core.message import (
    Audio,
    Base64Source,
    CompactionInterval,
    ContentBlock,
    Document,
    Image,
    Message,
    MessageMetadata,
    MessageRecord,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
    Visibility,
    as_messages,
)
from awaken.errors import ConfigError
from awaken.ids import UUID7

CALL = ToolCall(id="c1", name="search", arguments={"q": "rust"})
PICTURE = Image(source=UrlSource(url="https://example.org/cat.png"))

CONSTRUCTORS: list[tuple[Callable[[], Message], Role, Visibility]] = [
    (lambda: Message.system("s"), Role.SYSTEM, Visibility.ALL),
    (lambda: Message.internal_system("s"), Role.SYSTEM, Visibility.INTERNAL),
    (lambda: Message.user("u"), Role.USER, Visibility.ALL),
    (lambda: Message.internal_user("u"), Role.USER, Visibility.INTERNAL),
    (lambda: Message.user_with_content([PICTURE]), Role.USER, Visibility.ALL),
    (lambda: Message.assistant("a"), Role.ASSISTANT, Visibility.ALL),
    (lambda: Message.assistant_with_tool_calls("a", [CALL]), Role.ASSISTANT, Visibility.ALL),
    (lambda: Message.tool("c1", "done"), Role.TOOL, Visibility.ALL),
    (lambda: Message.tool_with_content("c1", [PICTURE]), Role.TOOL, Visibility.ALL),
]


def test_every_constructor_gives_its_role_its_visibility_and_a_fresh_v7_id() -> None:
    """01/C-1: all constructors make v7 ids, and distinct ones."""
    made = [make() for make, _, _ in CONSTRUCTORS for _ in range(2)]

    ids = [message.id or "" for message in made]
    assert len(set(ids)) == len(ids)
    assert all(len(id) == 36 and id[14] == "7" for id in ids)
    for make, role, visibility in CONSTRUCTORS:
        message = make()
        assert (message.role, message.visibility) == (role, visibility)


def test_ids_sort_by_creation_time() -> None:
    """01/C-1: version 7 ids sort in the order in which they were made."""
    ids = [UUID7.new() for _ in range(2000)]

    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_a_given_id_is_kept_and_with_id_replaces_it() -> None:
    message = Message.user("hi", id="m1")

    assert message.id == "m1"
    assert message.with_id("m2") == Message.user("hi", id="m2")
    assert message.id == "m1"


def test_user_message_json_has_only_what_it_says() -> None:
    """01/C-2: no `tool_calls`, `tool_call_id`, `metadata` or `visibility` in its JSON."""
    assert to_json(Message.user("hi", id="m1")) == {
        "id": "m1",
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
    }


def test_a_message_without_an_id_has_no_id_in_its_json() -> None:
    assert "id" not in to_json(Message(role=Role.USER, content=()))


def test_internal_visibility_is_written() -> None:
    assert to_json(Message.internal_user("x"))["visibility"] == "internal"


def test_an_empty_list_of_calls_is_no_list() -> None:
    """01/C-3: `assistant_with_tool_calls("x", [])` has no calls."""
    message = Message.assistant_with_tool_calls("x", [])

    assert message.tool_calls is None
    assert "tool_calls" not in to_json(message)


def test_calls_are_kept_in_order() -> None:
    other = ToolCall(id="c2", name="fetch", arguments=None)

    message = Message.assistant_with_tool_calls("x", [CALL, other])

    assert message.tool_calls == (CALL, other)
    assert to_json(message)["tool_calls"][1] == {"id": "c2", "name": "fetch", "arguments": None}


def test_an_assistant_message_without_text_has_no_content() -> None:
    assert Message.assistant_with_tool_calls("", [CALL]).content == ()
    assert Message.assistant_with_tool_calls("x", [CALL]).content == (Text(text="x"),)


def test_only_users_own_messages_are_visible_user_messages() -> None:
    visible = [make().is_visible_user() for make, _, _ in CONSTRUCTORS]

    assert visible == [
        (role, visibility) == (Role.USER, Visibility.ALL) for _, role, visibility in CONSTRUCTORS
    ]
    assert any(visible)


def test_text_joins_text_blocks_and_ignores_the_rest() -> None:
    """01/C-4: `text()` of [text, image, text] joins the two; of [] it is empty."""
    mixed = Message.user_with_content([Text(text="one "), PICTURE, Text(text="two")])

    assert mixed.text() == "one two"
    assert Message.user_with_content([]).text() == ""
    assert Message.user_with_content([Thinking(thinking="hm")]).text() == ""


def test_marking_a_bare_message_sets_run_and_step() -> None:
    """01/C-5: on a bare message, both are set."""
    marked = Message.user("hi").mark_produced_by("r1", 3)

    assert marked.metadata == MessageMetadata(run_id="r1", step_index=3)
    assert marked.produced_by_run_id() == "r1"
    assert Message.user("hi").produced_by_run_id() is None


def test_marking_a_marked_message_changes_nothing() -> None:
    """01/C-5: the first producer is never overwritten."""
    marked = Message.user("hi").mark_produced_by("r1", 3)

    assert marked.mark_produced_by("r2", 9) == marked


def test_marking_fills_only_what_is_missing() -> None:
    """01/C-5: run and step are filled separately; other metadata stays."""
    span = CompactionInterval(from_seq=1, to_seq=4)
    half = msgspec.structs.replace(
        Message.user("hi"), metadata=MessageMetadata(step_index=7, compaction=span)
    )

    marked = half.mark_produced_by("r1", 3)

    assert marked.metadata == MessageMetadata(run_id="r1", step_index=7, compaction=span)
    known = Message.user("hi").mark_produced_by("r1")
    assert known.mark_produced_by("r2", 3).metadata == MessageMetadata(run_id="r1", step_index=3)


def test_record_of_a_tool_message_lifts_run_step_and_call() -> None:
    """01/C-6: the record projects run id, step and call id out of a tool message."""
    message = Message.tool("c1", "done", id="m1").mark_produced_by("r1", 2)

    record = MessageRecord.from_message("t1", 5, message, created_at=99)

    assert record == MessageRecord(
        message_id="m1",
        thread_id="t1",
        seq=5,
        message=message,
        produced_by_run_id="r1",
        step_index=2,
        tool_call_id="c1",
        created_at=99,
    )


def test_record_of_a_plain_message_omits_what_it_does_not_know() -> None:
    """01/C-6: the four optional fields are left out of the JSON."""
    record = MessageRecord.from_message("t1", 1, Message.user("hi", id="m1"))

    assert to_json(record).keys() == {"message_id", "thread_id", "seq", "message"}


def test_a_message_without_an_id_gets_one_in_record_and_body() -> None:
    """01/C-6 (0.6): record and body agree on the id that was made."""
    record = MessageRecord.from_message("t1", 1, Message(role=Role.USER, content=()))

    assert record.message_id
    assert record.message.id == record.message_id


BLOCKS: list[ContentBlock] = [
    Text(text="hi"),
    PICTURE,
    Audio(source=Base64Source(media_type="audio/wav", data="AAAA")),
    Video(source=UrlSource(url="https://example.org/v.mp4")),
    Document(source=Base64Source(media_type="application/pdf", data="AAAA"), title="Report"),
    ToolUse(id="c1", name="search", input={"q": [1, None]}),
    ToolResultBlock(tool_use_id="c1", content=(Text(text="found"), PICTURE)),
    Thinking(thinking="hm"),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_every_kind_of_block_round_trips(block: ContentBlock) -> None:
    """01/C-7: written with its `type` and read back equal."""
    json = loads(dumps(block))

    assert from_json(json, ContentBlock) == block
    message = Message.user_with_content([block], id="m1")
    assert loads(dumps(message), Message) == message


def test_blocks_are_tagged_by_type() -> None:
    """01/C-7: the eight tags."""
    assert [to_json(block)["type"] for block in BLOCKS] == [
        "text",
        "image",
        "audio",
        "video",
        "document",
        "tool_use",
        "tool_result",
        "thinking",
    ]


def test_a_document_without_a_title_has_no_title_key() -> None:
    """01/C-7: `title` is left out when there is none."""
    assert to_json(Document(source=UrlSource(url="https://example.org/a.pdf"))) == {
        "type": "document",
        "source": {"type": "url", "url": "https://example.org/a.pdf"},
    }


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Message.user("hi").content = ()  # type: ignore[misc]


def test_input_may_be_text_a_message_several_of_both_or_nothing() -> None:
    given = Message.system("s", id="m1")

    assert as_messages(None) == ()
    assert [m.text() for m in as_messages("hi")] == ["hi"]
    assert as_messages(given) == (given,)
    mixed = as_messages(["hi", given])
    assert [(m.role, m.text()) for m in mixed] == [(Role.USER, "hi"), (Role.SYSTEM, "s")]


def test_input_messages_without_an_id_get_one() -> None:
    bare = Message(role=Role.USER, content=())

    assert as_messages(bare)[0].id
    assert as_messages([bare])[0].id


def test_input_of_another_type_is_refused_with_its_name() -> None:
    with pytest.raises(ConfigError, match="not int: 3"):
        as_messages(["hi", 3])  # type: ignore[list-item]
