"""Which threads a caller of `told` is told of, by the time that has passed."""

from __future__ import annotations

from awaken.stores.waiting import POLL_SECONDS, REPEAT_SECONDS, CommandPoller


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_command_is_told_once_until_it_is_told_again() -> None:
    time = Time()
    poller = CommandPoller(time)
    assert poller.read_after == 0
    assert poller.select_threads({1: "a", 2: "b"}, 0) == {"a", "b"}

    assert poller.read_after == 2
    assert poller.select_threads({3: "a"}, 2) == {"a"}
    assert poller.select_threads({3: "a"}, 3) == set()
    time.now = POLL_SECONDS
    assert poller.read_after == 0
    assert poller.select_threads({1: "a", 2: "b", 3: "a"}, 0) == set()
    time.now = REPEAT_SECONDS
    assert poller.select_threads({2: "b"}, poller.read_after) == {"b"}


def test_a_lower_id_that_becomes_visible_late_is_told() -> None:
    """06/SV-8: within a second, when all pending commands are read."""
    time = Time()
    poller = CommandPoller(time)
    poller.select_threads({}, 0)
    assert poller.select_threads({2: "a"}, poller.read_after) == {"a"}
    time.now = POLL_SECONDS
    assert poller.select_threads({1: "b", 2: "a"}, poller.read_after) == {"b"}


def test_commands_are_not_read_while_another_look_finds_none() -> None:
    """06/CL-22: a look around says whether there are any, in the same statement."""
    time = Time()
    poller = CommandPoller(time)
    poller.select_threads({}, 0)
    time.now = POLL_SECONDS
    assert poller.defer(POLL_SECONDS / 2)
    time.now = 2 * POLL_SECONDS
    assert not poller.defer(POLL_SECONDS / 2), "the other look is not made any more"
    assert poller.read_after == 0
