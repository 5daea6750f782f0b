"""Checks of runs: their records, their state, their call ledgers, and interrupted runs."""

from __future__ import annotations

from msgspec.structs import replace

from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import NATURAL_END
from awaken.core.message import Message
from awaken.core.run import (
    MessageSeqRange,
    PersistedState,
    RunMessageInput,
    RunMessageOutput,
    RunOutcome,
    RunRequestSnapshot,
    RunWaitingState,
    WaitingReason,
)
from awaken.core.store.commits import ORPHANS_EVERY_MS, CallPhase, call_key
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery
from awaken.core.suspension import TicketStatus, ToolCallResume
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    line,
    names,
    raw,
    record,
    says,
    ticket,
    write,
)

check = Suite[StoreCheck]()


# -- records ----------------------------------------------------------------------------------


@check
async def a_run_is_read_with_its_state_and_its_messages(store: Store) -> None:
    """Design §8: scalars are stored; state and `output.message_ids` are assembled on reading."""
    mine = [message.mark_produced_by("r", 0) for message in says("mine", "too")]
    output = RunMessageOutput(thread_id="t", range=MessageSeqRange.new(2, 4))
    run = record("r", output=output)
    await write(
        store,
        messages=(*says("input"), mine[0], *says("somebody's"), mine[1]),
        run=run,
        run_state=raw(count=1, gone=0),
        thread_state=raw(mood="fair"),
    )
    await write(store, run=run, run_state=raw(count=2))

    found = await store.load_run("r")

    assert found is not None
    assert found.output == RunMessageOutput(
        thread_id="t", range=MessageSeqRange.new(2, 4), message_ids=("m-mine", "m-too")
    )
    assert found.state is not None
    assert found.state.extensions == {"count": 2, "gone": 0, "mood": "fair"}
    assert (await store.load_run_state("r")).extensions == {"count": 2, "gone": 0}
    assert (await store.load_thread_state("t")).extensions == {"mood": "fair"}
    assert await store.latest_run("t") == found


@check
async def every_field_of_a_record_comes_back(store: Store) -> None:
    whole = record(
        "r",
        agent_id="äger",
        parent_run_id="parent",
        input=RunMessageInput(
            thread_id="t", range=MessageSeqRange.new(1, 1), trigger_message_ids=("m-a",)
        ),
        status=DONE,
        termination_reason=NATURAL_END,
        final_output="fin\n",
        error_payload={"why": [1, 2.5, None]},
        dispatch_id="d",
        session_id="s",
        transport_request_id="x",
        waiting=RunWaitingState(reason=WaitingReason.USER_INPUT, ticket_ids=("k",), message="hm"),
        outcome=RunOutcome(termination_reason=NATURAL_END, final_output="fin\n"),
        created_at=3,
        started_at=4,
        finished_at=9,
        updated_at=9,
        steps=2,
        input_tokens=10**9,
        output_tokens=7,
        revision=5,
    )
    await write(store, messages=says("a"), run=whole)

    page = await store.list_runs(RunQuery())

    assert page.items == (whole,)
    loaded = await store.load_run("r")
    assert loaded is not None
    assert loaded.state == PersistedState()
    assert (loaded.final_output, loaded.outcome, loaded.revision) == ("fin\n", whole.outcome, 5)


@check
async def lists_and_contexts_leave_out_what_is_put_together_on_reading(store: Store) -> None:
    """Even if the written record had it."""
    given = record(
        "r",
        output=RunMessageOutput(
            thread_id="t", range=MessageSeqRange.new(1, 1), message_ids=("of old",)
        ),
        state=PersistedState(extensions={"of": "old"}),
    )
    await write(store, messages=(says("a")[0].mark_produced_by("r"),), run=given)

    (listed,) = (await store.list_runs(RunQuery())).items
    context = await store.load_context("t")
    loaded = await store.load_run("r")

    assert context is not None
    for bare in (listed, context.open_run):
        assert bare is not None
        assert bare.state is None
        assert bare.output == RunMessageOutput(thread_id="t", range=MessageSeqRange.new(1, 1))
    assert loaded is not None
    assert loaded.output is not None
    assert loaded.output.message_ids == ("m-a",)
    assert loaded.state == PersistedState()


@check
async def the_latest_run_is_the_one_written_last(store: Store) -> None:
    """02 §3.2: even if all have the same second."""
    for run in ("r1", "r2", "r1"):
        await write(store, run=record(run))
    await write(store, "u", run=record("r9", "u"))

    latest = await store.latest_run("t")

    assert latest is not None
    assert latest.run_id == "r1"


