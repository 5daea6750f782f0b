"""What a model may see of the raw log (01 §1.1, §1.11, A-9)."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.core.message import (
    CompactionInterval,
    Message,
    MessageMetadata,
    Role,
    Text,
    Thinking,
    ToolCall,
    Visibility,
)
from awaken.core.transcript import INTERRUPTED, effective_view, patch_dangling_tool_calls


def turn(text: str, *calls: str) -> Message:
    made = [ToolCall(id=call, name="tool", arguments={}) for call in calls]
    return Message.assistant_with_tool_calls(text, made)


def retraction(call: str) -> Message:
    return msgspec.structs.replace(Message.tool(call, ""), visibility=Visibility.INTERNAL)


def summary(text: str, from_seq: int, to_seq: int) -> Message:
    covered = CompactionInterval(from_seq=from_seq, to_seq=to_seq)
    return msgspec.structs.replace(
        Message.internal_user(text), metadata=MessageMetadata(compaction=covered)
    )


def calls_of(message: Message) -> list[str]:
    return [call.id for call in message.tool_calls or ()]


# -- stripping --------------------------------------------------------------------------------


def test_paired_calls_are_untouched() -> None:
    """01/A-9: paired untouched."""
    log = [Message.user("hi"), turn("ok", "c1"), Message.tool("c1", "r"), Message.assistant("bye")]

    view = effective_view(log)

    assert view == log
    assert view[1] is log[1]


def test_an_unanswered_call_is_removed_and_its_sibling_stays() -> None:
    """01/A-9: unanswered removed."""
    log = [turn("ok", "c1", "c2", "c3"), Message.tool("c2", "r")]

    view = effective_view(log)

    assert calls_of(view[0]) == ["c2"]
    assert view[0].text() == "ok"
    assert view[1:] == [log[1]]
    assert calls_of(log[0]) == ["c1", "c2", "c3"]


def test_the_field_is_dropped_when_no_call_is_left() -> None:
    """01/A-9: field dropped when empty."""
    view = effective_view([turn("thinking aloud", "c1"), Message.user("go on")])

    assert view[0].tool_calls is None
    assert view[0].text() == "thinking aloud"
    assert len(view) == 2


def test_an_empty_trailing_message_is_removed() -> None:
    """01/A-9: empty trailing message removed, and the one before it too."""
    user = Message.user("hi")

    assert effective_view([user, turn("", "c1")]) == [user]
    assert effective_view([user, Message.assistant(""), turn("", "c1"), turn("", "c2")]) == [user]
    assert effective_view([turn("", "c1")]) == []
    assert effective_view([]) == []


def test_a_trailing_message_with_thinking_is_not_empty() -> None:
    """01/A-9: only what says nothing goes."""
    thought = Message(role=Role.ASSISTANT, content=(Thinking(thinking="hm"),))
    blank = Message(role=Role.ASSISTANT, content=(Text(text=""),))

    assert effective_view([thought]) == [thought]
    assert effective_view([blank]) == []


def test_trailing_messages_of_others_stay_even_when_empty() -> None:
    """01/A-9: only assistant messages are dropped."""
    empty = Message.user("")

    assert effective_view([empty]) == [empty]


def test_a_result_nobody_asked_for_is_hidden() -> None:
    """No provider takes a result without its call."""
    user = Message.user("hi")

    assert effective_view([Message.tool("c9", "?"), user]) == [user]


def test_suspended_calls_that_are_still_open_stay() -> None:
    log = [turn("", "c1", "c2", "c3"), Message.tool("c2", "r")]

    view = effective_view(log, open_calls={"c1"})

    assert calls_of(view[0]) == ["c1", "c2"]
    assert view[1:] == [log[1]]


def test_the_view_never_changes_the_log() -> None:
    log = [turn("ok", "c1", "c2"), Message.tool("c1", "r"), turn("", "c3")]
    before = list(log)

    effective_view(log)

    assert all(now is then for now, then in zip(log, before, strict=True))


# -- retraction, late and repeated results ----------------------------------------------------


def test_an_internal_tool_message_retracts_its_call() -> None:
    """01 §1.1: a tool message with visibility `internal` retracts its call."""
    log = [turn("ok", "c1", "c2"), Message.tool("c1", "r"), retraction("c2"), Message.user("next")]

    view = effective_view(log, open_calls={"c2"})

    assert calls_of(view[0]) == ["c1"]
    assert view[1:] == [log[1], log[3]]


def test_an_answered_call_can_be_retracted_later() -> None:
    """01 §1.1: the later message counts."""
    log = [turn("", "c1"), Message.tool("c1", "r"), Message.user("never mind"), retraction("c1")]

    assert effective_view(log) == [log[2]]


def test_a_late_result_stands_beside_its_call() -> None:
    """A result that comes late is appended; the view puts it beside its call."""
    user = Message.user("meanwhile")
    late = Message.tool("c1", "late")
    log = [turn("", "c1"), user, Message.assistant("wait"), late]

    assert effective_view(log) == [log[0], late, user, log[2]]


def test_results_stand_in_call_order_however_they_came() -> None:
    one, two, three = (Message.tool(f"c{n}", "r") for n in (1, 2, 3))
    log = [turn("", "c1", "c2", "c3"), three, one, Message.user("x"), two]

    assert effective_view(log) == [log[0], one, two, three, log[3]]


def test_a_second_result_of_a_call_replaces_the_first() -> None:
    guess, real = Message.tool("c1", INTERRUPTED), Message.tool("c1", "real")
    log = [turn("", "c1"), guess, real]

    assert effective_view(log) == [log[0], real]


def test_call_ids_may_repeat_from_turn_to_turn() -> None:
    """Provider call ids repeat: a result belongs to the latest turn that used its id."""
    first, second = Message.tool("call_0", "first"), Message.tool("call_0", "second")
    log = [turn("a", "call_0"), first, turn("b", "call_0"), second]

    assert effective_view(log) == log


def test_a_repeated_id_left_open_does_not_take_the_earlier_result() -> None:
    first = Message.tool("call_0", "first")
    log = [turn("a", "call_0"), first, turn("b", "call_0")]

    view = effective_view(log)

    assert view[:2] == log[:2]
    assert calls_of(view[2]) == []
    assert view[2].text() == "b"


def test_call_ids_may_repeat_within_one_turn() -> None:
    """Some providers give every call of a turn one id, or none: results follow call order."""
    one, two = Message.tool("", "one"), Message.tool("", "two")
    log = [turn("", "", ""), one, two]

    assert effective_view(log) == log
    half = effective_view(log[:2])
    assert (calls_of(half[0]), half[1:]) == ([""], [one])


# -- summaries --------------------------------------------------------------------------------


def test_a_summary_stands_at_the_start_of_what_it_covers() -> None:
    """01 §1.1: the effective view puts it at the interval's start and hides what it covers."""
    one, two, three, four = (Message.user(str(n)) for n in (1, 2, 3, 4))
    folded = summary("2 and 3", 2, 3)

    assert effective_view([one, two, three, four, folded]) == [one, folded, four]


