"""Writing: all of a commit or none of it, behind what is there."""

from __future__ import annotations

from typing import Any

from awaken.contract.commits import CallPhase, Fence, ThreadCommit
from awaken.contract.store import Store
from awaken.domain.event import StepEnd, StepStart
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, Role, Text, ToolCall
from awaken.domain.run import PersistedState
from awaken.errors import InvalidRecord, Serialization, StaleFence, StoreError, VersionConflict
from awaken.testing.conformance.making import (
    DONE,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    event,
    everything,
    line,
    raw,
    record,
    refused,
    refused_in_vain,
    says,
    texts,
    ticket,
    write,
)

check = Suite[StoreCheck]()


# -- appending --------------------------------------------------------------------------------


@check
async def a_commit_appends_behind_what_is_there(store: Store) -> None:
    first = await store.commit(
        ThreadCommit(thread_id="t", expected_length=0, messages=says("a", "b"))
    )
    second = await store.commit(ThreadCommit(thread_id="t", expected_length=2, messages=says("c")))

    assert (first.length, second.length) == (2, 3)
    assert await texts(store) == ["a", "b", "c"]


@check
async def threads_are_apart(store: Store) -> None:
    await write(store, "t", messages=says("a"), thread_state=raw(mood="good"))
    await write(store, "u", messages=says("b"), events=(event(thread_id="u"),))

    assert (await texts(store, "t"), await texts(store, "u")) == (["a"], ["b"])
    assert await store.load_thread_state("u") == PersistedState()
    assert list(await store.load_events("t")) == []


@check
async def what_nobody_wrote_is_absent(store: Store) -> None:
    """04/S-4: nothing, not an error and not something empty."""
    assert await store.load_thread("ghost") is None
    assert await store.load_context("ghost") is None
    assert await store.load_run("ghost") is None
    assert await store.latest_run("ghost") is None
    for nothing in (
        await store.load_messages("ghost"),
        await store.load_records("ghost"),
        await store.load_events("ghost"),
        await store.load_calls("ghost"),
        await store.load_commands("ghost"),
        await all_threads(store),
        await all_runs(store),
        await all_tickets(store),
        await store.list_interrupted(now_ms=10**15),
    ):
        assert list(nothing) == []
    assert await store.load_thread_state("ghost") == PersistedState()
    assert await store.load_run_state("ghost") == PersistedState()


@check
async def an_empty_commit_makes_a_thread_and_dates_it(store: Store) -> None:
    first = await write(store, at_ms=5)
    second = await write(store, at_ms=9)

    thread = await store.load_thread("t")
    assert thread is not None
    assert (first.length, first.first_event_seq, second.first_event_seq) == (0, 1, 1)
    assert (thread.created_at, thread.updated_at) == (5, 9)
    assert (thread.message_count, thread.event_count) == (0, 0)


@check
async def messages_and_records_are_read_in_pages(store: Store) -> None:
    """From position `after` + 1; records carry their place."""
    mine = says("c")[0].mark_produced_by("r", 3)
    await write(store, messages=says("a", "b"))
    await write(store, messages=(mine, *says("d")))
    pages: list[tuple[dict[str, Any], str]] = [
        ({}, "abcd"),
        ({"after": 1}, "bcd"),
        ({"limit": 2}, "ab"),
        ({"after": 1, "limit": 2}, "bc"),
        ({"after": 3, "limit": 9}, "d"),
        ({"after": 4}, ""),
        ({"after": 99}, ""),
        ({"limit": 0}, ""),
    ]
    for page, expected in pages:
        assert await texts(store, **page) == list(expected), page
        records = await store.load_records("t", **page)
        assert [entry.message.text() for entry in records] == list(expected), page
        assert [entry.seq for entry in records] == [" abcd".index(word) for word in expected]
        assert [entry.message_id for entry in records] == [f"m-{word}" for word in expected]
        assert {entry.thread_id for entry in records} <= {"t"}
    third = (await store.load_records("t", after=2, limit=1))[0]
    assert (third.produced_by_run_id, third.step_index, third.message) == ("r", 3, mine)


@check
async def events_are_numbered_without_gaps(store: Store) -> None:
    """Design §8: `seq` is given at commit, over all commits of the thread."""
    first = await write(store, events=(event(StepStart()), event(StepEnd())))
    none = await write(store, messages=says("a"))
    third = await write(store, events=(event(StepStart(message_id="z")),))

    assert (first.first_event_seq, none.first_event_seq, third.first_event_seq) == (1, 3, 3)
    events = await store.load_events("t")
    assert [found.seq for found in events] == [1, 2, 3]
    assert events[2].event == StepStart(message_id="z")
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.event_count == 3


@check
async def events_are_read_after_a_cursor(store: Store) -> None:
    for _ in range(2):
        await write(store, events=(event(), event()))
    pages: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 2, 3, 4]),
        ({"after": 1}, [2, 3, 4]),
        ({"after": 1, "limit": 2}, [2, 3]),
        ({"after": 2, "limit": 1}, [3]),
        ({"after": 4}, []),
        ({"after": 99}, []),
        ({"limit": 0}, []),
    ]
    for page, seqs in pages:
        assert [found.seq for found in await store.load_events("t", **page)] == seqs, page


