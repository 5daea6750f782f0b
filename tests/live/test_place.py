"""06/SV-4: over a bus that drops, repeats and delays, a reader gets everything, once and in order.

The owner of the thread is killed, loses commits and takes them back, at any point.
"""

from __future__ import annotations

import msgspec
from follow_kit import Reader
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from awaken.contract.bus import Standing
from awaken.contract.threads import CommitView
from awaken.domain.event import (
    AgentEvent,
    InferenceComplete,
    RunEvent,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallReady,
)
from awaken.domain.message import Message, Role, Text
from awaken.live.place import OutOfStep, Place
from event_kit import as_stored

THREAD = "t"
AFTER = ("told", "nobody listened when it was noted", "the owner dies")
"""What becomes of the last event of a commit that was made."""
_replace = msgspec.structs.replace


class Following(RuleBasedStateMachine):
    """A thread with its owner, a bus that cannot be trusted, and one reader."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[CommitView] = []
        self.events = 0
        self.messages: dict[str, str] = {}
        self.made = 0
        self.epoch, self.n = 1, 0
        self.in_flight: list[RunEvent] = []
        self.begun: list[RunEvent] = []
        self.answer: str | None = None
        self.text = ""
        self.is_said = False
        self.place, self.reader = Place(THREAD), Reader()
        self.is_live = False

    # -- the owner ----------------------------------------------------------------------------

    def send(self, event: RunEvent) -> RunEvent:
        self.n += 1
        told = _replace(event, live=(self.epoch, self.n))
        self.in_flight.append(told)
        return told

    def made_event(self, event: AgentEvent, seq: int | None = None) -> RunEvent:
        self.made += 1
        return RunEvent(thread_id=THREAD, run_id="r", at_ms=self.made, seq=seq, event=event)

    def begin(self, event: AgentEvent) -> None:
        seq = self.events + len(self.begun) + 1
        self.begun.append(self.send(_replace(self.made_event(event, seq), ahead=True)))

    def commit(self, noted: AgentEvent, message: Message | None = None) -> RunEvent:
        last = self.made_event(noted, self.events + len(self.begun) + 1)
        self.log.append(
            CommitView(
                position=len(self.log) + 1,
                first_seq=len(self.messages) + 1,
                first_event=self.events + 1,
                at_ms=self.made,
                run_id="r",
                messages=(message,) if message is not None else (),
                events=(*map(as_stored, self.begun), last),
            )
        )
        if message is not None:
            self.messages[message.id or ""] = message.text()
        self.events += len(self.begun) + 1
        self.begun = []
        return last

    @precondition(lambda self: self.answer is None)
    @rule()
    def a_step_starts(self) -> None:
        self.made += 1
        self.answer, self.text, self.is_said = f"m{self.made}", "", False
        self.begin(StepStart(message_id=self.answer))

    @precondition(lambda self: self.answer is not None and not self.is_said)
    @rule(delta=st.sampled_from(["a", "b", "ab"]))
    def the_model_says(self, delta: str) -> None:
        self.text += delta
        self.send(self.made_event(TextDelta(delta=delta)))

    @precondition(lambda self: self.answer is not None and not self.is_said)
    @rule()
    def the_model_starts_over(self) -> None:
        self.text = ""
        self.send(self.made_event(StreamReset(reason="it broke off")))

    @precondition(lambda self: self.answer is not None and not self.is_said)
    @rule(calls=st.integers(0, 2), told=st.sampled_from(AFTER))
    def the_answer_is_stored(self, calls: int, told: str) -> None:
        for _ in range(calls):
            self.begin(ToolCallReady(id=f"c{self.made}", name="look", arguments={}))
        said = Message(id=self.answer, role=Role.ASSISTANT, content=(Text(text=self.text),))
        last = self.commit(InferenceComplete(model="m", duration_ms=1), said)
        self.is_said = True
        self.publish(last, told)

    @precondition(lambda self: self.is_said)
    @rule(told=st.sampled_from(AFTER))
    def the_step_ends(self, told: str) -> None:
        last = self.commit(StepEnd())
        self.answer, self.is_said = None, False
        self.publish(last, told)

    def publish(self, last: RunEvent, told: str) -> None:
        if told == "told":
            self.send(last)
        elif told == "the owner dies":
            self.another_takes_over()

    @rule()
    def another_takes_over(self) -> None:
        """The owner dies: what it had not stored is lost."""
        self.epoch, self.n = self.epoch + 1, 0
        self.begun, self.text = [], ""
        if not self.is_said:
            self.answer = None

    @precondition(lambda self: bool(self.begun))
    @rule()
    def a_commit_is_given_up(self) -> None:
        first = self.events + 1
        self.begun, self.answer, self.is_said, self.text = [], None, False, ""
        lost = StreamReset(reason="it could not be stored", from_seq=first)
        self.send(self.made_event(lost))

    # -- the bus and the reader ---------------------------------------------------------------

    def standing(self) -> Standing:
        turn = None
        if self.answer is not None:
            text = self.messages[self.answer] if self.is_said else self.text
            turn = StepSnapshot(message_id=self.answer, text=text)
        return Standing(
            run_id="r",
            epoch=self.epoch,
            n=self.n,
            seq=self.events,
            ahead=tuple(self.begun),
            turn=turn,
        )

    def give(self, events: list[RunEvent]) -> None:
        for event in events:
            self.reader.read(event)

    def read_the_store(self) -> None:
        for view in self.log:
            if view.first_event + len(view.events) - 1 > self.place.cursor:
                self.give(self.place.stored(view))

    @rule()
    def the_reader_reads_the_store(self) -> None:
        self.read_the_store()
        self.is_live = False

    @rule()
    def the_reader_asks_where_the_owner_stands(self) -> None:
        try:
            self.give(self.place.standing(self.standing()))
        except OutOfStep:
            self.is_live = False
        else:
            self.is_live = True

    @rule()
    def the_reader_catches_up(self) -> None:
        self.read_the_store()
        self.the_reader_asks_where_the_owner_stands()

    @rule()
    def nobody_answers_the_reader(self) -> None:
        self.place.lose()
        self.is_live = True

    def deliver(self, event: RunEvent) -> None:
        try:
            self.give(self.place.heard(event))
        except OutOfStep:
            self.is_live = False

    @precondition(lambda self: self.is_live and self.in_flight)
    @rule(times=st.integers(1, 5))
    def events_arrive(self, times: int) -> None:
        for event in self.in_flight[:times]:
            if self.is_live:
                self.deliver(event)
        del self.in_flight[:times]

    @precondition(lambda self: self.is_live and self.in_flight)
    @rule(data=st.data())
    def an_event_overtakes_others(self, data: st.DataObject) -> None:
        self.deliver(self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1))))

    @precondition(lambda self: self.is_live and self.in_flight)
    @rule()
    def an_event_arrives_twice(self) -> None:
        event = self.in_flight.pop(0)
        self.deliver(event)
        self.in_flight.append(event)

    @precondition(lambda self: bool(self.in_flight))
    @rule()
    def events_are_lost(self) -> None:
        self.in_flight.clear()

    # -- what must hold -----------------------------------------------------------------------

    @invariant()
    def the_reader_has_no_event_that_is_not_in_the_log(self) -> None:
        stored = [event for view in self.log for event in view.events]
        for seq in range(1, self.reader.cursor + 1):
            assert self.reader.durable[seq].event == stored[seq - 1].event

    def teardown(self) -> None:
        self.read_the_store()
        self.give(self.place.standing(self.standing()))
        assert self.reader.cursor == self.events
        for message_id, text in self.messages.items():
            assert self.reader.texts[message_id] == text


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=150, stateful_step_count=60)


def test_what_was_stored_while_no_one_listened_comes_before_what_goes_ahead() -> None:
    """The reader joined between the two: only the second is on the bus."""
    unheard = AFTER[1]
    played = Following()
    played.the_reader_catches_up()
    played.a_step_starts()
    played.events_arrive(1)
    played.the_model_says("a")
    played.the_answer_is_stored(0, unheard)
    played.the_step_ends(unheard)
    played.a_step_starts()

    played.events_arrive(5)
    assert not played.is_live
    played.teardown()


def test_an_answer_comes_between_the_start_of_its_step_and_its_calls() -> None:
    start = RunEvent(
        thread_id=THREAD, run_id="r", at_ms=1, seq=1, ahead=True, event=StepStart(message_id="m")
    )
    ready = ToolCallReady(id="c", name="look", arguments={})
    call = RunEvent(thread_id=THREAD, run_id="r", at_ms=1, seq=2, ahead=True, event=ready)
    turn = StepSnapshot(message_id="m", text="I look.", calls=(("c", "look", "{}"),))
    standing = Standing(epoch=1, n=9, seq=0, run_id="r", ahead=(start, call), turn=turn)
    given = [told.event for told in Place(THREAD).standing(standing)]
    assert given == [start.event, turn, ready]
