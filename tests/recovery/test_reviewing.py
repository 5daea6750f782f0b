"""The checks of the crash matrix find what they are there to find."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from awaken.codec import Json, digest
from awaken.core.event import RunEvent, StepEnd
from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.message import Message, ToolCall
from awaken.core.run import RunRecord, RunRequestSnapshot
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.testing.chaos import (
    Damage,
    Note,
    NoteKind,
    ThreadDump,
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


WHOLE = ThreadDump(
    thread_id="t1",
    messages=(USER, CALLING, CHARGED, SHIPPED, DONE),
    events=(event(1), event(2)),
    calls=(entry(0, "charge", CallPhase.SUCCEEDED), entry(1, "ship", CallPhase.SUCCEEDED)),
    runs=(RUN,),
)


def changed(**fields: object) -> ThreadDump:
    return msgspec.structs.replace(WHOLE, **fields)


def review(final: ThreadDump = WHOLE, *notes: Note, before: ThreadDump | None = None) -> Damage:
    return damage_between([before] if before else [], final, notes, {"charge", "ship"})


def note(kind: NoteKind, name: str = "", key: str = "a1:0", detail: Json = None) -> Note:
    return Note(kind=kind, name=name, key=key, detail=detail)


def committed(
    length: int,
    *messages: Message,
    thread: str = "t1",
    answers: tuple[str, ...] = (),
    sends: tuple[tuple[str, str], ...] = (),
) -> Note:
    marks = [[message.id, digest(message)] for message in messages]
    detail = {"length": length, "messages": marks, "answers": list(answers), "calls": []}
    sent = [list(command) for command in sends]
    return note(NoteKind.COMMIT, thread, detail=detail | {"sends": sent})


def asked(question: str, *messages: Message) -> Note:
    shown = [message.id for message in messages]
    return note(NoteKind.MODEL, "model", detail={"question": question, "messages": shown})


def child(**fields: Any) -> ThreadDump:
    """A thread beneath, whole unless something is said of it."""
    run = msgspec.structs.replace(RUN, run_id="child", thread_id="c1", agent_id="helper")
    messages = (Message.user("Help!", id="cu"), DONE.with_id("ca"))
    return ThreadDump(**{"thread_id": "c1", "messages": messages, "runs": (run,)} | fields)


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
def test_what_was_there_at_a_kill_must_be_there_at_the_end(final: ThreadDump, words: str) -> None:
    assert words in review(final, before=WHOLE).lost


def test_what_a_store_promised_must_be_there() -> None:
    lost = review(WHOLE, committed(6, Message.user("More!", id="u2"))).lost
    assert lost == ("message 6 (u2) was committed and is not there",)


def test_a_model_is_not_asked_again_for_an_answer_that_is_durable() -> None:
    question = asked("history", USER)
    answered = committed(2, USER, CALLING, answers=("a1",))
    assert review(WHOLE, question, question, answered).lost == ()
    again = "model was asked again for an answer that had been committed"
    assert review(WHOLE, question, answered, question).lost == (again,)


def test_an_answer_is_that_of_its_own_threads_question() -> None:
    """Runs ask side by side: that another has its answer says nothing about this one."""
    final = changed(children=(child(),))
    mine, other = asked("mine", USER), asked("other", child().messages[0])
    answered = committed(2, *child().messages, thread="c1", answers=("ca",))
    begun = committed(1, USER)
    assert review(final, begun, other, mine, answered, mine).lost == ()
    again = "model was asked again for an answer that had been committed"
    assert review(final, begun, other, mine, answered, other).lost == (again,)


def test_what_was_sent_to_a_thread_must_come_or_be_on_its_way() -> None:
    note_of_it = committed(1, USER, sends=(("t1", "u1"), ("t1", "u2")))
    assert review(WHOLE, note_of_it).lost == ("message u2 was sent to thread t1 and never came",)
    assert review(changed(unread=("u2",)), note_of_it).lost == ()
    sent = note(NoteKind.SENT, "t9", detail=["u3"])
    assert review(WHOLE, sent).lost == ("message u3 was sent to thread t9 and never came",)


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


def test_what_nobody_reads_is_left_open_unless_its_thread_was_cancelled() -> None:
    assert review(changed(unread=("u2",))).left_open == ("message u2 waits to be read",)
    cancelled = msgspec.structs.replace(RUN, termination_reason=CANCELLED)
    assert review(changed(unread=("u2",), runs=(cancelled,))).left_open == ()


def test_threads_beneath_are_looked_at_like_any_other() -> None:
    running = msgspec.structs.replace(RUN, run_id="child", status=RunStatus.RUNNING)
    shorter = child(messages=child().messages[:1])
    assert not review(changed(children=(child(),)), before=changed(children=(shorter,)))
    assert review(changed(children=(shorter,)), before=changed(children=(child(),))).lost == (
        "message 2 of 2 is gone (thread c1)",
    )
    assert review(before=changed(children=(child(),))).lost == ("thread c1 is gone",)
    torn = child(messages=(CALLING, SHIPPED))
    assert review(changed(children=(torn,))).invalid == (
        "call 'c1' is there 1 times, its result 0 times (thread c1)",
    )
    assert review(changed(children=(child(runs=(running,)),))).left_open == (
        "run child is running (thread c1)",
    )


def test_calls_are_open_wherever_they_were_made_and_so_are_tasks_nobody_can_take_up() -> None:
    """A task's run has the name of the call that started it."""

    def task(resume: Json) -> ThreadDump:
        extras = {"task": {"task_id": "bg_0"}, "resume": resume}
        asked_for = RunRequestSnapshot(origin=RequestOrigin.INTERNAL, request_extras=extras)
        run = msgspec.structs.replace(
            RUN, run_id="a1:0", status=RunStatus.RUNNING, request=asked_for
        )
        return child(runs=(run,))

    intent = entry(1, "ship", CallPhase.INTENT)
    assert changed(children=(child(calls=(intent,)),)).open_calls() == {"a1:1"}
    assert changed(children=(task(None),)).open_calls() == {"a1:0"}
    assert changed(children=(task({"tool": "put"}),)).open_calls() == set()


