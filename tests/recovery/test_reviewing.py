"""The checks of the crash matrix find what they are there to find."""

from __future__ import annotations

import msgspec
import pytest

from awaken.codec import Json, digest
from awaken.contract.commits import CallEntry, CallPhase
from awaken.domain.event import RunEvent, StepEnd
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, ToolCall
from awaken.domain.run import RunRecord
from awaken.testing.chaos import (
    Damage,
    Note,
    NoteKind,
    Picture,
    damage_between,
    differences,
    transcript_faults,
)

USER = Message.user("Go!", id="u1")
CALLING = Message.assistant_with_tool_calls(
    "",
    [ToolCall(id="c1", name="charge", arguments={}), ToolCall(id="c2", name="ship", arguments={})],
    id="a1",
)
CHARGED = Message.tool("c1", "charged", id="r1")
SHIPPED = Message.tool("c2", "shipped", id="r2")
DONE = Message.assistant("done", id="a2")
RUN = RunRecord(
    run_id="run", thread_id="t1", agent_id="main", status=RunStatus.DONE, created_at=0, updated_at=0
)


def entry(index: int, tool: str, phase: CallPhase) -> CallEntry:
    return CallEntry(
        key=f"a1:{index}", run_id="run", call_id=f"c{index + 1}", tool_name=tool, phase=phase
    )


def event(seq: int) -> RunEvent:
    return RunEvent(thread_id="t1", run_id="run", at_ms=0, seq=seq, event=StepEnd())


WHOLE = Picture(
    thread_id="t1",
    messages=(USER, CALLING, CHARGED, SHIPPED, DONE),
    events=(event(1), event(2)),
    calls=(entry(0, "charge", CallPhase.SUCCEEDED), entry(1, "ship", CallPhase.SUCCEEDED)),
    runs=(RUN,),
)


def changed(**fields: object) -> Picture:
    return msgspec.structs.replace(WHOLE, **fields)


def review(final: Picture = WHOLE, *notes: Note, before: Picture | None = None) -> Damage:
    return damage_between([before] if before else [], final, notes, {"charge", "ship"})


def note(kind: NoteKind, name: str = "", key: str = "a1:0", detail: Json = None) -> Note:
    return Note(kind=kind, name=name, key=key, detail=detail)


def committed(length: int, *messages: Message, answers: tuple[str, ...] = ()) -> Note:
    marks = [[message.id, digest(message)] for message in messages]
    detail = {"length": length, "messages": marks, "answers": list(answers), "calls": []}
    return note(NoteKind.COMMIT, "t1", detail=detail)


def test_a_thread_that_is_whole_has_no_damage() -> None:
    assert not review(WHOLE, committed(2, USER, CALLING), before=changed(messages=(USER, CALLING)))


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (changed(messages=WHOLE.messages[:2]), "message 3 of 5 is gone"),
        (changed(messages=(USER, CALLING, SHIPPED, CHARGED, DONE)), "message 3 was changed"),
        (changed(events=(event(1),)), "event 2 of 2 is gone"),
        (changed(runs=()), "run run is gone"),
        (
            changed(calls=(WHOLE.calls[0], entry(1, "ship", CallPhase.UNKNOWN))),
            "the outcome of ship was succeeded and is unknown",
        ),
    ],
    ids=["message gone", "message changed", "event gone", "run gone", "outcome changed"],
)
def test_what_was_there_at_a_kill_must_be_there_at_the_end(final: Picture, words: str) -> None:
    assert words in review(final, before=WHOLE).lost


def test_what_a_store_promised_must_be_there() -> None:
    lost = review(WHOLE, committed(6, Message.user("More!", id="u2"))).lost
    assert lost == ("message 6 (u2) was committed and is not there",)


def test_a_model_is_not_asked_again_for_an_answer_that_is_durable() -> None:
    asked = note(NoteKind.MODEL, "model", detail="history")
    answered = committed(2, USER, CALLING, answers=("a1",))
    assert review(WHOLE, asked, asked, answered).lost == ()
    again = "model was asked again for an answer that had been committed"
    assert review(WHOLE, asked, answered, asked).lost == (again,)


def test_a_deed_is_counted_by_what_was_done() -> None:
    once = note(NoteKind.EFFECT, "charge", "a1:0", 7)
    other = note(NoteKind.EFFECT, "charge", "a1:1", 8)
    assert review(WHOLE, once, other).doubled == ()
    assert review(WHOLE, once, once).doubled == ("charge took effect 2 times: 7",)


def test_a_call_is_not_run_again_unless_its_tool_says_that_it_did_not_happen() -> None:
    ran = note(NoteKind.START, "charge")
    assert review(WHOLE, ran, ran).doubled == ("charge ran again in call a1:0",)
    assert review(WHOLE, ran, note(NoteKind.VERIFIED, "charge", detail="False"), ran).doubled == ()
    assert review(WHOLE, ran, note(NoteKind.ASKED, "charge"), ran).doubled == ()


def test_a_tool_that_came_to_its_end_has_happened_whatever_it_says() -> None:
    ended, denied = note(NoteKind.END, "ship"), note(NoteKind.VERIFIED, "ship", detail="False")
    assert review(WHOLE, note(NoteKind.START, "ship"), ended, denied).doubled == (
        "ship had run to its end, and its verify says that it did not happen",
    )


@pytest.mark.parametrize(
    ("messages", "faults"),
    [
        ([USER, CALLING, CHARGED, SHIPPED, DONE], []),
        ([USER, CALLING, CHARGED, DONE], ["call 'c2' has no result"]),
        ([USER, CALLING, CHARGED], ["call 'c2' has no result"]),
        ([USER, CHARGED, DONE], ["the result of 'c1' is not behind its call"]),
        (
            [USER, CALLING, CHARGED, CHARGED, SHIPPED],
            ["the result of 'c1' is not behind its call"],
        ),
        (
            [USER, CALLING, SHIPPED, CHARGED],
            ["the result of 'c2' is not behind its call", "call 'c2' has no result"],
        ),
    ],
    ids=["whole", "no result", "none at the end", "orphan", "twice", "order"],
)
def test_a_transcript_pairs_every_call_with_its_result(
    messages: list[Message], faults: list[str]
) -> None:
    assert transcript_faults(messages) == faults


def test_a_log_with_a_message_or_a_number_twice_is_invalid() -> None:
    assert (
        "message r1 is there 2 times"
        in review(changed(messages=(*WHOLE.messages, CHARGED))).invalid
    )
    assert review(changed(events=(event(1), event(1)))).invalid == ("events are numbered [1, 1]",)


def test_nobody_owns_a_thread_that_is_done_and_no_run_is_open() -> None:
    running = msgspec.structs.replace(RUN, status=RunStatus.RUNNING)
    assert review(changed(runs=(running,))).left_open == ("run run is running",)
    assert review(changed(owner="process 7")).left_open == (
        "the thread is still owned by process 7",
    )


def test_only_calls_that_were_open_at_a_kill_may_have_another_result() -> None:
    told = changed(
        messages=(USER, CALLING, CHARGED, Message.tool("c2", "nobody knows", id="r9"), DONE)
    )
    assert differences(WHOLE, told, {"a1:1"}) == []
    assert differences(WHOLE, told, {"a1:0"}) == [
        "message 4 is tool 'nobody knows', undisturbed tool 'shipped'"
    ]


def test_ids_and_times_make_no_difference() -> None:
    again = changed(
        messages=tuple(message.with_id(f"{message.id}-again") for message in WHOLE.messages)
    )
    assert differences(WHOLE, again, ()) == []
