"""A call that waited gets one last event that says how it ended, whoever or whatever ended it."""

from __future__ import annotations

from typing import Any

import pytest

from awaken import Agent, Block, PhaseContext, RunResult, Runtime, ToolCallResume, tool
from awaken.codec import from_json, to_json
from awaken.core.event import AgentEvent, RunFinish, ToolCallResumed
from awaken.core.suspension import ResumedOutcome
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio
T = "t"


class Till:
    """An agent that asks before it pays, within a minute if `expires`."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()

        @tool(needs_approval=True, **options)
        async def pay(n: int) -> str | None:
            """Pay; 13 fails, and 0 returns nothing."""
            if n == 13:
                raise ValueError("no money")
            return f"paid {n}" if n else None

        self.tool = pay

    def runtime(self, n: int = 1, **options: Any) -> Runtime:
        model = ScriptedModel([tool_calls_response("", ("pay", "c1", {"n": n})), "done", "more"])
        agent = Agent("till", model=model, tools=[self.tool], **options)
        return Runtime([agent], store=MemoryStore(), clock=self.clock)


def _key(asked: RunResult) -> str:
    (ticket,) = asked.tickets
    assert ticket.key is not None
    return ticket.key


async def _last_event(runtime: Runtime) -> ToolCallResumed:
    """The one event that tells of the end; its message is in the log."""
    told = [event.event async for event in runtime.events(T, follow=False)]
    (resumed,) = [event for event in told if isinstance(event, ToolCallResumed)]
    assert (resumed.target_id, resumed.name) == ("c1", "pay")
    messages = {m.id: m.tool_call_id for m in await runtime.messages(T)}
    assert messages[resumed.message_id] == "c1"
    kept: AgentEvent = from_json(to_json(resumed), ToolCallResumed)
    assert kept == resumed
    return resumed


@pytest.mark.parametrize(
    ("n", "outcome", "result"),
    [
        (1, ResumedOutcome.SUCCEEDED, "paid 1"),
        (0, ResumedOutcome.SUCCEEDED, None),
        (13, ResumedOutcome.FAILED, {"error": "Execution failed: ValueError: no money"}),
    ],
)
async def test_a_yes_says_how_the_call_ended_and_who_said_it(
    n: int, outcome: ResumedOutcome, result: Any
) -> None:
    """06/SV-6: a failed tool and a tool that returned null are two different ends."""
    async with Till().runtime(n) as runtime:
        asked = await runtime.run("till", "pay", thread=T)
        yes = ToolCallResume.approve(by="ann", reason="fine")

        await runtime.run(thread=T, answers={_key(asked): yes})

        told = await _last_event(runtime)
    assert (told.outcome, told.by, told.reason) == (outcome, "ann", "fine")
    assert told.result == result


async def test_a_no_is_denied() -> None:
    """06/SV-6: and is not taken for a tool that returned null."""
    async with Till().runtime() as runtime:
        asked = await runtime.run("till", "pay", thread=T)
        no = ToolCallResume.deny("too much", by="bob")

        await runtime.run(thread=T, answers={_key(asked): no})

        told = await _last_event(runtime)
    assert (told.outcome, told.reason, told.by) == (ResumedOutcome.DENIED, "too much", "bob")
    assert told.result is None


async def test_a_gate_that_blocks_an_approved_call_denies_it() -> None:
    class Guard:
        id = "guard"

        def __init__(self) -> None:
            self.closed = False

        def register(self, registrar: Any) -> None:
            registrar.gate(self.look)

        async def look(self, ctx: PhaseContext) -> Block | None:
            return Block(reason="closed for today") if self.closed else None

    guard = Guard()
    async with Till().runtime(plugins=[guard]) as runtime:
        asked = await runtime.run("till", "pay", thread=T)
        guard.closed = True

        await runtime.run(thread=T, answers={_key(asked): True})

        told = await _last_event(runtime)
    assert (told.outcome, told.reason) == (ResumedOutcome.DENIED, "closed for today")


async def test_a_call_nobody_answered_in_time_is_expired() -> None:
    till = Till(approval_expires_in=60)
    async with till.runtime() as runtime:
        await runtime.run("till", "pay", thread=T)
        till.clock.advance(62)

        for run in await runtime.recover():
            await run

        told = await _last_event(runtime)
    assert told.outcome is ResumedOutcome.EXPIRED
    assert told.reason == "nobody decided about 'pay' in time"
    assert told.by is None


async def test_a_superseded_call_says_so_before_anything_else_of_the_new_run() -> None:
    async with Till().runtime() as runtime:
        await runtime.run("till", "pay", thread=T)

        await runtime.run("till", "never mind", thread=T)

        told = await _last_event(runtime)
        kinds = [type(e.event).__name__ async for e in runtime.events(T, follow=False)]
    assert told.outcome is ResumedOutcome.SUPERSEDED
    assert told.reason == "superseded by a new message"
    start = kinds.index("RunStart", 1)
    assert kinds[start : start + 3] == ["RunStart", "ToolCallResumed", "StepStart"]


@pytest.mark.parametrize("live", [True, False])
async def test_a_call_of_a_cancelled_run_is_cancelled(live: bool) -> None:
    """Whether its run waits in a process, or in the store alone."""
    async with Till().runtime() as runtime:
        if live:
            async with runtime.stream("till", "pay", thread=T, wait=True) as events:
                async for told in events:
                    if isinstance(told.event, RunFinish):
                        await runtime.cancel(T)
        else:
            await runtime.run("till", "pay", thread=T)
            await runtime.cancel(T)

        last = await _last_event(runtime)
    assert last.outcome is ResumedOutcome.CANCELLED
    assert last.reason == "Cancelled: the run ended before anybody decided"


def test_an_event_of_an_earlier_version_is_read() -> None:
    old = {"event_type": "tool_call_resumed", "target_id": "c1", "result": "paid"}

    event = from_json(old, ToolCallResumed)

    assert (event.target_id, event.result) == ("c1", "paid")
    assert (event.outcome, event.name, event.message_id) == (None, "", "")
    assert to_json(event) == old