# -- state ------------------------------------------------------------------------------------


@check
async def state_keys_that_a_commit_does_not_name_stay(store: Store) -> None:
    """Design §4: a commit touches the keys it names; thread state outlives its runs."""
    await write(store, run=record("r1"), thread_state=raw(a=1, b=1), run_state=raw(x=1, y=1))
    await write(store, run=record("r2"), thread_state=raw(b=2), run_state=raw(x=2))
    await write(store, run=record("r1"), run_state=raw(y=None))

    assert (await store.load_thread_state("t")).extensions == {"a": 1, "b": 2}
    assert (await store.load_run_state("r1")).extensions == {"x": 1, "y": None}
    assert (await store.load_run_state("r2")).extensions == {"x": 2}


@check
async def a_runs_state_hides_the_threads(store: Store) -> None:
    """For other keys, the run sees the current state of the thread."""
    await write(store, run=record("r"), thread_state=raw(k=1, n=1), run_state=raw(k=2))
    await write(store, run=record("s"), thread_state=raw(n=9))

    run = await store.load_run("r")

    assert run is not None
    assert run.state is not None
    assert run.state.extensions == {"k": 2, "n": 9}


@check
async def state_without_a_run_is_written(store: Store) -> None:
    await write(store, thread_state=raw(deep={"list": [1, {"x": "ü"}], "no": None, "pi": 3.25}))

    state = (await store.load_thread_state("t")).extensions
    assert state == {"deep": {"list": [1, {"x": "ü"}], "no": None, "pi": 3.25}}


