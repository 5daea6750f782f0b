"""06/SV-4, short: `make proof` plays many more examples. Each test after the machine aims at one
rule of `FollowerCursor` that random play seldom needs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from place_machine import DEAD, LOST, OK, THREAD, TOLD, UNHEARD, UNTOLD, Following

from awaken.core.bus import PublisherState
from awaken.core.event import (
    AgentEvent,
    InferenceComplete,
    RunEvent,
    StepSnapshot,
    StepStart,
    TextDelta,
    ToolCallReady,
)
from awaken.core.message import Message
from awaken.core.store.threads import CommitView
from awaken.runtime.live.cursor import FollowerCursor

TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=150, stateful_step_count=25)


@pytest.fixture
def played() -> Following:
    """A thread whose reader listens from the start."""
    machine = Following()
    machine.the_reader_catches_up()
    return machine


def test_what_was_stored_while_no_one_listened_comes_before_what_goes_ahead(
    played: Following,
) -> None:
    """The reader joined between the two: only the second is on the bus."""
    played.a_step_starts()
    played.events_arrive()
    played.the_model_says("a")
    played.the_answer_is_stored(0, UNHEARD)
    played.the_step_ends(UNHEARD)
    played.a_step_starts()

    played.events_arrive()
    assert not played.is_live
    played.teardown()


def test_a_reader_that_is_behind_the_standing_reads_the_store_first(played: Following) -> None:
    played.something_is_noted(TOLD)
    played.a_step_starts()

    played.the_reader_asks_where_the_owner_stands()
    assert not played.is_live
    played.teardown()


def test_a_reader_that_has_read_what_the_owner_has_not_sent_yet_asks_again(
    played: Following,
) -> None:
    played.a_step_starts()
    played.the_answer_is_stored(1, UNTOLD)

    played.the_reader_catches_up(as_before=True)
    assert not played.is_live
    played.the_last_commit_is_told()
    played.teardown()


def test_an_event_that_the_standing_counted_before_it_was_sent_is_not_given_twice(
    played: Following,
) -> None:
    played.something_is_noted(UNTOLD)
    played.the_reader_catches_up()
    assert played.is_live

    played.the_last_commit_is_told()
    played.events_arrive()
    assert played.is_live
    played.teardown()


def test_a_number_that_was_taken_back_counts_as_not_given(played: Following) -> None:
    """The next event under that number was stored while the bus knew of no listener."""
    played.a_step_starts()
    played.a_commit_is_given_up()
    played.events_arrive()
    played.something_is_noted(UNHEARD)
    played.something_is_noted(TOLD)

    played.events_arrive()
    assert not played.is_live
    played.teardown()


def test_deltas_of_an_answer_that_was_read_from_the_store_are_not_given_again(
    played: Following,
) -> None:
    played.a_step_starts()
    played.events_arrive()
    played.the_model_says("a")
    played.the_answer_is_stored(0, TOLD)
    played.the_reader_reads_the_store()

    played.events_arrive()
    played.teardown()


def test_what_went_ahead_of_a_dead_owner_is_void_when_the_next_gives_its_number_away(
    played: Following,
) -> None:
    played.a_step_starts()
    played.the_model_says("a")
    played.events_arrive()
    played.another_takes_over()
    played.a_step_starts()

    played.events_arrive()
    assert not played.is_live
    played.teardown()


def test_what_went_ahead_is_void_when_the_owner_died_and_left_no_other(played: Following) -> None:
    played.something_is_noted(TOLD)
    played.a_step_starts()
    played.the_model_says("a")
    played.events_arrive()
    played.another_takes_over()

    played.no_owner_answers()
    played.teardown()


def test_an_event_of_the_next_owner_does_not_follow_on_the_dead_owners_last(
    played: Following,
) -> None:
    """Its number would, the events before it are lost."""
    played.a_step_starts()
    played.the_model_says("a")
    played.events_arrive()
    played.another_takes_over()
    played.a_step_starts()
    played.the_model_says("a")
    played.the_model_says("b")

    played.events_arrive((LOST, LOST, OK))
    assert not played.is_live
    played.teardown()


def test_a_reader_that_lost_a_delta_asks_for_the_answer(played: Following) -> None:
    played.a_step_starts()
    played.the_model_says("a")
    played.the_model_says("b")

    played.events_arrive((OK, LOST, OK))
    assert not played.is_live
    played.teardown()


def test_an_answer_whose_pieces_were_read_before_its_step_started_is_corrected(
    played: Following,
) -> None:
    """The step's start goes ahead, so the store has it later than the pieces."""
    played.something_is_noted(TOLD)
    played.a_step_starts()
    played.the_model_says("ab", is_kept=True)
    played.no_owner_answers()
    played.the_model_starts_over()

    played.the_reader_catches_up()
    played.the_model_says("b")
    played.the_answer_is_stored(0, TOLD)
    played.events_arrive()
    played.teardown()


def test_a_step_that_the_next_owner_goes_on_with_is_not_told_again(played: Following) -> None:
    played.a_step_starts()
    played.the_model_says("a")
    played.the_answer_is_stored(1, DEAD)
    played.events_arrive()
    played.the_next_owner_tells_the_step_again()
    played.the_reader_catches_up()

    played.the_step_ends(TOLD)
    played.events_arrive()
    assert played.is_live
    played.teardown()


def test_the_start_of_a_step_comes_before_the_answer_that_the_store_has_of_it() -> None:
    """A reader at another node without a bus reads an answer before its step's start is stored."""
    cursor = FollowerCursor(THREAD)
    half = cursor.on_stored_answer("r", StepSnapshot(message_id="m", text="a"))
    events: tuple[AgentEvent, ...] = (
        StepStart(message_id="m", agent_id="x"),
        InferenceComplete(model="y", duration_ms=1),
    )
    stored = tuple(
        RunEvent(thread_id=THREAD, run_id="r", at_ms=1, seq=seq, event=event)
        for seq, event in enumerate(events, 1)
    )
    answer = Message.assistant("ab", id="m")
    view = CommitView(
        position=1, first_seq=0, first_event=1, at_ms=1, messages=(answer,), events=stored
    )
    told = [event.event for event in half + cursor.on_commit(view)]
    assert told[:2] == [StepStart(message_id="m"), StepSnapshot(message_id="m", text="a")]

    # A reader that begins a message at each `step_start` has all of it, too.
    stored_start = told.index(events[0])
    assert _text_of(told) == _text_of(told[stored_start:]) == "ab"


def _text_of(events: Sequence[AgentEvent]) -> str:
    text = ""
    for event in events:
        match event:
            case TextDelta(delta=delta):
                text += delta
            case StepSnapshot(text=whole):
                text = whole
            case StepStart():
                text = ""
    return text


def test_an_answer_comes_between_the_start_of_its_step_and_its_calls() -> None:
    start = RunEvent(
        thread_id=THREAD, run_id="r", at_ms=1, seq=1, ahead=True, event=StepStart(message_id="m")
    )
    ready = ToolCallReady(id="c", name="look", arguments={})
    call = RunEvent(thread_id=THREAD, run_id="r", at_ms=1, seq=2, ahead=True, event=ready)
    turn = StepSnapshot(message_id="m", text="I look.", calls=(("c", "look", "{}"),))
    standing = PublisherState(epoch=1, n=9, seq=0, run_id="r", ahead=(start, call), turn=turn)
    given = [told.event for told in FollowerCursor(THREAD).on_publisher_state(standing)]
    assert given == [start.event, turn, ready]
