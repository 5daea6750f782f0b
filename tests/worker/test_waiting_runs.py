"""Runs that wait: for decisions, meanwhile written to, answered, refused, cancelled (01 §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from run_kit import of_kind, record_of, results, told

from answer_kit import by_id
from awaken import (
    Agent,
    Message,
    Registrar,
    RunEvent,
    RunRequest,
    Runtime,
    ToolCallContext,
    ToolCallResume,
    tool,
)
from awaken.core.event import CollectingSink, RunFinish, RunStart
from awaken.core.inbox import InboxSender
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus, Suspended
from awaken.core.run import AgentRunResult
from awaken.core.spec import ToolExecutorKind
from awaken.core.state.store import StateStore
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.errors import InvalidResume
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_calls_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


class Watched(MemoryStore):
    """Lets a test wait until something was committed."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Condition()

    async def commit(self, commit: ThreadCommit) -> Committed:
        committed = await super().commit(commit)
        async with self._changed:
            self._changed.notify_all()
        return committed

    async def until(self, true: Callable[[list[str]], bool], thread: str = "t") -> None:
        """Wait until what the thread says is as wanted."""
        async with self._changed:
            while not true(told(await self.load_messages(thread))):
                await self._changed.wait()


class Pauses(CollectingSink):
    """Keeps all events, and tells when the run pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = asyncio.Event()

    async def emit(self, event: RunEvent) -> None:
        await super().emit(event)
        if isinstance(event.event, RunFinish) and isinstance(event.event.termination, Suspended):
            self.paused.set()


class Background:
    """A plugin that keeps the run's inbox, as background work would."""

    id = "background"

    def __init__(self) -> None:
        self.inbox: InboxSender | None = None

    def register(self, registrar: Registrar) -> None:
        return

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        self.inbox = owner_inbox


class Payer:
    """An agent whose payments must be approved, and a run of it that waits."""

    def __init__(self, *script: Response, calls: int = 1, **options: Any) -> None:
        self.paid: list[tuple[str, int]] = []
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.background = Background()
        self.sink = Pauses()
        self.store = Watched()

        @tool(needs_approval=True)
        async def pay(n: int, ctx: ToolCallContext) -> str:
            """Pay."""
            self.inside.set()
            await self.go_on.wait()
            self.paid.append((ctx.call_id, n))
            return f"paid {n}"

        wanted = [("pay", f"c{number}", {"n": number}) for number in range(1, calls + 1)]
        self.model = ScriptedModel([tool_calls_response("", *wanted), *(script or ["done"])])
        agent = Agent("payer", model=self.model, tools=[pay], plugins=[self.background], **options)
        self.runtime = Runtime([agent], store=self.store)
        self.engine = self.runtime.engine

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[asyncio.Task[AgentRunResult]]:
        """A live run that waits for its approval."""
        request = RunRequest(
            thread_id="t", agent_id="payer", messages=(Message.user("pay"),), run_id_hint="r"
        )
        async with asyncio.TaskGroup() as group, asyncio.timeout(100):
            task = group.create_task(self.engine.run(request, self.sink))
            await self.sink.paused.wait()
            self.sink.paused.clear()
            yield task


# -- answering --------------------------------------------------------------------------------


async def test_a_live_run_goes_on_when_it_is_answered() -> None:
    """01 §6.4: by run or thread id, by call or ticket; a pause is a finish and a start more."""
    for id, target in (("r", "c1"), ("t", "approval_c1")):
        payer = Payer()

        async with payer.waiting() as task:
            record = await record_of(payer.runtime, "r")
            assert record.status is RunStatus.WAITING
            assert record.waiting is not None
            assert record.waiting.ticket_ids == ("approval_c1",)
            (ticket,) = record.waiting.tickets
            yes = ToolCallResume.approve(digest=ticket.digest)
            assert await payer.engine.send_decision(id, target, yes)

        assert task.result().termination == NATURAL_END
        assert payer.paid == [("c1", 1)]
        kinds = [type(e) for e in of_kind(payer.sink.events(), RunStart | RunFinish)]  # type: ignore[arg-type]
        assert kinds == [RunStart, RunFinish, RunStart, RunFinish]


