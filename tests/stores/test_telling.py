"""Which threads a caller of `told` is told of, by the time that has passed."""

from __future__ import annotations

from awaken.stores.waiting import LOOK_EVERY, TELL_AGAIN, Telling


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_command_is_told_once_until_it_is_told_again() -> None:
    time = Time()
    telling = Telling(time)
    assert telling.looks_after == 0
    assert telling.tell({1: "a", 2: "b"}, 0) == {"a", "b"}

    assert telling.looks_after == 2
    assert telling.tell({3: "a"}, 2) == {"a"}
    assert telling.tell({3: "a"}, 3) == set()
    time.now = LOOK_EVERY
    assert telling.looks_after == 0
    assert telling.tell({1: "a", 2: "b", 3: "a"}, 0) == set()
    time.now = TELL_AGAIN
    assert telling.tell({2: "b"}, telling.looks_after) == {"b"}


def test_a_lower_id_that_becomes_visible_late_is_told() -> None:
    """06/SV-8: within a second, when all pending commands are read."""
    time = Time()
    telling = Telling(time)
    telling.tell({}, 0)
    assert telling.tell({2: "a"}, telling.looks_after) == {"a"}
    time.now = LOOK_EVERY
    assert telling.tell({1: "b", 2: "a"}, telling.looks_after) == {"b"}


def test_commands_are_not_read_while_another_look_finds_none() -> None:
    """06/CL-22: a look around says whether there are any, in the same statement."""
    time = Time()
    telling = Telling(time)
    telling.tell({}, 0)
    time.now = LOOK_EVERY
    assert telling.put_off(LOOK_EVERY / 2)
    time.now = 2 * LOOK_EVERY
    assert not telling.put_off(LOOK_EVERY / 2), "the other look is not made any more"
    assert telling.looks_after == 0
