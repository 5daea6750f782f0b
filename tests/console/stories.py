"""Stories of runs, recorded twice: as a watcher heard them, and as the log has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from asking import TELLER, crash
from asking import model as echo
from console_kit import PRICES, find_order, policy, said, weigh

from awaken import Agent, Runtime, tool
from awaken.core.event import RunEvent, TextDelta
from awaken.core.inference import StopReason, StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import (
    InferenceRequest,
    InvalidRequest,
    LlmStreamEvent,
    Stop,
    StreamInterrupted,
)
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery, TicketQuery
from awaken.core.suspension import TicketStatus, ToolCallResume
from awaken.models import ContextWindowPolicy
from awaken.runtime.live.outline import outline
from awaken.runtime.live.tree import follow_tree
from awaken.stores.bus.local import LocalBus
from awaken.testing import FunctionModel

PRICED = PRICES | {"leaf-1": PRICES["clerk-1"], "top-1": PRICES["desk-1"]}


@tool(effect="once", needs_approval=True)
async def pay(euros: int) -> str:
    """Pay money."""
    return f"paid {euros} euros"


@tool(effect="read")
async def wait_long() -> str:
    """Wait until the run is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError


class Broken:
    """A model whose stream breaks off once, after some words."""

    name = "broken"

    def __init__(self) -> None:
        self.tries = 0

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.tries += 1
        yield TextDelta(delta="I begin to ")
        if self.tries == 1:
            raise StreamInterrupted("the line broke")
        yield TextDelta(delta="speak.")
        yield Stop(reason=StopReason.END_TURN)


class Failing:
    """A model that has nothing to say but why not."""

    name = "failing"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="I would ")
        raise InvalidRequest("the account is empty")


class Gated:
    """A model that begins to answer when the watcher is there."""

    def __init__(self, inner: Any, gate: asyncio.Event) -> None:
        self.name, self._inner, self._gate = inner.name, inner, gate

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        await self._gate.wait()
        async for event in self._inner.execute_stream(request):
            yield event


def ask(agent: str, prompt: str) -> tuple[str, dict[str, Any]]:
    return (f"agent_run_{agent}", {"prompt": prompt})


def agents(gate: asyncio.Event) -> list[Agent]:
    def model(name: str, *first: StreamResult) -> Gated:
        return Gated(echo(name, *first), gate)

    leaf = Agent(
        "leaf",
        model=model("leaf-1", said("I look.", ("find_order", {"number": 7}))),
        tools=[find_order],
        description="Finds.",
    )
    middle = Agent(
        "middle",
        model=model("clerk-1", said("I pass it on.", ask("leaf", "7?"), ask("leaf", "8?"))),
        delegates=[leaf],
        description="Passes on.",
    )
    two = said("Both at once.", ask("middle", "7?"), ("policy", {"topic": "returns"}))
    return [
        leaf,
        middle,
        Agent("top", model=model("top-1", two), delegates=[middle], tools=[policy]),
        Agent(
            "office",
            model=model("office-1", said("", ("policy", {"topic": "paper"}))),
            background=[policy],
        ),
        Agent(
            "desk",
            model=model("front-1", said("Billing knows.", ("handoff", {"agent": "billing"}))),
            handoffs=["billing"],
        ),
        Agent("billing", model=model("billing-1"), description="Bills."),
        Agent("broken", model=Gated(Broken(), gate)),
        Agent("failing", model=Gated(Failing(), gate)),
        Agent(
            "porter",
            model=model("porter-1", said("I weigh.", ("weigh", {"parcel": "P"}))),
            tools=[weigh],
        ),
        Agent(
            "payer",
            model=model("desk-1", *[said("I pay.", ("pay", {"euros": n})) for n in (1, 2)]),
            tools=[pay],
        ),
        TELLER,
        Agent(
            "talker",
            model=Gated(FunctionModel(lambda request: "Noted. " + "word " * 100, "talker-1"), gate),
            context_policy=ContextWindowPolicy.of(4_000, max_output_tokens=500, compact_at=0.5),
            sections={"compaction": {"summary_model": "summariser"}},
        ),
        Agent("slow", model=model("slow-1", said("I wait.", ("wait_long", {}))), tools=[wait_long]),
    ]


class Story(NamedTuple):
    agent: str
    deed: Callable[[Runtime, str], Awaitable[object]]


async def wait(runtime: Runtime, run: str) -> None:
    await runtime.wait(run)