async def test_a_denied_call_is_told_with_its_reason() -> None:
    """01 §1.7: cancel; the tool never runs."""
    payer = Payer()

    async with payer.waiting():
        await payer.runtime.decide(
            "t", await by_id(payer.runtime, {"c1": ToolCallResume.deny("too expensive")})
        )

    assert payer.paid == []
    assert results(payer.model.requests[1].messages) == {"c1": "Denied: too expensive"}


async def test_several_answers_are_one_batch() -> None:
    """01 §6.4: `send_decisions`."""
    payer = Payer(calls=2)

    async with payer.waiting():
        answers = {"c1": ToolCallResume.approve(), "c2": ToolCallResume.deny()}
        decisions = await by_id(payer.runtime, answers)
        assert await payer.engine.send_decisions("t", list(decisions.items()))

    assert payer.paid == [("c1", 1)]
    told = results(payer.model.requests[1].messages)
    assert told["c1"] == "paid 1"
    assert told["c2"].startswith("Denied")


async def test_a_run_waits_on_for_what_is_still_undecided() -> None:
    """01 §6.4: after a replay, calls still suspended keep it waiting; the done one is done."""
    payer = Payer(calls=2)

    async with payer.waiting():
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c2": True}))
        await payer.sink.paused.wait()
        assert payer.paid == [("c2", 2)]
        assert payer.model.calls == 1
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))

    assert payer.paid == [("c2", 2), ("c1", 1)]
    assert told(payer.model.requests[1].messages[2:]) == ["tool: paid 1", "tool: paid 2"]


async def test_a_batch_approval_agent_waits_for_the_last_answer() -> None:
    """01 §3.6: nothing is carried out before."""
    payer = Payer(calls=2, tool_executor=ToolExecutorKind.PARALLEL_BATCH_APPROVAL)

    async with payer.waiting():
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c2": True}))
        await payer.sink.paused.wait()
        assert payer.paid == []
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))

    assert payer.paid == [("c1", 1), ("c2", 2)]


# -- refusing ---------------------------------------------------------------------------------


async def test_a_decision_for_an_unknown_call_leaves_the_real_one_alone() -> None:
    """01/A-11, D-15, bad input: live; the error names the id and what waits."""
    payer = Payer()

    async with payer.waiting() as task:
        with pytest.raises(InvalidResume, match=r"ghost.*waiting: '[\w-]+:0' \(pay\)"):
            await payer.runtime.decide("t", await by_id(payer.runtime, {"ghost": True}))
        assert not await payer.engine.send_decision("t", "ghost", ToolCallResume.approve())
        assert not task.done()
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))

    assert payer.paid == [("c1", 1)]


async def test_a_request_with_an_unknown_decision_leaves_the_real_call_alone() -> None:
    """01/A-11: not live; nothing is written, and the ticket can still be answered."""
    payer = Payer()
    await payer.runtime.run("payer", "pay", thread="t")
    before = await payer.runtime.list_runs()

    with pytest.raises(InvalidResume, match=r"ghost.*waiting: '[\w-]+:0' \(pay\)"):
        await payer.runtime.run(
            thread="t", answers=await by_id(payer.runtime, {"ghost": True, "c1": True})
        )

    assert await payer.runtime.list_runs() == before
    assert payer.paid == []
    assert (
        await payer.runtime.run(thread="t", answers=await by_id(payer.runtime, {"c1": True}))
    ).response == "done"


async def test_answers_to_a_thread_where_nobody_waits_are_refused() -> None:
    """D-15, bad input: an unknown thread gets no run by it."""
    payer = Payer()

    with pytest.raises(InvalidResume, match="c1"):
        await payer.runtime.run(
            "payer", thread="t", answers=await by_id(payer.runtime, {"c1": True})
        )

    assert list(await payer.runtime.list_runs()) == []
    assert list(await payer.runtime.messages("t")) == []


