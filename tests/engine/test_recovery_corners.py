"""Corners of recovery: order, verifying that hangs, forks of open turns, what cannot be kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from crash_stage import Deed, crash, ledger, recovered
from loop_stage import (
    THREAD,
    CheckedModel,
    SlowCommits,
    Stage,
    TestPlugin,
    assert_valid_transcript,
)

from awaken import Agent, Command, Message, PhaseContext, ToolCallContext, ToolCallResume, tool
from awaken.core.event import StepEnd, TextDelta
from awaken.core.inference import ContextWindowPolicy, StopReason
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, Phase, RunStatus
from awaken.core.llm import Stop
from awaken.core.message import as_messages
from awaken.core.state.key import Scope, StateKey
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.store.threads import ThreadContext
from awaken.core.tool_context import Tool
from awaken.engine.call_results import unknown_outcome
from awaken.errors import AgentLoopError, PhaseError, Serialization
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response
from awaken.worker.recovery import Recovery

pytestmark = pytest.mark.anyio

CALL = tool_call_response("", "deed", "c1", {"n": 7})
UNKNOWN = unknown_outcome("deed", "the process ended while the call was under way").model_text()


class Shipping:
    """A tool that keeps which calls of it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        async def ship(ctx: ToolCallContext) -> str:
            """Ship."""
            self.ran.append(ctx.call_id)
            return "shipped"

        self.tool: Tool = ship


# -- order ------------------------------------------------------------------------------------


async def test_one_by_one_nothing_runs_behind_a_call_nobody_knows_of() -> None:
    """02 §5.8: it may not have been charged, so nothing is shipped, as in a run that waits."""
    deed, shipping, store = Deed(recover="ask"), Shipping(), MemoryStore()
    tools = [deed.tool, shipping.tool]
    turn = tool_calls_response("", ("deed", "c1", {"n": 7}), ("ship", "c2", {}))
    dying = Agent("a", model=CheckedModel(turn), tools=tools, sequential=True)

    async with crash(store, dying, deed.begun):
        model = CheckedModel("went on")
        stage = Stage(Agent("a", model=model, tools=tools, sequential=True), store=store)
        assert (await recovered(stage)).suspended
        (ticket,) = await stage.runtime.list_tickets()
        assert (ticket.call_id, shipping.ran) == ("c1", [])
        ended = await stage.resume((ticket.key, ToolCallResume.approve("charged")))

    assert ended.response == "went on"
    assert shipping.ran == []
    heard = [message.text() for message in model.requests[0] if message.tool_call_id]
    assert heard == ["charged", "[Tool execution was interrupted]"]
    assert await ledger(stage) == {"c1": "succeeded", "c2": "failed"}


# -- verifying that hangs ---------------------------------------------------------------------


async def test_a_verify_that_hangs_can_be_cancelled() -> None:
    """01/D-11: a cancel does not wait for somebody else's server."""
    asking, store = asyncio.Event(), MemoryStore()

    async def happened(_: ToolCallContext) -> bool:
        asking.set()
        await asyncio.Event().wait()
        return True

    deed = Deed(verify=happened)
    async with crash(store, Agent("a", model=CheckedModel(CALL), tools=[deed.tool]), deed.begun):
        stage = Stage(Agent("a", model=CheckedModel(), tools=[deed.tool]), store=store)
        (run,) = await stage.runtime.recover()
        await asking.wait()
        assert await stage.runtime.cancel(THREAD)
        result = await run

    assert result.termination == CANCELLED
    assert (await stage.record()).status is RunStatus.DONE
    assert await ledger(stage) == {"c1": "unknown"}
    assert_valid_transcript(await stage.log())


async def test_a_verify_that_hangs_takes_no_longer_than_its_tool_may() -> None:
    """Design §4: who does not say what became of the call in time does not know it."""
    store = MemoryStore()

    async def happened(_: ToolCallContext) -> bool:
        await asyncio.Event().wait()
        return True

    deed = Deed(hangs=0, verify=happened, timeout=0.01)
    hanging = Deed(verify=happened)
    dying = Agent("a", model=CheckedModel(CALL), tools=[hanging.tool])
    async with crash(store, dying, hanging.begun):
        stage = Stage(Agent("a", model=CheckedModel("went on"), tools=[deed.tool]), store=store)
        result = await recovered(stage)

    assert result.response == "went on"
    assert await stage.results() == [UNKNOWN]
    assert await ledger(stage) == {"c1": "unknown"}
    assert deed.keys == []


# -- forks of a turn that is not over ---------------------------------------------------------