@check
async def state_is_what_it_became_over_many_commits(store: Store) -> None:
    """Whatever snapshots a store makes to keep reading cheap."""
    for number in range(150):
        name = f"k{number % 7}"
        await write(
            store,
            run=record(f"r{number // 50}"),
            thread_state=raw(**{name: number}),
            run_state=raw(**{name: -number}),
        )

    expected = {f"k{number % 7}": number for number in range(150)}
    assert (await store.load_thread_state("t")).extensions == expected
    for run in range(3):
        mine = {f"k{n % 7}": -n for n in range(150) if n // 50 == run}
        assert (await store.load_run_state(f"r{run}")).extensions == mine


# -- the call ledger --------------------------------------------------------------------------


@check
async def the_ledger_gives_the_latest_entry_of_each_call(store: Store) -> None:
    """Design §8: keyed by message and index; an outcome keeps the arguments of its intent."""
    for calls in (
        (line("m", 1, CallPhase.INTENT, {"n": 1}), line("m", 0, CallPhase.INTENT, {"n": 0})),
        (line("m", 0, CallPhase.SUSPENDED),),
        (line("m", 0, CallPhase.SUCCEEDED), line("m2", 0, CallPhase.UNKNOWN)),
    ):
        await write(store, run=record("r"), calls=calls)

    assert list(await store.load_calls("r")) == [
        line("m", 1, CallPhase.INTENT, {"n": 1}),
        line("m", 0, CallPhase.SUCCEEDED, {"n": 0}),
        line("m2", 0, CallPhase.UNKNOWN),
    ]


@check
async def an_entry_with_arguments_replaces_those_before(store: Store) -> None:
    """Edited arguments are what ran."""
    await write(store, run=record("r"), calls=(line("m", 0, CallPhase.INTENT, {"n": 1}),))
    await write(store, run=record("r"), calls=(line("m", 0, CallPhase.INTENT, {"n": 2}),))
    await write(store, run=record("r"), calls=(line("m", 0, CallPhase.FAILED),))

    (entry,) = await store.load_calls("r")
    assert (entry.phase, entry.arguments) == (CallPhase.FAILED, {"n": 2})


@check
async def a_held_result_is_there_until_the_next_entry(store: Store) -> None:
    result = Message.tool("c1", "done early", id="m-result")
    held = line("m", 1, CallPhase.SUCCEEDED, held=result)
    await write(store, run=record("r"), calls=(held,))
    assert list(await store.load_calls("r")) == [held]

    await write(store, run=record("r"), calls=(line("m", 1, CallPhase.SUCCEEDED),))
    assert list(await store.load_calls("r")) == [line("m", 1, CallPhase.SUCCEEDED)]


@check
async def ledgers_of_runs_are_apart(store: Store) -> None:
    await write(store, run=record("r"), calls=(line("m", 0, CallPhase.INTENT),))
    await write(store, run=record("s"), calls=(line("n", 0, CallPhase.INTENT, run_id="s"),))

    assert [entry.key for entry in await store.load_calls("r")] == [call_key("m", 0)]
    assert [entry.key for entry in await store.load_calls("s")] == [call_key("n", 0)]


# -- interrupted runs -------------------------------------------------------------------------


async def _list_interrupted(store: Store, now_ms: int = 0) -> list[str]:
    return names(await store.list_interrupted(now_ms=now_ms))


@check
async def a_run_whose_owner_gave_it_up_is_interrupted(store: Store) -> None:
    """It is not while its thread has an owner, nor once it is done."""
    for number, name in enumerate(("b", "a")):
        fence = await store.claim(name, at_ms=1)
        run = record(f"run {name}", name, created_at=number)
        await write(store, name, run=run, fence=fence)
        assert f"run {name}" not in await _list_interrupted(store)
        await store.release(fence)

    assert await _list_interrupted(store) == ["run b", "run a"], "oldest first"

    fence = await store.claim("a", at_ms=2)
    assert await _list_interrupted(store) == ["run b"]
    await write(store, "a", run=record("run a", "a", status=DONE), fence=fence, release=True)
    assert await _list_interrupted(store) == ["run b"]


@check
async def interrupted_runs_of_one_thread_can_be_asked_for(store: Store) -> None:
    for name in "ab":
        await write(store, name, run=record(f"run {name}", name))
    await write(store, "c", run=record("run c", "c", status=WAITING))

    found = {
        name: names(await store.list_interrupted(now_ms=0, thread_id=name))
        for name in ("a", "b", "c", "ghost")
    }

    assert found == {"a": ["run a"], "b": ["run b"], "c": [], "ghost": []}


@check
async def a_delegate_that_waits_for_an_ended_run_is_interrupted(store: Store) -> None:
    """No run asks its questions any more. A run that only has a parent may go on waiting."""
    call = RunRequestSnapshot(origin=RequestOrigin.INTERNAL, parent_tool_call_id="c")
    await write(store, run=record("r"))
    delegate = record("d", "d", status=WAITING, parent_run_id="r", request=call)
    await write(store, "d", run=delegate, parent_thread_id="t")
    other = record("o", "o", status=WAITING, parent_run_id="r")
    await write(store, "o", run=other, parent_thread_id="t")

    await write(store, run=record("r", status=WAITING))
    assert await _list_interrupted(store) == []
    await store.lease.has_work(at_ms=0, overdue_ms=0)
    await write(store, run=record("r", status=DONE))

    assert await _list_interrupted(store) == ["d"]
    assert names(await store.list_interrupted(now_ms=0, thread_id="d")) == ["d"]
    assert await store.lease.has_work(at_ms=ORPHANS_EVERY_MS, overdue_ms=0)
    fence = await store.claim("d", at_ms=1)
    assert await _list_interrupted(store) == [], "an owner ends it"
    await write(store, "d", run=replace(delegate, status=DONE), fence=fence, release=True)
    assert await _list_interrupted(store) == []


@check
async def a_run_that_waits_is_interrupted_once_its_ticket_is_past(store: Store) -> None:
    """04/M-4 in spirit: at `expires_at` itself it is not."""
    late = ticket("m:0", expires_at=500)
    whenever = ticket("m:1", asked_at=101)
    await write(store, run=record("r", status=WAITING), tickets=(late, whenever))

    assert [await _list_interrupted(store, now) for now in (0, 500, 501)] == [[], [], ["r"]]
    fence = await store.claim("t", at_ms=600)
    assert await _list_interrupted(store, 700) == []
    await store.release(fence)
    assert await _list_interrupted(store, 700) == ["r"]


@check
async def a_ticket_that_is_no_longer_open_interrupts_no_run(store: Store) -> None:
    """Nor does a ticket of another run."""
    closed = ticket("m:0", expires_at=500, status=TicketStatus.CLOSED)
    answered = ticket("m:1", expires_at=500, asked_at=101)
    await write(store, run=record("r", status=WAITING), tickets=(closed, answered))
    number = await store.decide("t", [("m:1", ToolCallResume.approve())], at_ms=200)
    others = ticket("n:0", run_id="s", expires_at=500, asked_at=102)
    other = record("s", status=WAITING, created_at=2)
    await write(store, run=other, tickets=(others,), acks=(number,))

    assert await _list_interrupted(store, 501) == ["s"]
