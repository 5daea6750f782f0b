"""Questions that expire while the clock is set forward or back, or the machine is suspended.

A question is approved or expires, never both; it expires once; an answer given in time counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.event import ToolCallResumed
from awaken.core.message import Message, Role
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ResumedOutcome, TicketStatus
from awaken.errors import InvalidResume
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response
from awaken.worker.request import RunRequest

pytestmark = pytest.mark.anyio
T, HOUR = "t", 3600


class JumpingClock(FakeClock):
    """A clock whose wall time can be set; sleeps do not notice."""

    offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms

    def jump(self, seconds: int) -> None:
        self.offset_ms += 1000 * seconds


class Case:
    """A run that asks for an approval, which expires after an hour."""

    def __init__(self, store: MemoryStore | str) -> None:
        self.paid = 0
        self.clock = JumpingClock()

        @tool(needs_approval=True, approval_expires_in=HOUR)
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        call, done = tool_call_response("", "pay", "c", {}), text_response("done")
        model = FunctionModel(lambda asked: done if asked.messages[-1].role is Role.TOOL else call)
        agent = Agent("a", model=model, tools=[pay])
        self.runtime = Runtime([agent], store=store, clock=self.clock, recover=False)

    async def ask(self) -> str:
        result = await self.runtime.run("a", "go", thread=T)
        (ticket,) = result.tickets
        return str(ticket.key)

    async def recover(self) -> None:
        for recovered in await self.runtime.recover():
            await recovered

    async def is_refused(self, key: str) -> bool:
        try:
            await self.runtime.decide(T, {key: True})
        except InvalidResume:
            return True
        return False

    async def end(self) -> tuple[TicketStatus, ResumedOutcome | None, int]:
        """What became of the ticket and of the call, which has ended once; and how often it ran."""
        (ticket,) = await self.runtime.list_tickets(TicketQuery(thread_id=T))
        events = [one.event async for one in self.runtime.events(T, follow=False)]
        (resumed,) = [event for event in events if isinstance(event, ToolCallResumed)]
        return ticket.status, resumed.outcome, self.paid


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    store: MemoryStore | str = MemoryStore()
    if request.param == "sqlite":
        store = f"sqlite:///{tmp_path / 'a.db'}"
    elif request.param == "postgres":
        store = request.getfixturevalue("postgres").address()
    made = Case(store)
    async with made.runtime:
        yield made


EXPIRED = (TicketStatus.EXPIRED, ResumedOutcome.EXPIRED, 0)
APPROVED = (TicketStatus.ANSWERED, ResumedOutcome.SUCCEEDED, 1)


async def test_an_answer_that_was_given_before_the_clock_jumped_counts(case: Case) -> None:
    key = await case.ask()
    await case.runtime.decide(T, {key: True})
    case.clock.jump(2 * HOUR)
    await case.recover()
    await case.recover()
    assert await case.end() == APPROVED


async def test_a_question_expires_once_when_the_clock_jumps_over_its_time(case: Case) -> None:
    key = await case.ask()
    case.clock.jump(2 * HOUR)
    assert await case.is_refused(key)
    await case.recover()
    await case.recover()
    assert await case.is_refused(key)
    assert await case.end() == EXPIRED


async def test_a_question_that_has_expired_stays_so_when_the_clock_is_set_back(case: Case) -> None:
    key = await case.ask()
    case.clock.jump(2 * HOUR)
    await case.recover()
    case.clock.jump(-3 * HOUR)
    assert await case.is_refused(key)
    await case.recover()
    case.clock.jump(9 * HOUR)
    await case.recover()
    assert await case.end() == EXPIRED


async def test_a_jump_that_was_taken_back_before_anything_was_written_does_not_count(
    case: Case,
) -> None:
    """No process has found the question past its time: it is still open."""
    key = await case.ask()
    case.clock.jump(2 * HOUR)
    assert await case.is_refused(key)
    case.clock.jump(-2 * HOUR)
    await case.recover()
    await case.runtime.decide(T, {key: True})
    case.clock.jump(2 * HOUR)
    await case.recover()
    assert await case.end() == APPROVED


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
async def test_a_run_that_waits_in_its_process_sees_that_the_clock_was_set(
    case: Case, jump: int
) -> None:
    """Also after the machine was suspended: it looks at the clock once a minute."""
    request = RunRequest(agent_id="a", thread_id=T, messages=(Message.user("go"),))
    running = asyncio.ensure_future(case.runtime.engine.run(request))
    minutes = 0
    async with asyncio.timeout(100):
        while await waits(case.clock, running):
            if not minutes:
                case.clock.jump(jump)
            case.clock.advance(60)
            minutes += 1
    assert await case.end() == EXPIRED
    assert minutes == (1 if jump > 0 else 181)


async def waits(clock: FakeClock, running: asyncio.Task[Any]) -> bool:
    """Wait until the run waits for the clock, or has ended; says whether it waits."""
    sleeping = asyncio.ensure_future(clock.until_sleeping())
    await asyncio.wait([running, sleeping], return_when=asyncio.FIRST_COMPLETED)
    sleeping.cancel()
    return not running.done()