class Begun(MemoryStore):
    """Tells when a call has an outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.one_done = asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        committed = await super().commit(commit)
        if any(entry.phase is CallPhase.SUCCEEDED for entry in commit.calls):
            self.one_done.set()
        return committed


@pytest.mark.parametrize("at_event", [False, True], ids=["now", "at its last event"])
@pytest.mark.parametrize("order", [("deed", "ship"), ("ship", "deed")], ids=["held", "in order"])
async def test_a_fork_of_a_turn_that_is_under_way_knows_what_was_begun(
    order: tuple[str, str], at_event: bool
) -> None:
    """Design §4: the model of the fork reads what is done, and that nobody knows of the rest."""
    deed, shipping, store = Deed(), Shipping(), Begun()
    turn = tool_calls_response("on it", *[(name, f"c-{name}", {}) for name in order])
    model = CheckedModel(turn, "I see")
    stage = Stage(Agent("a", model=model, tools=[deed.tool, shipping.tool]), store=store)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run())
        await store.one_done.wait()
        await deed.begun.wait()
        events = await store.load_events(THREAD)
        await stage.runtime.fork(THREAD, at=events[-1].seq if at_event else None, new="f")
        result = await stage.run("what did you do?", thread_id="f")
        task.cancel()

    assert result.response == "I see"
    heard = {m.tool_call_id: m.text() for m in model.requests[1] if m.tool_call_id}
    assert list(heard) == [f"c-{name}" for name in order]
    assert heard["c-ship"] == "shipped"
    assert "it is unknown whether 'deed' took effect" in heard["c-deed"]
    assert len(deed.keys) == len(shipping.ran) == 1
    assert_valid_transcript(await store.load_messages("f"))


# -- a run that is torn down ------------------------------------------------------------------


class Distant(SlowCommits):
    """One that is waited for: a commit may have happened though nobody has heard of it."""

    immediate = False


async def test_a_run_torn_down_in_its_first_commit_says_what_it_read() -> None:
    """Design §8: the record of a run that ended at once still names its own message."""
    store = Distant(slow_at=0)
    stage = Stage(Agent("a", model=CheckedModel("one", "two")), store=store)
    await stage.run("first")
    store.slow_at = store.commits + 1

    task = asyncio.create_task(stage.run("second"))
    async with asyncio.timeout(100):
        await store.written.wait()
        (live,) = stage.engine.active.all()
        assert live.task is not None
        live.task.cancel()
        store.answer.set()
        with suppress(asyncio.CancelledError, AgentLoopError):
            await task

    record = await stage.record()
    assert record.status is RunStatus.DONE
    assert record.input is not None
    read = record.input.range
    assert read is not None
    assert (read.from_seq, read.to_seq) == (1, 3)
    assert [text for _, text in await stage.texts()] == ["first", "one", "second"]


# -- what cannot be kept ----------------------------------------------------------------------


@pytest.fixture
async def sqlite() -> AsyncIterator[SqliteStore]:
    store = SqliteStore(":memory:")
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("deltas", "heard"),
    [
        (("ok \ud83d", "\ude00"), "ok \N{GRINNING FACE}"),
        (("ok \ud83d",), "ok \N{REPLACEMENT CHARACTER}"),
    ],
    ids=["two halves", "one half"],
)
async def test_halves_of_a_character_in_a_stream_are_kept_as_text(
    sqlite: SqliteStore, deltas: tuple[str, ...], heard: str
) -> None:
    """Design §8: a provider may cut a character in two; the run does not break."""
    stream: list[TextDelta | Stop] = [TextDelta(delta=delta) for delta in deltas]
    stream.append(Stop(reason=StopReason.END_TURN))
    stage = Stage(Agent("a", model=ScriptedModel([stream])), store=sqlite)

    result = await stage.run()

    assert (result.response, result.termination) == (heard, NATURAL_END)
    assert await stage.texts() == [("user", "hi"), ("assistant", heard)]


async def test_a_message_that_cannot_be_written_ends_the_run_as_failed(
    sqlite: SqliteStore,
) -> None:
    """Design §8: it would fail again and again; nobody finds the run open."""
    model = CheckedModel()
    stage = Stage(Agent("a", model=model), store=sqlite)

    with pytest.raises(AgentLoopError, match="surrogates"):
        await stage.run("half a \ud83d")

    record = await stage.record()
    assert record.status is RunStatus.DONE
    assert isinstance(record.termination_reason, Failed)
    assert await stage.runtime.recover() == []
    assert model.calls == 0


class Picky(MemoryStore):
    """A store that is well, and cannot write what a deed answers."""

    async def commit(self, commit: ThreadCommit) -> Committed:
        if any(message.text().startswith("did") for message in commit.messages):
            raise Serialization("commit", ValueError("cannot be written"))
        return await super().commit(commit)


async def test_a_result_that_cannot_be_written_ends_the_run_as_failed() -> None:
    """Design §8: the tool is not called again each time somebody recovers."""
    deed, store = Deed(hangs=0), Picky()
    model = CheckedModel(CALL, "I see")
    stage = Stage(Agent("a", model=model, tools=[deed.tool]), store=store)

    with pytest.raises(AgentLoopError, match="cannot be written"):
        await stage.run()

    record = await stage.record()
    assert record.status is RunStatus.DONE
    assert isinstance(record.termination_reason, Failed)
    assert await stage.runtime.recover() == []
    assert len(deed.keys) == 1
    assert (await stage.run("what happened?")).response == "I see"


async def test_a_run_that_ends_so_leaves_no_call_begun_and_no_step_open() -> None:
    """02/8.9, design §8: a call with an intent is settled, a step that began is told to end."""
    deed, store = Deed(hangs=0), Picky()
    stage = Stage(Agent("a", model=CheckedModel(CALL), tools=[deed.tool]), store=store)

    with pytest.raises(AgentLoopError, match="cannot be written"):
        await stage.run()

    kinds = [type(event.event) for event in await store.load_events(THREAD)]
    assert (await ledger(stage), kinds.count(StepEnd)) == ({"c1": "unknown"}, 1)


OLD: StateKey[str, Any] = StateKey("count", initial=str, scope=Scope.THREAD, type=str)
NEW: StateKey[int, Any] = StateKey("count", initial=int, scope=Scope.THREAD, type=int)


async def test_a_run_whose_state_does_not_decode_any_more_can_be_cancelled() -> None:
    """01/D-11: ending a run needs no state; what it had begun is settled all the same."""

    async def count(_: PhaseContext) -> Command:
        return Command().update(OLD, "many")

    deed, store = Deed(), MemoryStore()
    plugin = TestPlugin({Phase.RUN_START: count}, keys=[OLD])
    dying = Agent("a", model=CheckedModel(CALL), tools=[deed.tool], plugins=[plugin])

    async with crash(store, dying, deed.begun):
        agent = Agent("a", model=CheckedModel(), tools=[deed.tool], state=[NEW])
        stage = Stage(agent, store=store)
        with pytest.raises(PhaseError, match="count"):
            await recovered(stage)
        assert (await stage.record()).status is RunStatus.RUNNING
        assert await stage.runtime.cancel(THREAD)

    record = await stage.record()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert await ledger(stage) == {"c1": "unknown"}
    assert await store.load_commands(THREAD) == []


async def test_a_run_that_cannot_be_carried_on_is_put_off() -> None:
    """Design §8: an open runtime looks around every few seconds, and tries it later and later; who
    asks for it has it tried at once."""

    async def count(_: PhaseContext) -> Command:
        return Command().update(OLD, "many")

    deed, store = Deed(), MemoryStore()
    plugin = TestPlugin({Phase.RUN_START: count}, keys=[OLD])
    dying = Agent("a", model=CheckedModel(CALL), tools=[deed.tool], plugins=[plugin])

    async with crash(store, dying, deed.begun):
        stage = Stage(Agent("a", model=CheckedModel(), state=[NEW]), store=store)
        recovery = Recovery(stage.engine)
        for look in (recovery.resume, recovery.recover, recovery.recover):
            (run,) = await look()
            with pytest.raises(PhaseError):
                await run.task
            assert await recovery.resume() == []

    assert (await stage.record()).status is RunStatus.RUNNING


# -- long threads -----------------------------------------------------------------------------


class Reading(MemoryStore):
    """Keeps how much of the log was read, each time."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        context = await super().load_context(thread_id, tail=tail)
        self.read.append(0 if context is None else len(context.messages))
        return context


async def test_a_run_of_a_long_thread_reads_its_end_alone() -> None:
    """Design §8: calls that were answered long ago are no reason to read all there is."""
    store, deed = Reading(), Deed(hangs=0)
    policy = ContextWindowPolicy(
        max_messages=20,
        max_context_tokens=100_000,
        max_output_tokens=1000,
        min_recent_messages=5,
        enable_prompt_cache=False,
    )
    model = CheckedModel(CALL, "did it", "hello you")
    agent = Agent("a", model=model, tools=[deed.tool], context_policy=policy)
    stage = Stage(agent, store=store)
    await stage.run()
    length = len(await stage.log())
    many = [Message.user(f"m{n}", id=f"m{n}") for n in range(500)]
    commit = ThreadCommit(thread_id=THREAD, expected_length=length, messages=as_messages(many))
    await store.commit(commit)
    store.read.clear()

    assert (await stage.run("hello")).response == "hello you"

    assert sum(store.read) < 100