@check
async def a_page_that_was_read_does_not_grow(store: Store) -> None:
    """What a reader holds is its own."""
    await write(store, messages=says("a"), events=(event(),), run=record("r"), calls=(CALL,))
    messages, events = await store.load_messages("t"), await store.load_events("t")
    calls, context = await store.load_calls("r"), await store.load_context("t")

    await write(store, messages=says("b"), events=(event(),), run=record("r"), calls=(CALL_DONE,))

    assert (len(messages), len(events)) == (1, 1)
    assert [call.phase for call in calls] == [CallPhase.INTENT]
    assert context is not None
    assert len(context.messages) == 1


# -- refusals ---------------------------------------------------------------------------------

CALL = line("m", 0, CallPhase.INTENT, {"n": 1})
CALL_DONE = line("m", 0, CallPhase.SUCCEEDED)


async def _refuses(store: Store, error: type[StoreError], **changes: Any) -> None:
    """A commit with one of everything and one flaw is refused, and the store goes on without it."""
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
        "parent_thread_id": "elsewhere",
        "at_ms": 99,
    }

    await refused_in_vain(store, error, store.commit(ThreadCommit(**(good | changes))))

    committed = await store.commit(ThreadCommit(**good))
    assert (committed.length, committed.first_event_seq) == (2, 2)
    assert await texts(store) == ["old", "new"]


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

    lost = await refused(VersionConflict, write(store, expected_length=1, messages=says("c")))

    assert str(lost) == "version conflict: expected 1, actual 2"
    assert (lost.thread_id, lost.expected, lost.actual) == ("t", 1, 2)


@check
async def a_refused_first_commit_makes_no_thread(store: Store) -> None:
    """04/S-6."""
    deed = write(store, expected_length=3, messages=says("a"), run=record("r"))
    await refused_in_vain(store, VersionConflict, deed)

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
    """04/S-2, within one commit; ids over the whole log are their maker's business."""
    await _refuses(store, InvalidRecord, messages=(*says("a", "b"), *says("a")))


@check
async def a_parent_that_does_not_exist_is_refused(store: Store) -> None:
    """04/S-3."""
    await _refuses(store, InvalidRecord, parent_thread_id="ghost")


@check
async def a_thread_is_not_its_own_parent(store: Store) -> None:
    """04/S-3."""
    await _refuses(store, InvalidRecord, parent_thread_id="t")
    await refused(InvalidRecord, write(store, "new", parent_thread_id="new"))
    assert await store.load_thread("new") is None


@check
async def a_value_that_cannot_be_written_is_refused_or_kept_as_it_is(store: Store) -> None:
    """A store that writes nothing down may keep any object; the others say `Serialization`."""
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
async def a_fence_nobody_gave_out_is_refused(store: Store) -> None:
    """Also where nobody owns the thread: whoever held that fence has lost it."""
    forged = Fence(thread_id="t", owner=store.owner, epoch=1_000_000)
    await _refuses(store, StaleFence, fence=forged)


# -- the head of a thread ---------------------------------------------------------------------


@check
async def a_threads_head_follows_its_runs(store: Store) -> None:
    """02 §3.2: latest always; created and waiting open, running active too, done clears its own."""
    created, running, waiting, done = RunStatus
    cases: list[tuple[list[tuple[str, RunStatus]], tuple[str, str | None, str | None]]] = [
        ([("a", created)], ("a", "a", None)),
        ([("a", running)], ("a", "a", "a")),
        ([("a", waiting)], ("a", "a", None)),
        ([("a", done)], ("a", None, None)),
        ([("a", running), ("a", done)], ("a", None, None)),
        ([("a", running), ("a", waiting)], ("a", "a", None)),
        ([("a", running), ("a", waiting), ("a", running)], ("a", "a", "a")),
        ([("a", waiting), ("b", done)], ("b", "a", None)),
        ([("a", running), ("b", done)], ("b", "a", "a")),
        ([("a", running), ("b", done), ("a", running)], ("a", "a", "a")),
        ([("a", waiting), ("b", running)], ("b", "b", "b")),
    ]
    for number, (written, expected) in enumerate(cases):
        name = f"t{number}"
        for run, status in written:
            await write(store, name, run=record(f"{run}{number}", name, status=status))
        thread = await store.load_thread(name)
        assert thread is not None
        found = (thread.latest_run_id, thread.open_run_id, thread.active_run_id)
        assert found == tuple(run and f"{run}{number}" for run in expected), written


@check
async def a_threads_head_counts_and_dates(store: Store) -> None:
    """02 §3.2: timestamps in milliseconds; the parent is set once."""
    await write(store, "p")
    await write(store, "q")
    for at_ms, parent in ((100, None), (200, "p"), (300, "q")):
        word = str(at_ms)
        await write(store, messages=says(word), at_ms=at_ms, parent_thread_id=parent)

    thread = await store.load_thread("t")

    assert thread is not None
    assert (thread.id, thread.message_count, thread.event_count) == ("t", 3, 0)
    assert (thread.created_at, thread.updated_at) == (100, 300)
    assert thread.parent_thread_id == "p"
    assert thread.latest_run_id is None
    assert (thread.forked_from, thread.forked_at, thread.owner) == (None, None, None)


@check
async def no_thread_becomes_its_own_ancestor(store: Store) -> None:
    """04/S-3: 04 §2.1, no cycle."""
    await write(store, "a")
    await write(store, "b", parent_thread_id="a")
    await write(store, "c", parent_thread_id="b")

    deed = write(store, "a", parent_thread_id="c", messages=says("x"))
    await refused_in_vain(store, InvalidRecord, deed)