def test_of_nested_summaries_only_the_widest_counts() -> None:
    """01 §1.1: of nested intervals only the widest counts, whichever came first."""
    users = [Message.user(str(n)) for n in (1, 2, 3, 4)]
    wide = summary("1-4", 1, 4)

    for low, high in ((1, 2), (2, 3), (3, 4)):
        narrow = summary(f"{low}-{high}", low, high)
        assert effective_view([*users, narrow, wide]) == [wide]
        assert effective_view([*users, wide, narrow]) == [wide]


def test_of_two_summaries_of_one_interval_the_later_counts() -> None:
    """01 §1.1, 02/X2: one of them must stand there; the covered messages stay hidden."""
    users = [Message.user(str(n)) for n in (1, 2, 3)]
    old, new = summary("old", 1, 2), summary("new", 1, 2)

    assert effective_view([*users, old, new]) == [new, users[2]]


def test_summaries_beside_each_other_all_count() -> None:
    users = [Message.user(str(n)) for n in (1, 2, 3, 4, 5)]
    first, second = summary("1-2", 1, 2), summary("4-5", 4, 5)

    assert effective_view([*users, first, second]) == [first, users[2], second]


def test_a_summary_of_summaries_hides_them() -> None:
    """01 §1.1: a wider summary may cover an earlier summary's own place in the log."""
    users = [Message.user(str(n)) for n in (1, 2, 3)]
    early = summary("1-2", 1, 2)  # stands at seq 4
    late = summary("1-5", 1, 5)
    log = [*users, early, Message.user("5"), late, Message.user("7")]

    assert effective_view(log) == [late, log[6]]