async def test_a_batch_with_one_bad_decision_changes_nothing() -> None:
    """D-15: all or nothing."""
    payer = Payer(calls=2)

    async with payer.waiting():
        with pytest.raises(InvalidResume, match="ghost"):
            await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True, "ghost": True}))
        assert not await payer.engine.send_decisions(
            "t", [("c2", ToolCallResume.approve()), ("ghost", ToolCallResume.approve())]
        )
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": False, "c2": False}))

    assert payer.paid == []


async def test_a_second_answer_to_one_call_is_refused() -> None:
    """D-15: a double click, before the run has even looked, must not cost the first answer."""
    payer = Payer()

    async with payer.waiting() as task:
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))
        with pytest.raises(InvalidResume, match=r"c1.*was approved .* by "):
            await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": False}))

    assert task.result().termination == NATURAL_END
    assert payer.paid == [("c1", 1)]


async def test_the_same_decision_twice_is_one_decision() -> None:
    """D-15: repeats are known by their id."""
    payer = Payer()
    decision = ToolCallResume.approve(id="d1")

    async with payer.waiting():
        for _ in range(3):
            await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": decision}))

    assert payer.paid == [("c1", 1)]


async def test_an_answer_that_comes_too_late_is_refused() -> None:
    """D-15: while the call runs, after the run, and in a later request; nothing runs twice."""
    payer = Payer()
    payer.go_on.clear()

    async with payer.waiting():
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))
        await payer.inside.wait()
        with pytest.raises(InvalidResume, match=r"c1.*was approved .* by "):
            await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": False}))
        payer.go_on.set()

    with pytest.raises(InvalidResume, match=r"c1.*was approved .* by "):
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))
    with pytest.raises(InvalidResume, match=r"c1.*was approved .* by "):
        await payer.runtime.run(
            "payer", thread="t", answers=await by_id(payer.runtime, {"c1": True})
        )
    assert payer.paid == [("c1", 1)]


# -- meanwhile --------------------------------------------------------------------------------


async def test_background_events_do_not_wake_the_model() -> None:
    """01/A-7: kept while suspended, and in the next request, as are a user's messages."""
    payer = Payer()

    async with payer.waiting():
        assert payer.background.inbox is not None
        assert payer.background.inbox.send({"kind": "task_done", "task_id": "job-7", "ok": True})
        await payer.store.until(lambda log: "background-task-event" in log[-1])
        assert await payer.runtime.send("t", "are you there?")
        await payer.store.until(lambda log: log[-1] == "user: are you there?")
        assert payer.model.calls == 1
        await payer.runtime.decide("t", await by_id(payer.runtime, {"c1": True}))

    shown = told(payer.model.requests[1].messages)
    assert shown[2] == "tool: paid 1"
    assert 'kind="task_done" task_id="job-7"' in shown[3]
    assert '"ok":true' in shown[3]
    assert shown[4] == "user: are you there?"


async def test_a_cancelled_waiting_run_is_over_and_not_revived() -> None:
    """D-11: done and cancelled; its call is answered, and the next request starts anew."""
    payer = Payer("a new start")

    async with payer.waiting() as task:
        assert payer.engine.cancel("t")

    assert task.result().termination == CANCELLED
    record = await record_of(payer.runtime, "r")
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert record.waiting is None
    with pytest.raises(InvalidResume, match=r"c1.*closed"):
        await payer.runtime.run(
            "payer", thread="t", answers=await by_id(payer.runtime, {"c1": True})
        )

    again = await payer.runtime.run("payer", "hello", thread="t")

    assert again.run_id != "r"
    assert again.response == "a new start"
    assert payer.paid == []


async def test_a_run_nobody_waits_for_ends_suspended_with_its_tickets() -> None:
    """01 §6.4: no decision channel; the record waits."""
    payer = Payer(calls=2)

    result = await payer.runtime.run("payer", "pay", thread="t")

    assert result.suspended
    assert [(found.tool_call_id, found.tool_name) for found in result.tickets] == [
        ("c1", "pay"),
        ("c2", "pay"),
    ]
    assert [found.arguments for found in result.tickets] == [{"n": 1}, {"n": 2}]
    record = await record_of(payer.runtime, result.run_id)
    assert record.status is RunStatus.WAITING
    assert record.waiting is not None
    assert tuple(record.waiting.tickets) == result.tickets