# -- against the undisturbed run --------------------------------------------------------------


def test_only_calls_that_were_open_at_a_kill_may_have_another_result() -> None:
    told = changed(
        messages=(USER, CALLING, CHARGED, Message.tool("c2", "nobody knows", id="r9"), DONE)
    )
    assert differences(WHOLE, told, {"a1:1"}) == []
    assert differences(WHOLE, told, {"a1:0"}) == [
        "message 4 is tool 'nobody knows', undisturbed tool 'shipped'"
    ]


def test_results_that_hold_ids_or_times_are_not_compared() -> None:
    told = changed(messages=(USER, CALLING, Message.tool("c1", "at noon", id="r1"), SHIPPED, DONE))
    assert differences(WHOLE, told, (), {"charge"}) == []
    assert len(differences(WHOLE, told, (), {"ship"})) == 1


def test_threads_beneath_are_told_apart_by_their_agent_and_order() -> None:
    first, second = child(), child(thread_id="c2", messages=(USER,))
    other = child(thread_id="d1", runs=(RUN,))
    both = changed(children=(first, second, other))
    assert differences(both, changed(children=(other, first, second)), ()) == []
    assert differences(both, changed(children=(first, other)), ()) == [
        "1 threads of helper, undisturbed 2"
    ]
    swapped = changed(children=(second, first, other))
    assert "helper: the log has 1 messages, undisturbed 2" in differences(both, swapped, ())


def told_by_task(result: str, id: str = "a1:0:end") -> Message:
    return Message.internal_user(f'<background-task-event kind="{result}">', id=id)


def test_what_tasks_tell_comes_when_it_comes() -> None:
    """The model may have to say once more what it said; more than that it may not."""
    early = changed(messages=(USER, told_by_task("done"), DONE))
    late = changed(messages=(USER, DONE, told_by_task("done"), DONE.with_id("a3")))
    assert differences(early, late, ()) == []
    assert differences(early, changed(messages=(USER, DONE)), ()) == [
        "tasks told 0 things, undisturbed 1"
    ]
    more = changed(messages=(USER, told_by_task("done"), DONE, Message.assistant("And?")))
    assert differences(early, more, ()) == ["the model sees 3 messages, undisturbed 2"]


def test_only_a_task_that_was_cut_short_may_tell_something_else() -> None:
    well, badly = (changed(messages=(USER, told_by_task(end), DONE)) for end in ("done", "failed"))
    assert differences(well, badly, {"a1:0"}) == []
    (told,) = differences(well, badly, ())
    assert told.startswith('a task told \'<background-task-event kind="failed"')


def test_ids_and_times_make_no_difference() -> None:
    again = changed(
        messages=tuple(message.with_id(f"{message.id}-again") for message in WHOLE.messages)
    )
    assert differences(WHOLE, again, ()) == []