def test_a_result_whose_call_was_summarised_is_hidden_with_it() -> None:
    user = Message.user("next")
    folded = summary("a call", 1, 1)
    log = [turn("", "c1"), Message.tool("c1", "r"), user, folded]

    assert effective_view(log) == [folded, user]


# -- the law ----------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", "c"])
LOGS = st.lists(
    st.one_of(
        st.builds(Message.user, st.sampled_from(["", "hi"])),
        st.builds(
            lambda text, ids: turn(text, *ids),
            st.sampled_from(["", "ok"]),
            st.lists(IDS, max_size=3),
        ),
        st.builds(Message.tool, IDS, st.just("r")),
        st.builds(retraction, IDS),
    ),
    max_size=12,
)


@given(log=LOGS)
@settings(max_examples=100, deadline=None)
def test_whatever_the_log_every_call_in_the_view_is_followed_by_its_result(
    log: list[Message],
) -> None:
    """01/A-9: a model never sees a call without a result, nor a result without its call."""
    view = effective_view(log)

    expected: list[str] = []
    for message in view:
        if message.role is Role.TOOL:
            assert message.visibility is Visibility.ALL
            assert expected
            assert message.tool_call_id == expected.pop(0)
        else:
            assert not expected
            expected = calls_of(message)
    assert not expected


@given(log=LOGS)
@settings(max_examples=100, deadline=None)
def test_whatever_the_log_the_view_of_a_view_is_the_view(log: list[Message]) -> None:
    view = effective_view(log)

    assert effective_view(view) == view


@given(log=LOGS)
@settings(max_examples=100, deadline=None)
def test_whatever_the_log_users_messages_stay_in_order(log: list[Message]) -> None:
    def users(messages: list[Message]) -> list[Message]:
        return [message for message in messages if message.role is Role.USER]

    assert users(effective_view(log)) == users(log)


# -- patching ---------------------------------------------------------------------------------


def summarise(messages: list[Message]) -> list[tuple[str, str | None, str]]:
    return [(m.role.value, m.tool_call_id, m.text()) for m in messages]


def test_dangling_calls_get_a_result_after_the_existing_ones() -> None:
    """01 §1.11: calls with no tool message anywhere get one, after that message's results."""
    log = [turn("ok", "c1", "c2", "c3"), Message.tool("c2", "r"), Message.user("next")]

    assert summarise(patch_dangling_tool_calls(log)) == [
        ("assistant", None, "ok"),
        ("tool", "c2", "r"),
        ("tool", "c1", "[Tool execution was interrupted]"),
        ("tool", "c3", "[Tool execution was interrupted]"),
        ("user", None, "next"),
    ]


def test_a_call_answered_further_down_is_not_patched() -> None:
    """01 §1.11: anywhere means anywhere."""
    log = [turn("", "c1"), Message.user("x"), Message.tool("c1", "late")]

    assert patch_dangling_tool_calls(log) == log


def test_patched_results_have_ids_and_each_turn_gets_its_own() -> None:
    """01 §1.11: for each assistant message."""
    log = [turn("", "c1"), turn("", "c2"), Message.tool("c2", "r")]

    patched = patch_dangling_tool_calls(log)

    assert [m.tool_call_id for m in patched] == [None, "c1", None, "c2"]
    assert patched[1].id


def test_a_log_without_dangling_calls_is_only_copied() -> None:
    log = [Message.user("hi"), turn("", "c1"), Message.tool("c1", "r"), Message.assistant("bye")]

    patched = patch_dangling_tool_calls(log)

    assert patched == log
    assert patched is not log
