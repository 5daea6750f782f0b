"""The commit door: what every store of threads must hold, on the one in memory.

Each check takes a store through its contract alone, so that it can be asked of other stores, too.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from awaken.codec import dumps
from awaken.contract.commits import (
    CallEntry,
    CallPhase,
    Commits,
    Fence,
    RunQuery,
    ThreadCommit,
    call_key,
)
from awaken.domain.event import AgentEvent, RunEvent, StepEnd, StepStart
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message
from awaken.domain.run import MessageSeqRange, PersistedState, RunMessageOutput, RunRecord
from awaken.errors import InvalidRecord, StaleFence, StoreError, VersionConflict
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> Commits:
    return MemoryStore()


def says(*words: str) -> tuple[Message, ...]:
    return tuple(Message.user(word, id=f"m-{word}") for word in words)


def record(run_id: str, thread_id: str = "t", **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "thread_id": thread_id,
        "agent_id": "agent",
        "status": RunStatus.RUNNING,
        "created_at": 1,
        "updated_at": 1,
    }
    return RunRecord(**(fields | changes))


def event(kind: AgentEvent) -> RunEvent:
    return RunEvent(thread_id="t", run_id="r", at_ms=1, event=kind)


def raw(**values: Any) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(dumps(value)) for name, value in values.items()}


async def texts(store: Commits, thread: str = "t", **page: Any) -> list[str]:
    return [message.text() for message in await store.load_messages(thread, **page)]


async def everything(store: Commits) -> list[Any]:
    """All that can be read of thread `t` and runs `r` and `other`."""
    return [
        await store.load_thread("t"),
        list(await store.load_messages("t")),
        list(await store.load_events("t")),
        await store.load_thread_state("t"),
        await store.latest_run("t"),
        list(await store.list_runs(RunQuery())),
        [await store.load_run(run) for run in ("r", "other")],
        [await store.load_run_state(run) for run in ("r", "other")],
        [list(await store.load_calls(run)) for run in ("r", "other")],
    ]


# -- appending --------------------------------------------------------------------------------


async def test_a_commit_appends_behind_what_is_there(store: Commits) -> None:
    """Design §4: the messages, and the expected length of the log."""
    first = await store.commit(
        ThreadCommit(thread_id="t", expected_length=0, messages=says("a", "b"))
    )
    second = await store.commit(ThreadCommit(thread_id="t", expected_length=2, messages=says("c")))

    assert (first.length, second.length) == (2, 3)
    assert await texts(store) == ["a", "b", "c"]


async def test_threads_are_apart(store: Commits) -> None:
    await store.commit(ThreadCommit(thread_id="t", expected_length=0, messages=says("a")))
    await store.commit(ThreadCommit(thread_id="u", expected_length=0, messages=says("b")))

    assert await texts(store, "t") == ["a"]
    assert await texts(store, "u") == ["b"]


async def test_what_nobody_wrote_is_absent(store: Commits) -> None:
    assert await store.load_thread("ghost") is None
    assert await store.load_run("ghost") is None
    assert await store.latest_run("ghost") is None
    assert list(await store.load_messages("ghost")) == []
    assert list(await store.load_records("ghost")) == []
    assert list(await store.load_events("ghost")) == []
    assert list(await store.load_calls("ghost")) == []
    assert list(await store.list_runs(RunQuery())) == []
    assert await store.load_thread_state("ghost") == PersistedState()
    assert await store.load_run_state("ghost") == PersistedState()


FULL: dict[str, Any] = {
    "messages": says("new"),
    "run": record("r", status=RunStatus.DONE, updated_at=9),
    "run_state": raw(count=2),
    "thread_state": raw(mood="good"),
    "events": (event(StepEnd()),),
    "calls": (
        CallEntry(key="m:0", run_id="r", call_id="c", tool_name="t", phase=CallPhase.SUCCEEDED),
    ),
    "parent_thread_id": "parent",
    "at_ms": 99,
}


async def filled(store: Commits) -> None:
    """A thread with one of everything, at epoch 5."""
    await store.commit(
        ThreadCommit(
            thread_id="t",
            expected_length=0,
            messages=says("old"),
            run=record("r"),
            run_state=raw(count=1),
            thread_state=raw(mood="fair"),
            events=(event(StepStart(message_id="m")),),
            calls=(
                CallEntry(
                    key="m:0",
                    run_id="r",
                    call_id="c",
                    tool_name="t",
                    phase=CallPhase.INTENT,
                    arguments={"n": 1},
                ),
            ),
            at_ms=10,
            fence=Fence(owner="me", epoch=5),
        )
    )
    await store.commit(
        ThreadCommit(thread_id="elsewhere", expected_length=0, run=record("other", "elsewhere"))
    )


REFUSED: dict[str, tuple[dict[str, Any], type[StoreError]]] = {
    "too short": ({"expected_length": 0}, VersionConflict),
    "too long": ({"expected_length": 2}, VersionConflict),
    "an older owner": ({"fence": Fence(owner="old", epoch=4)}, StaleFence),
    "a run of another thread": ({"run": record("other")}, InvalidRecord),
    "a record of another thread": ({"run": record("r", "elsewhere")}, InvalidRecord),
    "state without a record": ({"run": None, "calls": ()}, InvalidRecord),
    "calls without a record": ({"run": None, "run_state": {}}, InvalidRecord),
    "a new owner's wrong record": (
        {"run": record("other"), "fence": Fence(owner="new", epoch=9)},
        InvalidRecord,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_commit_writes_nothing(case: str, store: Commits) -> None:
    """Design §4: all of it, or none; afterwards the store goes on as if it had never come."""
    changes, error = REFUSED[case]
    await filled(store)
    before = await everything(store)
    commit = ThreadCommit(**({"thread_id": "t", "expected_length": 1, **FULL} | changes))

    with pytest.raises(error):
        await store.commit(commit)

    assert await everything(store) == before
    still_mine = Fence(owner="me", epoch=5)
    await store.commit(
        ThreadCommit(thread_id="t", expected_length=1, messages=says("mine"), fence=still_mine)
    )
    assert await texts(store) == ["old", "mine"]


async def test_a_version_conflict_says_how_long_the_log_is(store: Commits) -> None:
    """02 §3.2: `version conflict: expected {e}, actual {a}`."""
    await store.commit(ThreadCommit(thread_id="t", expected_length=0, messages=says("a", "b")))

    with pytest.raises(VersionConflict, match="version conflict: expected 1, actual 2") as lost:
        await store.commit(ThreadCommit(thread_id="t", expected_length=1, messages=says("c")))
    assert (lost.value.thread_id, lost.value.expected, lost.value.actual) == ("t", 1, 2)


async def test_a_refused_first_commit_makes_no_thread(store: Commits) -> None:
    with pytest.raises(VersionConflict):
        await store.commit(ThreadCommit(thread_id="t", expected_length=3, messages=says("a")))

    assert await store.load_thread("t") is None


async def test_a_fence_keeps_older_owners_out(store: Commits) -> None:
    """Design §4: who may write this thread now; the error names both epochs."""

    async def write(epoch: int, length: int, word: str) -> None:
        await store.commit(
            ThreadCommit(
                thread_id="t",
                expected_length=length,
                messages=says(word),
                fence=Fence(owner=f"owner {epoch}", epoch=epoch),
            )
        )

    await write(1, 0, "a")
    await write(2, 1, "b")
    with pytest.raises(StaleFence, match=r"'t' is owned at epoch 2.*holds 1.*stop writing"):
        await write(1, 2, "c")
    await write(2, 2, "d")

    assert await texts(store) == ["a", "b", "d"]


# -- reading ----------------------------------------------------------------------------------

PAGES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["a", "b", "c", "d"]),
    ({"after": 1}, ["b", "c", "d"]),
    ({"limit": 2}, ["a", "b"]),
    ({"after": 1, "limit": 2}, ["b", "c"]),
    ({"after": 3, "limit": 9}, ["d"]),
    ({"after": 4}, []),
    ({"after": 99}, []),
    ({"limit": 0}, []),
]


@pytest.mark.parametrize(("page", "expected"), PAGES)
async def test_messages_and_records_are_read_in_pages(
    page: dict[str, Any], expected: list[str], store: Commits
) -> None:
    """From position `after` + 1; records carry their place."""
    await store.commit(ThreadCommit(thread_id="t", expected_length=0, messages=says("a", "b")))
    await store.commit(ThreadCommit(thread_id="t", expected_length=2, messages=says("c", "d")))

    assert await texts(store, **page) == expected
    records = await store.load_records("t", **page)
    assert [entry.message.text() for entry in records] == expected
    assert [entry.seq for entry in records] == [" abcd".index(word) for word in expected]
    assert [entry.message_id for entry in records] == [f"m-{word}" for word in expected]


async def test_events_are_numbered_without_gaps(store: Commits) -> None:
    """Design §8: `seq` is given at commit, over all commits of the thread."""
    first = await store.commit(
        ThreadCommit(
            thread_id="t", expected_length=0, events=(event(StepStart()), event(StepEnd()))
        )
    )
    none = await store.commit(ThreadCommit(thread_id="t", expected_length=0))
    third = await store.commit(
        ThreadCommit(thread_id="t", expected_length=0, events=(event(StepStart(message_id="z")),))
    )

    assert (first.first_event_seq, none.first_event_seq, third.first_event_seq) == (1, 3, 3)
    events = await store.load_events("t")
    assert [found.seq for found in events] == [1, 2, 3]
    assert events[2].event == StepStart(message_id="z")


@pytest.mark.parametrize(
    ("page", "seqs"),
    [({}, [1, 2, 3]), ({"after": 1}, [2, 3]), ({"after": 1, "limit": 1}, [2]), ({"after": 3}, [])],
)
async def test_events_are_read_after_a_cursor(
    page: dict[str, Any], seqs: list[int], store: Commits
) -> None:
    for _ in range(3):
        await store.commit(
            ThreadCommit(thread_id="t", expected_length=0, events=(event(StepEnd()),))
        )

    assert [found.seq for found in await store.load_events("t", **page)] == seqs


async def test_a_run_is_read_with_its_state_and_its_messages(store: Commits) -> None:
    """Design §8: scalars are stored; state and `output.message_ids` are assembled on reading."""
    mine = [message.mark_produced_by("r", 0) for message in says("mine", "too")]
    output = RunMessageOutput(thread_id="t", range=MessageSeqRange.new(2, 4))
    await store.commit(
        ThreadCommit(
            thread_id="t",
            expected_length=0,
            messages=(*says("input"), mine[0], *says("somebody's"), mine[1]),
            run=record("r", output=output),
            run_state=raw(count=1, gone=0),
            thread_state=raw(mood="fair"),
        )
    )
    await store.commit(
        ThreadCommit(
            thread_id="t", expected_length=4, run=record("r", output=output), run_state=raw(count=2)
        )
    )

    run = await store.load_run("r")

    assert run is not None
    assert run.output is not None
    assert run.output.range == MessageSeqRange.new(2, 4)
    assert run.output.message_ids == ("m-mine", "m-too")
    assert run.state is not None
    assert run.state.extensions == {"count": 2, "gone": 0, "mood": "fair"}
    assert (await store.load_run_state("r")).extensions == {"count": 2, "gone": 0}
    assert (await store.load_thread_state("t")).extensions == {"mood": "fair"}
    latest = await store.latest_run("t")
    assert latest == run


async def test_state_keys_nobody_names_stay(store: Commits) -> None:
    """Design §4: a commit touches the keys it names; thread state outlives its runs."""
    for run, state in (("r1", raw(a=1, b=1)), ("r2", raw(b=2))):
        await store.commit(
            ThreadCommit(
                thread_id="t", expected_length=0, run=record(run), thread_state=state, run_state={}
            )
        )

    assert (await store.load_thread_state("t")).extensions == {"a": 1, "b": 2}


async def test_the_latest_run_is_the_one_written_last(store: Commits) -> None:
    """02 §3.2: though both say the same second."""
    for run in ("r1", "r2", "r1"):
        await store.commit(ThreadCommit(thread_id="t", expected_length=0, run=record(run)))
    await store.commit(ThreadCommit(thread_id="u", expected_length=0, run=record("r9", "u")))

    latest = await store.latest_run("t")

    assert latest is not None
    assert latest.run_id == "r1"


QUERIES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["r4", "r3", "r2", "r1"]),
    ({"thread_id": "t"}, ["r3", "r1"]),
    ({"agent_id": "b"}, ["r4", "r2"]),
    ({"status": RunStatus.DONE}, ["r2", "r1"]),
    ({"thread_id": "t", "status": RunStatus.DONE}, ["r1"]),
    ({"thread_id": "ghost"}, []),
    ({"limit": 2}, ["r4", "r3"]),
    ({"before": "r3"}, ["r2", "r1"]),
    ({"before": "r4", "limit": 1}, ["r3"]),
    ({"before": "r1"}, []),
    ({"before": "r3", "agent_id": "a"}, ["r1"]),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
async def test_runs_are_listed_newest_first(
    query: dict[str, Any], expected: list[str], store: Commits
) -> None:
    """`before` is the last run of the page before."""
    for run_id, thread, agent, status in (
        ("r1", "t", "a", RunStatus.DONE),
        ("r2", "u", "b", RunStatus.DONE),
        ("r3", "t", "a", RunStatus.RUNNING),
        ("r4", "u", "b", RunStatus.WAITING),
    ):
        run = record(run_id, thread, agent_id=agent, status=status)
        await store.commit(ThreadCommit(thread_id=thread, expected_length=0, run=run))

    assert [run.run_id for run in await store.list_runs(RunQuery(**query))] == expected


# -- the head of a thread ---------------------------------------------------------------------

HEADS: list[tuple[list[tuple[str, RunStatus]], tuple[str, str | None, str | None]]] = [
    ([("r1", RunStatus.CREATED)], ("r1", "r1", None)),
    ([("r1", RunStatus.RUNNING)], ("r1", "r1", "r1")),
    ([("r1", RunStatus.WAITING)], ("r1", "r1", None)),
    ([("r1", RunStatus.DONE)], ("r1", None, None)),
    ([("r1", RunStatus.RUNNING), ("r1", RunStatus.DONE)], ("r1", None, None)),
    ([("r1", RunStatus.RUNNING), ("r1", RunStatus.WAITING)], ("r1", "r1", None)),
    ([("r1", RunStatus.WAITING), ("r2", RunStatus.DONE)], ("r2", "r1", None)),
    ([("r1", RunStatus.RUNNING), ("r2", RunStatus.DONE)], ("r2", "r1", "r1")),
    ([("r1", RunStatus.WAITING), ("r2", RunStatus.RUNNING)], ("r2", "r2", "r2")),
]


@pytest.mark.parametrize(("written", "expected"), HEADS)
async def test_a_threads_head_follows_its_runs(
    written: list[tuple[str, RunStatus]],
    expected: tuple[str, str | None, str | None],
    store: Commits,
) -> None:
    """02 §3.2: latest always; created and waiting open, running active too, done clears its own."""
    for run_id, status in written:
        run = record(run_id, status=status)
        await store.commit(ThreadCommit(thread_id="t", expected_length=0, run=run))

    thread = await store.load_thread("t")

    assert thread is not None
    assert (thread.latest_run_id, thread.open_run_id, thread.active_run_id) == expected


async def test_a_threads_head_counts_and_dates(store: Commits) -> None:
    """02 §3.2: timestamps in milliseconds; the parent is set once."""
    for length, at_ms, parent in ((0, 100, None), (1, 200, "p"), (2, 300, "q")):
        await store.commit(
            ThreadCommit(
                thread_id="t",
                expected_length=length,
                messages=says(str(length)),
                at_ms=at_ms,
                parent_thread_id=parent,
            )
        )

    thread = await store.load_thread("t")

    assert thread is not None
    assert (thread.id, thread.message_count) == ("t", 3)
    assert (thread.created_at, thread.updated_at) == (100, 300)
    assert thread.parent_thread_id == "p"
    assert thread.latest_run_id is None


# -- the call ledger --------------------------------------------------------------------------


async def test_the_ledger_gives_the_latest_entry_of_each_call(store: Commits) -> None:
    """Design §8: keyed by message and index; an outcome keeps the arguments of its intent."""

    def entry(index: int, phase: CallPhase, arguments: Any = None) -> CallEntry:
        return CallEntry(
            key=call_key("m", index),
            run_id="r",
            call_id="same",
            tool_name="echo",
            phase=phase,
            arguments=arguments,
        )

    for calls in (
        (entry(0, CallPhase.INTENT, {"n": 0}), entry(1, CallPhase.INTENT, {"n": 1})),
        (entry(1, CallPhase.SUSPENDED),),
        (entry(1, CallPhase.SUCCEEDED),),
    ):
        await store.commit(
            ThreadCommit(thread_id="t", expected_length=0, run=record("r"), calls=calls)
        )

    assert list(await store.load_calls("r")) == [
        entry(0, CallPhase.INTENT, {"n": 0}),
        entry(1, CallPhase.SUCCEEDED, {"n": 1}),
    ]


async def test_a_page_that_was_read_does_not_grow(store: Commits) -> None:
    """What a reader holds is its own."""
    await filled(store)
    messages = await store.load_messages("t")
    events, calls = await store.load_events("t"), await store.load_calls("r")

    await store.commit(ThreadCommit(**{"thread_id": "t", "expected_length": 1, **FULL}))

    assert (len(messages), len(events)) == (1, 1)
    assert [call.phase for call in calls] == [CallPhase.INTENT]
