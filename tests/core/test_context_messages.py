"""Messages slipped into the next request: where they stand, how often they come (01 §1.10)."""

from __future__ import annotations

import random

import pytest

from awaken.codec import dumps, loads, to_json
from awaken.core.context_message import (
    ContextMessage,
    ContextTarget,
    ThrottleEntry,
    accepts,
    place,
)
from awaken.core.message import Message, Role, Visibility
from awaken.core.transcript import MessageSequence
from awaken.ids import SequentialIds

BASE = (Message.system("base"),)
EACH = [
    ContextMessage.system("k1", "system"),
    ContextMessage.session("k2", "session"),
    ContextMessage.conversation("k3", "conversation"),
    ContextMessage.suffix_system("k4", "suffix"),
]


def texts(view: MessageSequence) -> list[str]:
    return [message.text() for message in view]


# -- placing ----------------------------------------------------------------------------------


def test_each_target_has_its_place() -> None:
    """01/P-20: system after the base prompt, session and conversation after the leading run of
    system messages, suffix at the end."""
    history = MessageSequence([Message.user("hi"), Message.assistant("hello")])

    assert texts(place(BASE, history, EACH)) == [
        "base",
        "system",
        "session",
        "conversation",
        "hi",
        "hello",
        "suffix",
    ]


@pytest.mark.parametrize("leading", [["s1"], ["s1", "s2"], ["s1", "s2", "s3"]])
def test_session_and_conversation_follow_the_systems_of_the_history(leading: list[str]) -> None:
    """01/P-20: the leading run of system messages may reach into the history."""
    history = MessageSequence(
        [*map(Message.system, leading), Message.user("hi"), Message.system("later")]
    )

    assert texts(place(BASE, history, EACH)) == [
        "base",
        "system",
        *leading,
        "session",
        "conversation",
        "hi",
        "later",
        "suffix",
    ]


def test_without_a_base_prompt_system_stands_first() -> None:
    """01/P-20: index 0 without a base prompt."""
    history = MessageSequence([Message.user("hi")])

    assert texts(place((), history, EACH[:1])) == ["system", "hi"]
    assert texts(place((), MessageSequence([Message.system("s1")]), EACH[:1])) == ["system", "s1"]


def test_with_an_empty_history_all_four_still_have_their_order() -> None:
    """01/P-20: nothing but context."""
    assert texts(place(BASE, MessageSequence([]), EACH)) == [
        "base",
        "system",
        "session",
        "conversation",
        "suffix",
    ]


def test_several_messages_of_one_target_keep_the_order_they_were_given() -> None:
    """01/P-20: the caller sorts by (target, priority, key)."""
    given = [ContextMessage.suffix_system(key, key) for key in ("b", "a", "c")]

    assert texts(place((), MessageSequence([]), given)) == ["b", "a", "c"]


def test_without_context_the_request_is_base_and_history() -> None:
    """01/P-20: and the history is shared, not copied."""
    log = [Message.user("hi")]

    view = place(BASE, MessageSequence(log), [])

    assert list(view) == [*BASE, *log]
    assert view[1] is log[0]


def test_placing_leaves_log_and_history_alone() -> None:
    """01/P-20: context messages never enter the log."""
    log = [Message.system("s1"), Message.user("hi")]
    history = MessageSequence(log)

    place(BASE, history, EACH)

    assert [m.text() for m in log] == ["s1", "hi"]
    assert texts(history) == ["s1", "hi"]


def test_each_placed_message_gets_a_fresh_id() -> None:
    """01/P-20: every time."""
    ids = SequentialIds()
    first = place((), MessageSequence([]), EACH, ids)
    second = place((), MessageSequence([]), EACH, ids)

    made = [message.id for message in [*first, *second]]
    assert len(set(made)) == 8


def test_roles_and_visibility_of_placed_messages() -> None:
    """01 §1.10: only conversation is visible to API consumers."""
    view = place((), MessageSequence([]), EACH)

    assert [(m.role, m.visibility) for m in view] == [
        (Role.SYSTEM, Visibility.INTERNAL),
        (Role.SYSTEM, Visibility.INTERNAL),
        (Role.USER, Visibility.ALL),
        (Role.SYSTEM, Visibility.INTERNAL),
    ]


