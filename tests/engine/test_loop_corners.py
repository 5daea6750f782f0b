"""Turns of the loop that few runs take: an intent that was not kept, a block after a yes, an end
that a hook says when the model fails, an answer to another call."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from crash_stage import Deed, crash, recovered
from loop_stage import THREAD, CheckedModel, FailingCommits, Stage, TestPlugin

from awaken import (
    Agent,
    Block,
    Command,
    Message,
    PhaseContext,
    ToolCallContext,
    ToolCallResume,
    tool,
)
from awaken.backend import BackendLocalRootContext, BackendRootRunRequest, LocalBackend
from awaken.core.event import NullEventSink, RunFinish, ToolCallDone
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import CANCELLED, Blocked, Phase, RunStatus, Stopped
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.run_keys import RUN_LIFECYCLE, Done
from awaken.core.state.store import StateStore
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.suspension import ToolCallStatus
from awaken.engine import LoopStatePlugin
from awaken.engine.phases import PhaseRuntime
from awaken.errors import AwakenError, StoreUnavailable
from awaken.plugin.env import install_plugin
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    CommitFailure,
    FailingStore,
    FakeClock,
    ScriptedModel,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio


class SlowToRefuse(FailingCommits):
    """Its commits take a while, as those of a disk do, and calls may begin meanwhile."""

    immediate = False
    turns = 1

    async def commit(self, commit: ThreadCommit) -> Committed:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return await super().commit(commit)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_call_whose_intent_was_not_kept_does_not_start(turns: int) -> None:
    """Design §4: a `read` beside it began while the commit was under way; the `once` may not,
    whether the store refuses before the calls are looked at, or while they wait for it."""
    ran: list[str] = []

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    @tool
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    turn = tool_calls_response("", ("look", "c1", {}), ("pay", "c2", {}))
    store = SlowToRefuse(2, StoreUnavailable("the disk is full"))
    store.turns = turns
    stage = Stage(Agent("a", model=CheckedModel(turn), tools=[look, pay]), store=store)
    with pytest.raises(AwakenError):
        await stage.run()
    assert "pay" not in ran


async def test_a_gate_that_blocks_an_approved_call_ends_a_run_that_waited_for_it() -> None:
    """02 §5.8: the gates see an approved call again, also in a run that stayed in memory."""
    approved = False

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        raise AssertionError("it was blocked")

    async def gate(ctx: PhaseContext) -> Block | None:
        return Block(reason="the till is shut") if approved else None

    model = CheckedModel(tool_call_response("", "pay", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[pay], plugins=[TestPlugin(gates=[gate])]))
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        approved = True
        (ticket,) = await stage.runtime.list_tickets()
        assert await stage.runtime.decide(THREAD, {ticket.key: True})
    assert run.result().termination == Blocked(value="the till is shut")
    assert (await stage.record()).status is RunStatus.DONE


async def test_a_hook_that_sees_the_model_fail_may_end_the_run() -> None:
    """The run would fail; a hook knows better, and its word counts."""

    async def give_up(ctx: PhaseContext) -> Command | None:
        if ctx.llm_response is None or ctx.llm_response.error is None:
            return None
        return Command().update(RUN_LIFECYCLE, Done(reason="stopped:no model", updated_at=1))

    model = CheckedModel(ValueError("no such model"), "never asked")
    plugin = TestPlugin({Phase.AFTER_INFERENCE: give_up})
    agent = Agent("a", model=model, plugins=[plugin])
    result = await Stage(agent).run()
    assert isinstance(result.termination, Stopped)
    assert len(model.requests) == 1


async def test_whoever_is_asked_what_became_of_a_call_sees_its_arguments() -> None:
    deed, store = Deed(recover="ask"), MemoryStore()
    call = tool_call_response("", "deed", "c1", {"n": 7})
    async with crash(store, Agent("a", model=CheckedModel(call), tools=[deed.tool]), deed.begun):
        stage = Stage(Agent("a", model=CheckedModel("over"), tools=[deed.tool]), store=store)
        assert (await recovered(stage)).suspended
        (ticket,) = await stage.runtime.list_tickets()
        assert (ticket.tool_name, ticket.arguments) == ("deed", {"n": 7})
        kept = [told.event async for told in stage.runtime.events(THREAD, follow=False)]
        (done,) = [event for event in kept if isinstance(event, ToolCallDone)]
        assert done.result.suspension is not None
        assert done.result.suspension.suspension.parameters == {"n": 7}


async def test_a_verify_that_is_cancelled_is_told_as_a_cancel() -> None:
    """Not as the end of a process that nobody had: the model may read it in the next turn."""
    asking, store = asyncio.Event(), MemoryStore()

    async def happened(_: ToolCallContext) -> bool:
        asking.set()
        await asyncio.Event().wait()
        return True

    deed = Deed(verify=happened)
    call = tool_call_response("", "deed", "c1", {"n": 7})
    async with crash(store, Agent("a", model=CheckedModel(call), tools=[deed.tool]), deed.begun):
        stage = Stage(Agent("a", model=CheckedModel(), tools=[deed.tool]), store=store)
        (run,) = await stage.runtime.recover()
        await asking.wait()
        assert await stage.runtime.cancel(THREAD)
        await run
    (told,) = await stage.results()
    assert told.startswith("Cancelled: the run was cancelled")


# -- answers that fit no call -----------------------------------------------------------------


async def test_an_answer_that_was_given_to_another_call_is_not_carried_out() -> None:
    """01/D-15: the door refuses it; one that got past the door does not run the tool either."""

    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        raise AssertionError("nobody approved this")

    model = CheckedModel(tool_call_response("", "pay", "c1", {"n": 7}), "over")
    stage = Stage(Agent("a", model=model, tools=[pay]))
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        live = stage.engine.active.find_by_thread(THREAD)
        assert live is not None
        assert live.decisions is not None
        yes = msgspec.structs.replace(ToolCallResume.approve(), digest="of another call")
        live.decisions.send([("c1", yes)])
    assert run.result().response == "over"
    assert await stage.results() == ["the approval was given to another call; ask again"]


async def test_an_approved_call_of_which_no_message_is_to_be_seen_runs_all_the_same() -> None:
    """Its state says what was approved; it may be a state that a run was begun with."""
    ran: list[int] = []

    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        return f"paid {n}"

    stage = Stage(Agent("a", model=ScriptedModel(["over"]), tools=[pay]))
    store = StateStore()
    install_plugin(store, LoopStatePlugin())
    state = ToolCallState(
        call_id="c1",
        tool_name="pay",
        arguments={"n": 7},
        status=ToolCallStatus.RESUMING,
        updated_at=1,
        resume_input=ToolCallResume.approve(),
    )
    store.update(TOOL_CALL_STATES, PutCall(call=state))
    asked = [Message.user("hi")]
    result = await LocalBackend().execute_root(
        BackendRootRunRequest(
            agent_id="a",
            messages=asked,
            new_messages=asked,
            sink=NullEventSink(),
            resolver=stage.engine.registry.snapshot(),
            run_identity=RunIdentity(thread_id=THREAD, run_id="r", agent_id="a"),
            local=BackendLocalRootContext(PhaseRuntime(store)),
        )
    )
    assert (result.response, ran) == ("over", [7])


# -- a cancel outlives the process that began to carry it out ---------------------------------


async def test_a_cancel_is_kept_until_the_run_has_ended() -> None:
    """The process that begins to end the run fails; the next one ends it all the same."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        raise AssertionError("nobody approved this")

    def agent() -> Agent:
        return Agent("a", model=CheckedModel(tool_call_response("", "pay", "c1", {})), tools=[pay])

    store = MemoryStore()
    await Stage(agent(), store=store).run()
    record = await Stage(agent(), store=store).record()
    await store.send(ThreadCommand.cancel(THREAD, record.run_id, at_ms=1))
    failing: Any = FailingStore(store, {1: CommitFailure.LANDED}, then=CommitFailure.REFUSED)
    clock = FakeClock(auto=True)  # the time to wait for a store that is away passes at once
    (run,) = await Stage(agent(), store=failing, clock=clock).runtime.recover()
    with pytest.raises(AwakenError):
        await run
    store.forsake()

    stage = Stage(agent(), store=store)
    (run,) = await stage.runtime.recover()
    assert (await run).termination == CANCELLED
    assert (await stage.record()).status is RunStatus.DONE
