"""What of a long conversation fits a model (02 §7.1)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from awaken.core.inference import ContextWindowPolicy
from awaken.core.message import Image, Message, Text, ToolCall, UrlSource
from awaken.core.transcript import INTERRUPTED
from awaken.core.window import Cut, TokenCounter, Window, clamp_policy, shorten_message, truncate


class Ten(TokenCounter):
    """Every message takes ten tokens, long ones more; knows how many it has looked at."""

    def __init__(self) -> None:
        self.looked = 0

    def message(self, message: Message) -> int:
        self.looked += 1
        return 10 + len(message.text()) // 1000


def turn(*calls: str) -> Message:
    made = [ToolCall(id=call, name="tool", arguments={}) for call in calls]
    return Message.assistant_with_tool_calls("", made)


def round_of(*calls: str, text: str = "r") -> list[Message]:
    return [turn(*calls), *[Message.tool(call, text) for call in calls]]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text() for message in messages]


# -- the policy -------------------------------------------------------------------------------


def test_a_policy_is_held_within_what_the_model_can_do() -> None:
    """02 §7.1: output at most the context, the threshold at most what is left beside it."""
    policy = ContextWindowPolicy.of(100_000, max_output_tokens=10_000, compact_at=1)

    held = clamp_policy(policy, 20_000, 4_000)

    assert (held.max_context_tokens, held.max_output_tokens) == (20_000, 4_000)
    assert held.autocompact_threshold == 16_000
    assert clamp_policy(policy, None, None) == policy
    assert clamp_policy(policy, 8_000, None).max_output_tokens == 8_000


def test_a_threshold_for_which_there_is_no_room_is_dropped() -> None:
    """02 §7.1: dropped when context less output is 0."""
    policy = ContextWindowPolicy.of(100_000, max_output_tokens=16_384, compact_at=0.8)

    assert clamp_policy(policy, 16_384, None).autocompact_threshold is None


def test_a_policy_is_made_by_what_one_wants_to_say() -> None:
    policy = ContextWindowPolicy.of(50_000, max_output_tokens=10_000, compact_at=0.75)

    assert policy.autocompact_threshold == 30_000
    assert ContextWindowPolicy.of() == ContextWindowPolicy.default()
    assert ContextWindowPolicy.of(8_000).max_output_tokens == 2_000
    with pytest.raises(ValueError, match="between 0 and 1"):
        ContextWindowPolicy.of(compact_at=80)


# -- long results -----------------------------------------------------------------------------


def test_a_long_result_is_shown_up_to_its_first_lines() -> None:
    """02 §7.1: from 2048 tokens on, 1600 characters and 24 lines are kept, and a marker."""
    long = Message.tool("c1", "x" * 8192)
    lines = Message.tool("c1", "\n".join(["line"] * 2000))

    assert shorten_message(long).text().startswith("x" * 1600 + "\n[Content compacted:")
    assert "6592 of 8192" in shorten_message(long).text()
    assert shorten_message(lines).text().split("\n")[:24] == ["line"] * 24
    assert shorten_message(lines).text().split("\n")[24].startswith("[Content compacted:")
    assert len(shorten_message(lines).text().split("\n")) == 25


def test_what_is_not_long_or_no_result_stays_as_it_is() -> None:
    short, said = Message.tool("c1", "x" * 8191), Message.user("x" * 9000)

    assert shorten_message(short) is short
    assert shorten_message(said) is said
    assert (
        shorten_message(shorten_message(Message.tool("c", "x" * 9000))).text().count("compacted")
        == 1
    )


def test_only_the_texts_of_a_result_are_shortened() -> None:
    picture = Image(source=UrlSource(url="https://example.org/a.png"))
    mixed = Message.tool_with_content("c1", [Text(text="ä" * 4096), picture, Text(text="end")])

    first, *rest = shorten_message(mixed).content

    assert isinstance(first, Text)
    assert len(first.text) < 1700
    assert rest == [picture, Text(text="end")]


# -- leaving out ------------------------------------------------------------------------------


def test_what_fits_is_shown_as_it_is() -> None:
    messages = [Message.user("hi"), *round_of("c1", text="x" * 9000), Message.assistant("so")]

    assert truncate(messages, 100, counter=Ten()) == messages


def test_the_system_messages_and_the_last_ones_stay() -> None:
    """02/X5: truncation keeps system + min_recent, whatever room there is."""
    said = [Message.user(str(number)) for number in range(20)]
    messages = [Message.system("s1"), Message.system("s2"), *said]

    assert texts(truncate(messages, 50, counter=Ten())) == ["s1", "s2", "17", "18", "19"]
    assert texts(truncate(messages, 0, 4, counter=Ten())) == ["s1", "s2", "16", "17", "18", "19"]


@pytest.mark.parametrize("room", range(0, 110, 10))
@pytest.mark.parametrize("at_least", [0, 1, 2, 3, 5])
def test_a_round_is_shown_whole_or_not_at_all(room: int, at_least: int) -> None:
    """02/X5: never orphans a tool pair, wherever the cut falls; parallel calls are one round."""
    rounds = [round_of("a"), round_of("a", "b", "c"), round_of("a", "b")]
    messages = [Message.user("hi"), *[m for each in rounds for m in each]]

    shown = truncate(messages, room, at_least, counter=Ten())

    whole = [[messages[0], *[m for each in rounds[n:] for m in each]] for n in range(4)]
    assert shown in whole
    assert len(shown) >= min(at_least, 10)


def test_the_users_last_message_stays_however_far_back_it_is() -> None:
    """02/X2: what the user asked for is seen to the end of a long run."""
    rounds = [m for n in range(10) for m in round_of(f"c{n}")]
    messages = [Message.user("old"), Message.user("the task"), *rounds]

    shown = truncate(messages, 50, counter=Ten())

    assert texts(shown)[0] == "the task"
    assert shown[1:] == rounds[-4:]


def test_long_results_give_way_before_messages_do() -> None:
    old, new = Message.tool("a", "x" * 20_000), Message.tool("b", "y" * 20_000)
    messages = [Message.user("hi"), turn("a"), old, turn("b"), new]

    shown = truncate(messages, 75, 2, counter=Ten())

    assert [m.id for m in shown] == [m.id for m in messages]
    assert (len(shown[2].text()) < 2000, shown[4]) == (True, new)


def test_if_nothing_else_helps_the_last_results_are_shortened_too() -> None:
    messages = [Message.user("hi"), turn("a"), Message.tool("a", "x" * 90_000)]

    assert len(truncate(messages, 40, 3, counter=Ten())[2].text()) < 2000


def test_a_call_nobody_answered_gets_a_result_that_says_so() -> None:
    """02 §7.1: no request holds a call without a result."""
    messages = [Message.user("hi"), turn("a", "b"), Message.tool("a", "r"), Message.user("and?")]

    assert texts(truncate(messages, 1000)) == ["hi", "", "r", INTERRUPTED, "and?"]


# -- a conversation that grows ----------------------------------------------------------------


def test_a_window_that_is_cut_begins_the_same_for_many_steps() -> None:
    """02/DB-29: a prefix that changes with every step is in no cache."""
    window, log, beginnings = Window(Ten()), [Message.system("s")], []
    for number in range(200):
        log.append(Message.user(str(number)))
        window.take(log)
        window.fit(400, 2)
        assert window.tokens <= 400
        beginnings.append(texts(window.view())[1])

    assert len(set(beginnings)) < 20
    assert beginnings == sorted(beginnings, key=int)


def test_each_message_is_looked_at_once_while_it_all_fits() -> None:
    """Design §1: a step costs the same in a long conversation and in a short one."""
    counter = Ten()
    window, log = Window(counter), [Message.user("0")]
    for number in range(1000):
        log.append(Message.user(str(number)))
        window.take(log)
        window.fit(1_000_000, 2)
        window.view()

    assert counter.looked == len(log)


def test_a_step_of_a_cut_conversation_costs_the_same_however_long_it_is() -> None:
    counter = Ten()
    window, log = Window(counter), [Message.user("0")]

    def count_looks(steps: int) -> int:
        before = counter.looked
        for number in range(steps):
            log.append(Message.user(str(number)))
            window.take(log)
            window.fit(1000, 2)
        return counter.looked - before

    count_looks(200)
    early = count_looks(500)
    count_looks(5000)
    assert count_looks(500) <= early * 1.1


def test_another_window_shows_the_same_by_the_cut_alone() -> None:
    """02/DB-29: the next run's requests begin as this one's did."""
    log = [Message.system("s"), Message.user("old")]
    first = Window(Ten())
    for number in range(40):
        log += [Message.user(str(number)), *round_of("c", text="x" * 9000)]
        first.take(log)
        first.fit(300, 3)

    second = Window(Ten(), first.cut)
    second.take(list(log))

    assert list(second.view()) == list(first.view())
    assert (second.tokens, second.cut) == (first.tokens, first.cut)


def test_a_cut_that_is_not_there_any_more_is_forgotten() -> None:
    window = Window(Ten(), Cut(first="gone", shortened="gone, too"))
    window.take([Message.user("hi")])

    assert (window.cut, texts(window.view())) == (Cut(), ["hi"])


def test_a_view_that_was_taken_before_stays_as_it_is() -> None:
    window, log = Window(Ten()), [Message.user("hi"), *round_of("a", text="x" * 9000)]
    window.take(log)
    view = window.view()

    log.extend(round_of("b"))
    window.take(log)
    window.fit(20, 0)

    assert list(view) == log[:3]
