"""A budget that several processes live off is never overdrawn either (ADR 8).

Agents in the background go on where they are while the run that started them is carried on
elsewhere. Two runtimes on one file stand for two processes, which know nothing of each other; once,
they are two.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
from budget_stage import THREAD, agents

from awaken import Agent, Runtime, tool
from awaken.clock import SystemClock
from awaken.codec import Json
from awaken.core.budget import Budget
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.lifecycle import Phase, RunStatus, Stopped
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery
from awaken.engine.reservation import estimate
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_calls_response
from awaken.worker.budgets import REFRESH_SECONDS
from awaken.worker.delegates import spending_in

pytestmark = pytest.mark.anyio

SCHEDULES, AT_ONCE = 24, 6
LEVELS = ("root", "worker", "digger")


class Watch:
    """Counts what the models of each run really took, whatever the accounts say."""

    id = "watch"

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.AFTER_INFERENCE, self.count)

    async def count(self, ctx: PhaseContext) -> None:
        assert ctx.run_identity is not None
        assert ctx.llm_response is not None
        assert ctx.llm_response.success is not None
        usage = ctx.llm_response.success.usage
        assert usage is not None
        self.steps[ctx.run_identity.run_id] += 1
        self.tokens[ctx.run_identity.run_id] += (usage.prompt_tokens or 0) + (
            usage.completion_tokens or 0
        )


class House:
    """Agents that give work to the background, three levels deep, in two processes."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.watch = Watch()
        self.budget = Budget(
            tokens=random.choice([None, random.randrange(1_000, 12_000)]),
            steps=random.randrange(4, 24),
            share=random.choice([1.0, 1.0, 0.5]),
        )

        self.own = random.choice([None, Budget(steps=random.randrange(2, 8))])

    def agents(self) -> list[Agent]:
        """The same ones for each process."""

        @tool(effect="read")
        async def look() -> str:
            """Look around."""
            await self.pass_time()
            return "nothing new"

        made: list[Agent] = []
        for level in reversed(range(len(LEVELS))):
            agent = Agent(
                LEVELS[level],
                model=FunctionModel(self.speaker(level)),
                tools=[look],
                plugins=[self.watch],
                background=made[-1:],
                delegates=["helper"],
                budget=(self.budget, self.own, None)[level],
                max_rounds=0,
            )
            made.append(agent)
        model = FunctionModel(self.speaker(len(LEVELS)))
        helper = Agent("helper", model=model, tools=[look], plugins=[self.watch], max_rounds=0)
        return [*made, helper]

    async def pass_time(self) -> None:
        for _ in range(self.random.randrange(12)):
            await asyncio.sleep(0)

    def speaker(self, level: int) -> Callable[[InferenceRequest], asyncio.Future[StreamResult]]:
        async def speak(request: InferenceRequest) -> StreamResult:
            await self.pass_time()
            return msgspec.structs.replace(self.answer(level, request), usage=self.usage(request))

        return lambda request: asyncio.ensure_future(speak(request))

    def usage(self, request: InferenceRequest) -> TokenUsage:
        most = request.overrides.max_tokens if request.overrides is not None else None
        prompt = sum(map(estimate, request.messages))
        share = self.random.choice([0.05, 0.3, 1.0])
        return TokenUsage(
            prompt_tokens=self.random.randint(1, prompt),
            completion_tokens=int(share * (400 if most is None else min(400, most))),
        )

    def answer(self, level: int, request: InferenceRequest) -> StreamResult:
        rounds = sum(message.role is Role.ASSISTANT for message in request.messages)
        if rounds >= 5 or (rounds and self.random.random() < 0.4):
            return text_response("done")
        calls: list[tuple[str, str, Json]] = [("look", f"look-{rounds}", {})]
        names = [f"agent_run_{name}" for name in (*LEVELS[level + 1 : level + 2], "helper")]
        for number in range(self.random.randint(1, 2) if level < 3 and rounds < 3 else 0):
            name = self.random.choice(names)
            calls.append((name, f"d-{rounds}-{number}", {"prompt": "word " * 20}))
        return tool_calls_response("", *calls)

    # -- the schedule -------------------------------------------------------------------------

    async def play(self, path: Path) -> None:
        """Give the root something to do, now here, now there, until all is at rest."""
        address = f"sqlite:///{path}?synchronous=normal"
        async with (
            Runtime(self.agents(), store=address) as one,
            Runtime(self.agents(), store=address) as other,
        ):
            waits = await say(one, "go")
            while waits and self.random.random() < 0.8:
                await self.pass_time()
                waits = await say(self.random.choice([one, other]), "more")
            await one.wait("t")
            for task in await one.tasks(limit=500):
                await other.wait(task.id)


