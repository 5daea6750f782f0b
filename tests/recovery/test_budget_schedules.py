"""A budget is never overdrawn, whatever order things happen in (ADR 8).

Trees of agents, three levels deep, whose models take at random what they were allowed to and let
others go on at random in between; each seed is another schedule, and the same one every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from awaken import Agent, RunResult, Runtime, ToolCallContext, ToolCallResume, tool
from awaken.codec import Json
from awaken.core.account import Account
from awaken.core.budget import Amount, Budget, Price
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.lifecycle import RunStatus, Stopped, Suspended
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import RunRecord, RunWaitingTicket
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery
from awaken.engine.reservation import estimate
from awaken.errors import AwakenError, StoreError
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_calls_response
from awaken.worker.delegates import spending_in

pytestmark = pytest.mark.anyio

SCHEDULES, CRASHES = 100, 40
AT_ONCE = 10
LEVELS = ("root", "middle", "leaf")
PRICE = Price(input=1_000_000 / 1_024, output=1_000_000 / 256)  # which floats add up exactly
COUNTED = ("tokens", "money", "steps")
CRUMBS = 1e-6


class Crowd:
    """A tree of agents, what it may use up, and what was seen of its accounts."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.budget = Budget(
            tokens=random.choice([None, random.randrange(1_000, 20_000)]),
            money=random.choice([None, random.uniform(1.0, 40.0)]),
            steps=random.choice([None, random.randrange(2, 30)]),
            at_limit=random.choice(["stop", "ask"]),
            share=random.choice([1.0, 1.0, 0.5, 0.3]),
        )
        self.accounts: set[Account] = set()
        self.asked = 0

        @tool(effect="read")
        async def look(ctx: ToolCallContext) -> str:
            """Look around."""
            assert ctx.budget is not None
            self.accounts.update(ctx.budget.chain())
            await self.pass_time()
            return "nothing new"

        own = random.choice([None, None, Budget(steps=random.randrange(1, 6))])
        self.agents = [
            Agent(
                name,
                model=FunctionModel(self.speaker(level)),
                tools=[look],
                delegates=LEVELS[level + 1 : level + 2],
                budget=self.budget if level == 0 else own if level == 2 else None,
                max_rounds=0,
            )
            for level, name in enumerate(LEVELS)
        ]

    def runtime(self, store: Store) -> Runtime:
        prices = {f"{name}.model": PRICE for name in LEVELS}
        return Runtime(self.agents, store=store, prices=prices, recover=False)

    async def pass_time(self) -> None:
        self.check()
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        self.check()

    def check(self) -> None:
        """Nothing is overdrawn, on any level, now."""
        for account in self.accounts:
            for name in COUNTED:
                limit = account.limit(name)
                used = getattr(account.usage, name) + getattr(account.total_reserved, name)
                assert limit is None or used <= limit + CRUMBS, f"{used} of {limit} {name}"

    # -- models -------------------------------------------------------------------------------

    def speaker(self, level: int) -> Callable[[InferenceRequest], asyncio.Future[StreamResult]]:
        async def speak(request: InferenceRequest) -> StreamResult:
            self.asked += 1
            await self.pass_time()
            return msgspec.structs.replace(self.answer(level, request), usage=self.usage(request))

        return lambda request: asyncio.ensure_future(speak(request))

    def usage(self, request: InferenceRequest) -> TokenUsage:
        """Anything from nothing much to all that was set aside."""
        most = request.overrides.max_tokens if request.overrides is not None else None
        prompt = sum(map(estimate, request.messages))
        share = self.random.choice([0.05, 0.3, 1.0])
        return TokenUsage(
            prompt_tokens=self.random.randint(1, prompt),
            completion_tokens=int(share * (4_000 if most is None else most)),
        )

    def answer(self, level: int, request: InferenceRequest) -> StreamResult:
        rounds = sum(message.role is Role.ASSISTANT for message in request.messages)
        if rounds >= 3 or (rounds and self.random.random() < 0.4):
            return text_response("done")
        calls: list[tuple[str, str, Json]] = [("look", f"look-{rounds}", {})]
        for number in range(self.random.randint(1, 3) if level < 2 and rounds < 2 else 0):
            name = f"agent_run_{LEVELS[level + 1]}"
            calls.append((name, f"d-{rounds}-{number}", {"prompt": "word " * 20}))
        return tool_calls_response("", *calls)

    # -- answers ------------------------------------------------------------------------------

    def allow(self, ticket: RunWaitingTicket) -> ToolCallResume:
        """Somebody allows a little more, as much again, or nothing."""
        answers = [True, False, {"tokens": 500, "money": 0.5, "steps": 1}]
        answer = self.random.choice(answers if self.asked < 150 else [False])
        return ToolCallResume.deny() if answer is False else ToolCallResume.approve(answer)