def test_sorting_goes_by_target_then_priority_then_key() -> None:
    """01/P-20: taking for a request."""
    expected = [
        ContextMessage.system("z", "", priority=-1),
        ContextMessage.system("a", ""),
        ContextMessage.system("b", ""),
        ContextMessage.session("a", "", priority=5),
        ContextMessage.conversation("a", ""),
        ContextMessage.suffix_system("a", "", priority=-9),
    ]
    shuffled = random.Random(7).sample(expected, len(expected))

    assert sorted(shuffled, key=lambda message: message.sort_key) == expected


# -- constructors -----------------------------------------------------------------------------


@pytest.mark.parametrize("message", EACH, ids=lambda message: message.target.value)
def test_a_context_message_is_neither_throttled_nor_kept_unless_it_says_so(
    message: ContextMessage,
) -> None:
    assert (message.cooldown_turns, message.priority) == (0, 0)
    assert (message.persistent, message.consume_after_emit) == (False, False)


def test_persistent_and_emit_once_messages() -> None:
    persistent = ContextMessage.system_persistent("k", "x")
    once = ContextMessage.emit_once("k", "x", ContextTarget.SESSION)

    assert (persistent.persistent, persistent.consume_after_emit) == (True, False)
    assert (once.persistent, once.consume_after_emit, once.target) == (
        True,
        True,
        ContextTarget.SESSION,
    )


def test_a_context_message_round_trips_and_writes_its_defaults() -> None:
    message = ContextMessage.system("k", "x", cooldown_turns=3)

    assert to_json(message) == {
        "key": "k",
        "role": "system",
        "content": [{"type": "text", "text": "x"}],
        "visibility": "internal",
        "target": "system",
        "cooldown_turns": 3,
        "persistent": False,
        "consume_after_emit": False,
        "priority": 0,
    }
    assert loads(dumps(message), ContextMessage) == message


# -- throttling -------------------------------------------------------------------------------


def throttle_entry(message: ContextMessage, step: int) -> ThrottleEntry:
    return ThrottleEntry(last_step=step, content_hash=message.content_hash())


def test_without_a_cooldown_a_message_always_passes() -> None:
    """01/P-20: cooldown 0 always accepts."""
    message = ContextMessage.system("k", "x")

    assert accepts(message, throttle_entry(message, 1), 1)


def test_an_unseen_message_passes() -> None:
    """01/P-20: the key is unseen."""
    assert accepts(ContextMessage.system("k", "x", cooldown_turns=9), None, 1)


@pytest.mark.parametrize(("step", "passes"), [(4, False), (5, False), (6, False), (7, True)])
def test_the_same_content_waits_for_its_cooldown(step: int, passes: bool) -> None:
    """01/P-20: `step - last_step >= cooldown`."""
    message = ContextMessage.system("k", "x", cooldown_turns=3)

    assert accepts(message, throttle_entry(message, 4), step) is passes


def test_a_cooldown_of_one_passes_once_a_step() -> None:
    """01/P-20: only a cooldown of 0 passes twice in one step."""
    message = ContextMessage.system("k", "x", cooldown_turns=1)

    assert not accepts(message, throttle_entry(message, 4), 4)
    assert accepts(message, throttle_entry(message, 4), 5)


def test_changed_content_passes_at_once() -> None:
    """01/P-20: the content hash changed."""
    old = ContextMessage.system("k", "x", cooldown_turns=3)
    new = ContextMessage.system("k", "y", cooldown_turns=3)

    assert accepts(new, throttle_entry(old, 4), 4)


def test_the_hash_is_of_the_content_alone_and_the_same_in_every_process() -> None:
    """01/P-20: it is stored, so it may not depend on the process."""
    one = ContextMessage.system("k", "x")
    two = ContextMessage.session("other", "x", cooldown_turns=3)

    assert one.content_hash() == two.content_hash() == "4adf4367f96e584f"
