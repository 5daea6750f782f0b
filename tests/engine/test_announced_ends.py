"""A hook says that the run shall end; until it has ended, it can be cut short (design §8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crash_stage import Deed, crash, ledger, recovered
from loop_stage import THREAD, CheckedModel, Stage, TestPlugin, assert_valid_transcript

from awaken import Agent, Command, PhaseContext, ToolCallResume, tool
from awaken.core.event import RunFinish, StepEnd, StepStart
from awaken.core.lifecycle import Failed, Phase, RunStatus
from awaken.core.state.run_keys import RUN_LIFECYCLE, Done
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.engine.call_results import unknown_outcome
from awaken.errors import InvalidResume
from awaken.stores.memory import MemoryStore
from awaken.testing import tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

UNKNOWN = unknown_outcome("deed", "the process ended while the call was under way").model_text()
SUBMITTED = Failed(value="submitted")


class Honest(MemoryStore):
    """Refuses a record that is done and says not how; tells when the end was announced."""

    def __init__(self) -> None:
        super().__init__()
        self.announced = asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        run = commit.run
        if run is not None and run.status is RunStatus.DONE:
            assert run.termination_reason is not None
            assert run.finished_at is not None
        committed = await super().commit(commit)
        if any(entry.phase is CallPhase.SUCCEEDED for entry in commit.calls):
            self.announced.set()
        return committed


@tool(effect="read")
async def submit() -> str:
    """Submit."""
    return "submitted"


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


async def _end_when_submitted(ctx: PhaseContext) -> Command | None:
    if ctx.tool_name != "submit":
        return None
    return Command().update(RUN_LIFECYCLE, Done(reason="submitted"))


def _agent(model: CheckedModel, *tools: Any, **options: Any) -> Agent:
    plugin = TestPlugin({Phase.AFTER_TOOL_EXECUTE: _end_when_submitted})
    return Agent("a", model=model, tools=[submit, *tools], plugins=[plugin], **options)


@pytest.mark.parametrize("names", [("submit", "deed"), ("deed", "submit")])
async def test_a_call_under_way_is_settled_though_the_end_was_announced(
    names: tuple[str, str],
) -> None:
    """02/8.12: the crash comes between the announcement and the end; nothing is left begun."""
    store, deed = Honest(), Deed()
    turn = tool_calls_response("", *[(name, f"c-{name}", {}) for name in names])

    async with crash(store, _agent(CheckedModel(turn), deed.tool), store.announced) as before:
        assert deed.begun.is_set()
        cut_short = await before.record()
        assert (cut_short.status, cut_short.termination_reason) == (RunStatus.RUNNING, None)
        assert cut_short.finished_at is None
        model = CheckedModel("I see")
        stage = Stage(_agent(model, deed.tool), store=store)
        result = await recovered(stage)

    assert result.termination == SUBMITTED
    assert model.calls == 0, "the run is over, nobody is asked"
    assert await ledger(stage) == {"c-submit": "succeeded", "c-deed": "unknown"}
    told = {"submit": "submitted", "deed": UNKNOWN}
    assert await stage.results() == [told[name] for name in names]
    record = await stage.record()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, SUBMITTED)
    kinds = [type(event.event) for event in await store.load_events(THREAD)]
    assert kinds[-1] is RunFinish
    assert kinds.count(StepStart) == kinds.count(StepEnd) == 1

    assert (await stage.run("what happened?")).response == "I see"
    assert len(deed.keys) == 1


async def test_an_end_that_was_announced_asks_nobody_after_the_crash() -> None:
    """01/D-15: the run is over as soon as it is taken up; its question is closed, not open."""
    store, deed = Honest(), Deed()
    turn = tool_calls_response("", ("pay", "c1", {}), ("submit", "c2", {}), ("deed", "c3", {}))

    async with crash(store, _agent(CheckedModel(turn), pay, deed.tool), store.announced):
        stage = Stage(_agent(CheckedModel(), pay, deed.tool), store=store)
        result = await recovered(stage)

    assert (result.termination, result.tickets) == (SUBMITTED, ())
    assert not await stage.runtime.list_tickets()
    assert "intent" not in (await ledger(stage)).values()
    assert_valid_transcript(await stage.log())


async def test_a_hook_that_ends_a_run_which_is_about_to_wait_ends_it() -> None:
    """02 §5.8: the end of the step comes first; who was asked need not answer any more."""

    async def end(_: PhaseContext) -> Command:
        return Command().update(RUN_LIFECYCLE, Done(reason="budget"))

    model = CheckedModel(tool_call_response("", "pay", "c1", {}), "hello")
    plugin = TestPlugin({Phase.STEP_END: end})
    stage = Stage(Agent("a", model=model, tools=[pay], plugins=[plugin]), store=Honest())

    result = await stage.run()

    assert (result.termination, result.tickets) == (Failed(value="budget"), ())
    record = await stage.record()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, Failed(value="budget"))
    (ticket,) = await stage.runtime.list_tickets(TicketQuery())
    assert ticket.status is TicketStatus.CLOSED
    assert await stage.results() == ["Cancelled: the run ended before anybody decided"]
    assert_valid_transcript(await stage.log())
    with pytest.raises(InvalidResume, match="closed"):
        await stage.resume(("c1", ToolCallResume.approve()))


async def test_an_end_announced_beside_a_question_ends_the_run() -> None:
    """02 §5.8: one of two calls ends it, the other waits for a person: it does not wait."""
    store = Honest()
    turn = tool_calls_response("", ("pay", "c1", {}), ("submit", "c2", {}))
    stage = Stage(_agent(CheckedModel(turn), pay), store=store)

    result = await stage.run()

    assert (result.termination, result.tickets) == (SUBMITTED, ())
    assert (await stage.record()).status is RunStatus.DONE
    assert not await stage.runtime.list_tickets()
    assert_valid_transcript(await stage.log())
