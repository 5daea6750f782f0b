"""06/SV-4: a thread with its owner, a bus that drops, repeats and delays, and one reader.

    python tests/runtime/place_machine.py                       20,000 examples, minutes
    python tests/runtime/place_machine.py --examples 1000

At any point the owner dies, or takes back what it sent ahead of a commit that was refused. The
store has everything; `FollowerCursor` must give the reader every durable event once and in order,
and of each answer exactly what the log has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from follow_kit import Reader
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from awaken.core.bus import PublisherState
from awaken.core.event import (
    AgentEvent,
    Error,
    InferenceComplete,
    RunEvent,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallReady,
)
from awaken.core.message import Message, Role, Text
from awaken.core.store.threads import CommitView
from awaken.runtime.live.cursor import Desynchronized, FollowerCursor
from event_kit import as_stored

THREAD = "t"
TOLD, UNHEARD, UNTOLD, DEAD = "told", "no one listened when it was noted", "not yet", "owner dies"
AFTER = (TOLD, TOLD, UNHEARD, UNTOLD, DEAD)
"""What becomes of the last event of a commit that was made."""
DIE, GIVE_UP, OVER, NOTE, END = "dies", "gives up", "says it again", "notes", "ends the step"
GO_ON, CALL = "goes on", "goes on with a call"
MOVES = (DIE, GIVE_UP, GIVE_UP, OVER, NOTE, NOTE, END, GO_ON, GO_ON, CALL, "a", "ab")
"""What the owner does next."""
OK, TWICE, LATE, LOST = "arrives", "arrives twice", "arrives late", "is lost"
FATES = (OK, OK, OK, OK, OK, TWICE, LATE, LOST)
"""What becomes of an event on the bus."""
_replace = msgspec.structs.replace


class Following(RuleBasedStateMachine):
    """A thread with its owner, a bus that cannot be trusted, and one reader.

    `untold` is the last event of a commit that is stored and whose event is not sent yet, `before`
    is where the owner stood before that commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[CommitView] = []
        self.events = 0
        self.messages: dict[str, str] = {}
        self.made = 0
        self.epoch, self.n = 1, 0
        self.is_owned = True
        self.in_flight: list[RunEvent] = []
        self.begun: list[RunEvent] = []
        self.untold: RunEvent | None = None
        self.answer: str | None = None
        self.text = self.kept = ""
        self.is_said = False
        self.before = self.standing()
        self.cursor, self.reader = FollowerCursor(THREAD), Reader()
        self.is_live = False

    # -- the owner ----------------------------------------------------------------------------

    @rule(
        moves=st.lists(
            st.tuples(st.sampled_from(MOVES), st.sampled_from(AFTER)), min_size=1, max_size=6
        )
    )
    def the_owner_works(self, moves: Sequence[tuple[str, str]]) -> None:
        for move, told in moves:
            self.move(move, told)

    def move(self, move: str, told: str) -> None:
        """Do what `move` says, if it can be done now."""
        is_open = self.answer is not None and not self.is_said
        if move == DIE:
            self.another_takes_over()
        elif move == GIVE_UP and self.begun:
            self.a_commit_is_given_up()
        elif move in ("a", "ab") and is_open:
            self.the_model_says(move, is_kept=told == TOLD)
        elif move == OVER and is_open:
            self.the_model_starts_over()
        elif self.untold is not None:
            self.the_last_commit_is_told()
        elif self.is_said and not self.is_owned and told == TOLD:
            self.the_next_owner_tells_the_step_again()
        elif move == NOTE and self.answer is None:
            self.something_is_noted(told)
        elif self.answer is None:
            self.a_step_starts()
        elif self.is_said or move == END:
            self.the_step_ends(told)
        else:
            self.the_answer_is_stored(calls=move == CALL, told=told)

    def send(self, event: RunEvent) -> RunEvent:
        self.n, self.is_owned = self.n + 1, True
        told = _replace(event, live=(self.epoch, self.n))
        self.in_flight.append(told)
        return told

    def made_event(self, event: AgentEvent, seq: int | None = None) -> RunEvent:
        self.made += 1
        return RunEvent(thread_id=THREAD, run_id="r", at_ms=self.made, seq=seq, event=event)

    def begin(self, event: AgentEvent) -> None:
        seq = self.events + len(self.begun) + 1
        self.begun.append(self.send(_replace(self.made_event(event, seq), ahead=True)))

    def commit(self, noted: AgentEvent, told: str, message: Message | None = None) -> None:
        """Store what went ahead, `message`, and `noted`: of errors that listeners hear, two."""
        self.before, self.is_owned = self.standing(), True
        first = self.events + 1
        promised, self.begun = self.begun, []
        self.events += len(promised)
        others = [self.noted(noted)] if isinstance(noted, Error) and told != UNHEARD else []
        last = self.noted(noted)
        self.log.append(
            CommitView(
                position=len(self.log) + 1,
                first_seq=len(self.messages) + 1,
                first_event=first,
                at_ms=self.made,
                run_id="r",
                messages=(message,) if message is not None else (),
                events=(*map(as_stored, promised), *others, last),
            )
        )
        self.kept, self.is_said = "", message is not None
        if message is not None:
            self.messages[message.id or ""] = message.text()
        if isinstance(noted, StepEnd):
            self.answer = None
        for other in others:
            self.send(other)
            self.before = _replace(self.before, n=self.n, seq=other.seq or 0)
        if told == TOLD:
            self.send(last)
        elif told == UNTOLD:
            self.untold = last
        elif told == DEAD:
            self.another_takes_over()

    def noted(self, event: AgentEvent) -> RunEvent:
        self.events += 1
        return self.made_event(event, self.events)

    def the_last_commit_is_told(self) -> None:
        assert self.untold is not None
        self.send(self.untold)
        self.untold = None

    def a_step_starts(self) -> None:
        self.made += 1
        self.answer, self.text = f"m{self.made}", ""
        self.begin(StepStart(message_id=self.answer))

    def the_model_says(self, delta: str, is_kept: bool = False) -> None:
        self.text += delta
        self.send(self.made_event(TextDelta(delta=delta)))
        if is_kept:
            self.kept = self.text

    def the_model_starts_over(self) -> None:
        self.text = self.kept = ""
        self.send(self.made_event(StreamReset(reason="it broke off")))

    def the_answer_is_stored(self, calls: int, told: str) -> None:
        for _ in range(calls):
            self.begin(ToolCallReady(id=f"c{self.made}", name="look", arguments={}))
        said = Message(id=self.answer, role=Role.ASSISTANT, content=(Text(text=self.text),))
        self.commit(InferenceComplete(model="m", duration_ms=1), told, said)

    def the_step_ends(self, told: str) -> None:
        """With its answer, or without, if it was cancelled."""
        self.commit(StepEnd(), told)

    def something_is_noted(self, told: str) -> None:
        self.commit(Error(message="e"), told)

    def another_takes_over(self) -> None:
        """The owner dies, and what it had not stored is lost. The next one answers once it has
        sent or stored something: it tells again of a step that it goes on with."""
        self.epoch, self.n, self.is_owned = self.epoch + 1, 0, False
        self.begun, self.untold = [], None
        if not self.is_said:
            self.answer, self.text, self.kept = None, "", ""

    def the_next_owner_tells_the_step_again(self) -> None:
        stored = [event for view in self.log for event in view.events]
        start = next(e for e in reversed(stored) if isinstance(e.event, StepStart))
        self.send(_replace(start, again=True))

    def a_commit_is_given_up(self) -> None:
        self.begun, self.answer, self.text, self.kept = [], None, "", ""
        lost = StreamReset(reason="it could not be stored", from_seq=self.events + 1)
        self.send(self.made_event(lost))

    # -- the bus and the reader ---------------------------------------------------------------

    def standing(self) -> PublisherState:
        turn = None
        if self.answer is not None:
            text = self.messages[self.answer] if self.is_said else self.text
            turn = StepSnapshot(message_id=self.answer, text=text)
        return PublisherState(
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

    def the_reader_reads_the_store(self) -> None:
        for view in self.log:
            if view.first_event + len(view.events) - 1 > self.cursor.seq:
                self.give(self.cursor.on_commit(view))

    def the_reader_asks_where_the_owner_stands(self, as_before: bool = False) -> None:
        """`as_before` the last commit, if the owner has not counted that yet."""
        if not self.is_owned:
            self.no_owner_answers()
            return
        standing = self.before if as_before and self.untold is not None else self.standing()
        try:
            self.give(self.cursor.on_publisher_state(standing))
        except Desynchronized:
            self.is_live = False
            return
        self.is_live = True
        self.check_the_open_step(standing)
        assert len(self.reader.durable) == standing.seq + len(standing.ahead)

    def the_reader_catches_up(self, as_before: bool = False) -> None:
        self.the_reader_reads_the_store()
        self.the_reader_asks_where_the_owner_stands(as_before)

    @rule(how=st.sampled_from(["catch up", "catch up as before", "read", "ask", "no answer"]))
    def the_reader_looks(self, how: str) -> None:
        if how == "read":
            self.the_reader_reads_the_store()
        elif how == "ask":
            self.the_reader_asks_where_the_owner_stands()
        elif how == "no answer":
            self.no_owner_answers()
        else:
            self.the_reader_catches_up(as_before=how != "catch up")

    def no_owner_answers(self) -> None:
        self.the_reader_reads_the_store()
        self.cursor.on_gap()
        if not self.is_owned:
            self.give(self.cursor.on_owner_gone())
            assert len(self.reader.durable) == self.events
        if self.kept and self.answer is not None:
            self.give(
                self.cursor.on_stored_answer(
                    "r", StepSnapshot(message_id=self.answer, text=self.kept)
                )
            )
        self.is_live = True

    def deliver(self, event: RunEvent) -> None:
        try:
            self.give(self.cursor.on_live_event(event))
        except Desynchronized:
            self.is_live = False
            return
        if event.live == (self.epoch, self.n) and self.untold is None:
            self.check_the_open_step(self.standing())

    def check_the_open_step(self, standing: PublisherState) -> None:
        """The reader has all that the owner has sent."""
        for event in standing.ahead:
            assert self.reader.durable[event.seq or 0] == event
        if standing.turn is not None:
            assert self.reader.texts[standing.turn.message_id] == standing.turn.text

    @precondition(lambda self: bool(self.in_flight))
    @rule(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=8))
    def events_arrive(self, fates: Sequence[str] = (OK,) * 100) -> None:
        if not self.is_live:
            self.the_reader_catches_up()
        arriving, self.in_flight = self.in_flight[: len(fates)], self.in_flight[len(fates) :]
        for event, fate in zip(arriving, fates, strict=False):
            if fate != OK and fate != LOST:
                self.in_flight.append(event)
            if fate != LATE and fate != LOST and self.is_live:
                self.deliver(event)

    # -- what must hold -----------------------------------------------------------------------

    @invariant()
    def the_reader_has_no_event_that_is_not_in_the_log(self) -> None:
        stored = [event for view in self.log for event in view.events]
        for seq in range(1, self.reader.cursor + 1):
            assert self.reader.durable[seq].event == stored[seq - 1].event

    def teardown(self) -> None:
        self.is_owned, self.untold = True, None
        self.the_reader_catches_up()
        self.events_arrive()
        assert self.reader.cursor == self.events
        for message_id, text in self.messages.items():
            assert self.reader.texts[message_id] == text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    examples: int = parser.parse_args().examples
    at_length = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Following, settings=at_length)
    print(f"examples {examples}, readers that missed something 0")


if __name__ == "__main__":
    main()
