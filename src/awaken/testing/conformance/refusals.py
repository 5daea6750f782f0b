"""Checks of refused commits: a commit with one flaw changes nothing, and the store works on."""

from __future__ import annotations

from typing import Any

from awaken.core.event import StepStart
from awaken.core.message import Message, Role, Text, ToolCall
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase, Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import InvalidRecord, Serialization, StaleFence, StoreError, VersionConflict
from awaken.testing.conformance.helpers import (
    DONE,
    StoreCheck,
    Suite,
    event,
    everything,
    expect_error,
    expect_error_without_change,
    line,
    raw,
    record,
    says,
    texts,
    ticket,
    write,
)

check = Suite[StoreCheck]()

CALL = line("m", 0, CallPhase.INTENT, {"n": 1})
CALL_DONE = line("m", 0, CallPhase.SUCCEEDED)


async def _refuses(store: Store, error: type[StoreError], **changes: Any) -> None:
    """Check that a commit with data of every kind and one flaw is refused and changes nothing."""
    await write(
        store,
        messages=says("old"),
        run=record("r"),
        run_state=raw(count=1),
        thread_state=raw(mood="fair"),
        events=(event(StepStart(message_id="m")),),
        calls=(CALL,),
        tickets=(ticket(),),
        at_ms=10,
    )
    await write(store, "elsewhere", run=record("other", "elsewhere"), at_ms=11)
    good: dict[str, Any] = {
        "thread_id": "t",
        "expected_length": 1,
        "messages": says("new"),
        "run": record("r", status=DONE, updated_at=9),
        "run_state": raw(count=2),
        "thread_state": raw(mood="good"),
        "events": (event(),),
        "calls": (CALL_DONE,),
        "tickets": (ticket("m:1"),),
        "sends": (ThreadCommand(thread_id="elsewhere", kind=CommandKind.CANCEL),),
        "parent_thread_id": "elsewhere",
        "at_ms": 99,
    }

    await expect_error_without_change(store, error, store.commit(ThreadCommit(**(good | changes))))

    committed = await store.commit(ThreadCommit(**good))
    assert (committed.length, committed.first_event_seq) == (2, 2)
    assert await texts(store) == ["old", "new"]
    assert len(await store.load_commands("elsewhere")) == 1


@check
async def a_log_that_is_longer_than_expected_is_not_written(store: Store) -> None:
    """04/S-1, 04/S-6: a stale length is a version conflict, and earlier data stays intact."""
    await _refuses(store, VersionConflict, expected_length=0)


@check
async def a_log_that_is_shorter_than_expected_is_not_written(store: Store) -> None:
    """04/S-1."""
    await _refuses(store, VersionConflict, expected_length=2)


@check
async def a_version_conflict_says_how_long_the_log_is(store: Store) -> None:
    """02 §3.2: `version conflict: expected {e}, actual {a}`."""
    await write(store, messages=says("a", "b"))

    lost = await expect_error(VersionConflict, write(store, expected_length=1, messages=says("c")))

    assert str(lost) == "version conflict: expected 1, actual 2"
    assert (lost.thread_id, lost.expected, lost.actual) == ("t", 1, 2)


@check
async def a_refused_first_commit_makes_no_thread(store: Store) -> None:
    """04/S-6."""
    operation = write(store, expected_length=3, messages=says("a"), run=record("r"))
    await expect_error_without_change(store, VersionConflict, operation)

    assert await store.load_thread("t") is None
    assert await store.load_run("r") is None


@check
async def a_run_of_another_thread_is_refused(store: Store) -> None:
    await _refuses(store, InvalidRecord, run=record("other"), calls=(), run_state={})


@check
async def a_record_that_names_another_thread_is_refused(store: Store) -> None:
    await _refuses(store, InvalidRecord, run=record("r", "elsewhere"))


@check
async def run_state_without_a_run_is_refused(store: Store) -> None:
    await _refuses(store, InvalidRecord, run=None, calls=())


@check
async def calls_without_a_run_are_refused(store: Store) -> None:
    await _refuses(store, InvalidRecord, run=None, run_state={})


@check
async def a_message_without_an_id_is_refused(store: Store) -> None:
    nameless = Message(role=Role.USER, content=(Text(text="who?"),))
    await _refuses(store, InvalidRecord, messages=(*says("named"), nameless))


@check
async def a_message_with_an_empty_id_is_refused(store: Store) -> None:
    nameless = Message(id="", role=Role.USER, content=(Text(text="who?"),))
    await _refuses(store, InvalidRecord, messages=(nameless,))


@check
async def a_message_that_is_twice_in_a_commit_is_refused(store: Store) -> None:
    """04/S-2, within one commit; the writer sees to unique ids over the whole log."""
    await _refuses(store, InvalidRecord, messages=(*says("a", "b"), *says("a")))


@check
async def decisions_that_are_sent_are_refused(store: Store) -> None:
    """`decide` must be used, so that no answer bypasses the check of its ticket."""
    forged = ThreadCommand(
        thread_id="elsewhere",
        kind=CommandKind.DECISIONS,
        decisions=(("m:0", ToolCallResume.approve()),),
    )
    fine = ThreadCommand(thread_id="elsewhere", kind=CommandKind.CANCEL)
    await _refuses(store, InvalidRecord, sends=(fine, forged))
    await expect_error_without_change(
        store, InvalidRecord, write(store, "new", sends=(fine, forged))
    )


@check
async def a_parent_that_does_not_exist_is_refused(store: Store) -> None:
    """04/S-3."""
    await _refuses(store, InvalidRecord, parent_thread_id="ghost")


@check
async def a_thread_is_not_its_own_parent(store: Store) -> None:
    """04/S-3."""
    await _refuses(store, InvalidRecord, parent_thread_id="t")
    await expect_error(InvalidRecord, write(store, "new", parent_thread_id="new"))
    assert await store.load_thread("new") is None


@check
async def a_value_that_cannot_be_written_is_refused_or_kept_as_it_is(store: Store) -> None:
    """A store in memory may keep any object; the others raise `Serialization`."""
    await write(store, messages=says("a"), run=record("r"))
    call = ToolCall(id="c", name="tool", arguments={"of": object()})
    odd = Message.assistant_with_tool_calls("", [call], id="odd")
    before = await everything(store)
    try:
        await write(store, messages=(odd,), run=record("r", status=DONE), events=(event(),))
    except Serialization:
        assert await everything(store) == before
    else:
        assert (await store.load_messages("t"))[-1] == odd
    await write(store, messages=says("z"), run=record("r", status=DONE))
    assert (await texts(store))[-1] == "z"


@check
async def a_fence_that_no_claim_returned_is_refused(store: Store) -> None:
    """Also if the thread has no owner: such a fence is out of date."""
    forged = Fence(thread_id="t", owner=store.owner, epoch=1_000_000)
    await _refuses(store, StaleFence, fence=forged)


@check
async def no_thread_becomes_its_own_ancestor(store: Store) -> None:
    """04/S-3: 04 §2.1, no cycle."""
    await write(store, "a")
    await write(store, "b", parent_thread_id="a")
    await write(store, "c", parent_thread_id="b")

    operation = write(store, "a", parent_thread_id="c", messages=says("x"))
    await expect_error_without_change(store, InvalidRecord, operation)


@check
async def a_ticket_is_of_the_thread_that_is_written(store: Store) -> None:
    """Also if a correct ticket comes before it."""
    stray = ticket("m:9", thread_id="elsewhere")
    await expect_error_without_change(store, InvalidRecord, write(store, "new", tickets=(stray,)))
    await _refuses(store, InvalidRecord, tickets=(ticket("m:8"), stray))