def seeds(count: int) -> list[range]:
    """In batches, which run as one test each."""
    return [range(first, min(count, first + AT_ONCE)) for first in range(0, count, AT_ONCE)]


async def runs_of(store: Store) -> list[RunRecord]:
    page = await store.list_runs(RunQuery(limit=1_000))
    assert page.cursor is None
    return [run for run in [await store.load_run(run.run_id) for run in page] if run is not None]


def spent_by(run: RunRecord) -> Amount:
    assert run.state is not None
    return spending_in(run.state).spent


def assert_kept_to(crowd: Crowd, root: RunRecord) -> None:
    """What is on record is within the budget and what was granted beyond it."""
    assert root.state is not None
    known = spending_in(root.state)
    granted = known.granted[0] if known.granted else Amount()
    for name in COUNTED:
        limit = getattr(crowd.budget, name)
        spent = getattr(known.spent, name)
        assert limit is None or spent <= limit + getattr(granted, name) + CRUMBS


def assert_adds_up(runs: list[RunRecord]) -> None:
    """Every run has used up at least what those it started have, together."""
    for run in runs:
        beneath = [spent_by(child) for child in runs if child.parent_run_id == run.run_id]
        for name in ("tokens", "steps"):
            assert getattr(spent_by(run), name) >= sum(getattr(each, name) for each in beneath)


async def play(crowd: Crowd, runtime: Runtime) -> RunResult:
    async with asyncio.timeout(100):
        return await runtime.run("root", "go", thread="t", on_approval=crowd.allow)


# -- undisturbed ------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", seeds(SCHEDULES), ids=lambda batch: f"from-{batch[0]}")
async def test_no_schedule_overdraws_a_budget(batch: range) -> None:
    """At no instant, on no level; and what is on record at the end is what was spent."""
    for seed in batch:
        crowd, store = Crowd(seed), MemoryStore()

        result = await play(crowd, crowd.runtime(store))

        crowd.check()
        runs = await runs_of(store)
        (root,) = [run for run in runs if run.parent_run_id is None]
        assert {run.status for run in runs} == {RunStatus.DONE}
        assert result.spent == spent_by(root)
        assert result.spent.steps == crowd.asked
        assert_kept_to(crowd, root)
        assert_adds_up(runs)


async def test_the_schedules_are_worth_something() -> None:
    """Most trees grow, many reach their limit, and some are allowed more."""
    sizes, stopped, granted = [], 0, 0
    for seed in range(30):
        crowd, store = Crowd(seed), MemoryStore()
        result = await play(crowd, crowd.runtime(store))
        runs = await runs_of(store)
        sizes.append(len(runs))
        stopped += isinstance(result.termination, Stopped)
        granted += any(spending_in(run.state).granted for run in runs if run.state is not None)

    assert max(sizes) > 10
    assert sum(size > 3 for size in sizes) > 10
    assert stopped > 5
    assert granted > 3


# -- with a crash in between ------------------------------------------------------------------


class Dying(MemoryStore):
    """A store that takes no more commits after so many: as if the process were gone."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: int | None = None

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                raise StoreError("the process is gone")
        return await super().commit(commit)


@pytest.mark.parametrize("batch", seeds(CRASHES), ids=lambda batch: f"from-{batch[0]}")
async def test_no_crash_gives_a_tree_its_budget_anew(batch: range) -> None:
    """Runs that are taken up, on all levels at once, have the rest and no more."""
    for seed in batch:
        crowd, store = Crowd(seed), Dying()
        store.lives = crowd.random.randrange(2, 60)
        try:
            await play(crowd, crowd.runtime(store))
        except AwakenError:
            crowd.accounts.clear()  # they are gone with their process
        store.lives = None
        before = {run.run_id: spent_by(run) for run in await runs_of(store)}

        again = crowd.runtime(store)
        async with asyncio.timeout(100):
            for taken_up in await again.recover():
                result = await taken_up
                while isinstance(result.termination, Suspended):
                    answers = {t.key or "": crowd.allow(t) for t in result.tickets}
                    result = await again.run(thread="t", answers=answers)

        crowd.check()
        runs = await runs_of(store)
        roots = [run for run in runs if run.parent_run_id is None]
        for root in roots:
            assert root.status is RunStatus.DONE
            assert_kept_to(crowd, root)
        assert_adds_up(runs)
        for run in runs:
            assert spent_by(run).tokens >= before.get(run.run_id, Amount()).tokens