async def say(runtime: Runtime, text: str) -> bool:
    """Write to the root; whether it may still wait for something afterwards."""
    return (await runtime.run("root", text, thread="t", when_busy="queue")).waiting


async def runs_of(store: SqliteStore) -> dict[str, RunRecord]:
    page = await store.list_runs(RunQuery(limit=1_000))
    runs = [await store.load_run(run.run_id) for run in page]
    return {run.run_id: run for run in runs if run is not None}


def root_of(run: RunRecord, runs: dict[str, RunRecord]) -> RunRecord:
    while run.parent_run_id is not None:
        run = runs[run.parent_run_id]
    return run


@pytest.mark.parametrize("first", range(0, SCHEDULES, AT_ONCE))
async def test_no_schedule_of_two_processes_overdraws_a_budget(first: int, tmp_path: Path) -> None:
    """What the models took is within the budget, and what is on record is what they took."""
    for seed in range(first, first + AT_ONCE):
        house, path = House(seed), tmp_path / f"{seed}.db"
        async with asyncio.timeout(100):
            await house.play(path)

        store = SqliteStore(path)
        await store.open()
        runs = await runs_of(store)
        await store.close()
        assert {run.status for run in runs.values()} == {RunStatus.DONE}
        for taken, name in ((house.watch.steps, "steps"), (house.watch.tokens, "tokens")):
            trees: Counter[str] = Counter()
            for run_id, amount in taken.items():
                trees[root_of(runs[run_id], runs).run_id] += amount
            for root, amount in trees.items():
                limit, record = getattr(house.budget, name), runs[root]
                assert limit is None or amount <= limit, f"{seed}: {amount} of {limit} {name}"
                assert record.state is not None
                assert getattr(spending_in(record.state).spent, name) <= amount


async def test_the_schedules_spread_their_trees(tmp_path: Path) -> None:
    """Most trees have parts, and many reach their limit."""
    tasks, stopped = 0, 0
    for seed in range(8):
        path = tmp_path / f"{seed}.db"
        await House(seed).play(path)
        store = SqliteStore(path)
        await store.open()
        runs = await runs_of(store)
        await store.close()
        tasks += sum(run.agent_id in LEVELS[1:] for run in runs.values())
        stopped += sum(isinstance(run.termination_reason, Stopped) for run in runs.values())

    assert tasks > 8
    assert stopped > 4


# -- a process that dies ----------------------------------------------------------------------


class Sleeper(SystemClock):
    """The machine's time; it says when somebody waits for what others have set aside."""

    def __init__(self) -> None:
        self.looks = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == REFRESH_SECONDS:
            self.looks.set()
        await super().sleep(seconds)


async def test_what_another_process_has_set_aside_is_waited_for_and_free_once_that_is_gone(
    tmp_path: Path,
) -> None:
    address, clock = f"sqlite:///{tmp_path / 'a.db'}", Sleeper()
    stage = Path(__file__).with_name("budget_stage.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(stage), address, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with (
            asyncio.timeout(100),
            Runtime(agents(asyncio.Event()), store=address, recover=False, clock=clock) as runtime,
        ):
            assert process.stdout is not None
            assert await process.stdout.readline() == b"thinks\n"
            going_on = asyncio.ensure_future(runtime.run("lead", "and now?", thread=THREAD))
            await clock.looks.wait()
            process.kill()
            result = await going_on
            assert result.response == "well"
            assert result.spent is not None
            assert result.spent.tokens == 4 * 120
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