async def answer(runtime: Runtime, run: str, given: ToolCallResume) -> None:
    """Answer the question of a run, as soon as it asks one, and wait until it is taken."""
    query = TicketQuery(run_id=run, status=TicketStatus.OPEN)
    while not (tickets := (await runtime.list_tickets(query)).items):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await runtime.decide(run, {tickets[0].key: given})
    while tickets[0] in (await runtime.list_tickets(query)).items:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await runtime.wait(run)


async def answer_twice(runtime: Runtime, run: str) -> None:
    await answer(runtime, run, ToolCallResume.approve())
    await deny(runtime, run)


async def cancel(runtime: Runtime, run: str) -> None:
    while not await runtime.store.load_calls(run):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await runtime.cancel(run)


async def talk_on(runtime: Runtime, run: str) -> None:
    """So much is said that the beginning becomes a summary."""
    thread = (await runtime.wait(run)).thread_id
    for number in range(8):
        await runtime.run("talker", f"{number}: " + "word " * 100, thread=thread)


async def deny(runtime: Runtime, run: str) -> None:
    await answer(runtime, run, ToolCallResume.deny())
    while (found := await runtime.find_run(run)) is None or found.status is not RunStatus.DONE:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


STORIES = {
    "delegates": Story("top", wait),
    "background": Story("office", wait),
    "hand-over": Story("desk", wait),
    "a stream that broke": Story("broken", wait),
    "failed": Story("failing", wait),
    "a call that failed": Story("porter", wait),
    "suspended twice": Story("payer", answer_twice),
    "cancelled": Story("slow", cancel),
    "summary": Story("talker", talk_on),
    "recovered": Story("teller", deny),
}


async def heard(runtime: Runtime, thread: str, into: list[RunEvent]) -> None:
    async for event in runtime.follow(thread, tree=True):
        into.append(event)


async def record(runtime: Runtime, gate: asyncio.Event, name: str, story: Story) -> dict[str, Any]:
    """Play one story with a watcher beside it."""
    thread = _thread(name)
    gate.clear()
    run_id = await _begin(runtime, story, thread)
    live: list[RunEvent] = []
    async with asyncio.TaskGroup() as watching:
        watcher = watching.create_task(heard(runtime, thread, live))
        while not live:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        gate.set()
        await story.deed(runtime, run_id)
        told = follow_tree(runtime.store, LocalBus(), thread, live=False)
        stored = [event async for event in told]
        wanted = {(event.thread_id, event.seq) for event in stored}
        while not wanted <= {(event.thread_id, event.seq) for event in live}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        watcher.cancel()
    runs = (await runtime.list_runs(RunQuery(limit=100))).items
    mine = [run for run in runs if run.thread_id.split("~")[0] == thread]
    rows = [await outline(runtime.store, run.run_id) for run in mine]
    return {
        "name": name,
        "run_id": run_id,
        "live": live,
        "stored": stored,
        "words": {row.message_id: row.words for page in rows for row in page},
        "sums": {run.run_id: _sums(run, mine) for run in mine if run.thread_id == thread},
    }


def _thread(name: str) -> str:
    return name.replace(" ", "-")


async def _begin(runtime: Runtime, story: Story, thread: str) -> str:
    """The id of the story's run; one whose process has died was begun before."""
    for run in (await runtime.list_runs(RunQuery(limit=100))).items:
        if run.thread_id == thread:
            return run.run_id
    return (await runtime.submit(story.agent, "Go on.", thread=thread)).run_id


def _sums(root: RunRecord, runs: list[RunRecord]) -> dict[str, Any]:
    """What the records of a run and of those beneath it say that they have used."""
    beneath = [root]
    for run in beneath:
        beneath += [one for one in runs if one.parent_run_id == run.run_id and one not in beneath]
    costs = [run.cost for run in beneath]
    return {
        "tokens": sum(run.input_tokens + run.output_tokens for run in beneath),
        "cost": sum(cost for cost in costs if cost is not None),
    }


async def record_all(folder: Path) -> list[dict[str, Any]]:
    file, gate = folder / "stories.db", asyncio.Event()
    await crash(file, _thread("recovered"))
    summariser = FunctionModel(lambda request: said("They talked about words."), "summariser")
    runtime = Runtime(
        agents(gate),
        store=f"sqlite:///{file}",
        models={"summariser": summariser},
        prices=PRICED,
    )
    async with runtime:
        return [await record(runtime, gate, name, story) for name, story in STORIES.items()]
