"""Cancelling a run says, within a deadline, what became of every run and call of its tree."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from receipt_kit import Site, T, caller, outcomes
from run_kit import Piece

from awaken import Agent, Command, PhaseContext, Runtime
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Phase, RunStatus
from awaken.core.run import CancelOutcome, CancelReceipt, RunRecord
from awaken.core.store.commits import Fence
from awaken.core.store.threads import RunQuery
from awaken.core.thread import Thread
from awaken.errors import ConfigError, StoreError, StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, tool_calls_response

pytestmark = pytest.mark.anyio

STOPPED, FINISHED, UNKNOWN = CancelOutcome
MAY_HAVE = "it is unknown whether it took effect"
TOO_LATE = "it had not ended in time"


# -- the calls of one run ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "fates", "noted", "options"),
    [
        (["read"], "stopped", [], {}),
        (["once"], "stopped", ["once"], {}),
        (["block"], "unknown", ["block"], {}),
        (
            ["quick", "read", "once", "block"],
            "finished stopped stopped unknown",
            ["once", "block"],
            {},
        ),
        (["read", "once", "block"], "stopped stopped stopped", [], {"sequential": True}),
    ],
    ids=[
        "a call that can be stopped was stopped",
        "a call that must run once was stopped, and may have taken effect",
        "of a thread that cannot be stopped nobody can tell: it goes on, though its run is over",
        "side by side, each call has its own fate",
        "one after another, calls that never began were stopped: they have done nothing",
    ],
)
async def test_each_call_has_its_own_fate(
    names: list[str], fates: str, noted: list[str], options: dict[str, Any]
) -> None:
    site, calls = Site(), 1 if options else len(set(names) - {"quick"})

    async with (
        Runtime([site.agent(*names, **options)]) as runtime,
        site.busy(runtime, calls=calls) as task,
    ):
        receipt = await runtime.cancel(T)
        result = await task
        assert not site.unblock.is_set()

    assert result.termination == CANCELLED
    assert receipt
    run, *called = receipt.items
    assert (run.id, run.run_id) == (result.run_id, result.run_id)
    assert outcomes(receipt) == [
        ("run", "digger", "stopped"),
        *(("call", name, fate) for name, fate in zip(names, fates.split(), strict=True)),
    ]
    assert [(item.id, item.run_id) for item in called] == [
        (f"{name}-{number}", result.run_id) for number, name in enumerate(names)
    ]
    assert [(item.name, item.note) for item in receipt.items if item.note] == [
        (name, MAY_HAVE) for name in noted
    ]
    assert receipt.complete == ("unknown" not in fates)
    for outcome in CancelOutcome:
        assert receipt.of(outcome) == tuple(i for i in receipt.items if i.outcome is outcome)


async def test_calls_of_earlier_steps_are_in_it_too() -> None:
    site = Site()
    steps = iter([("quick",), ("quick", "quick"), ("read",)])

    def answer(_: Any) -> Any:
        names = next(steps)
        return tool_calls_response("", *[(name, f"{name}-{n}", {}) for n, name in enumerate(names)])

    agent = Agent("digger", model=FunctionModel(answer), tools=site.tools)
    async with Runtime([agent]) as runtime, site.busy(runtime):
        receipt = await runtime.cancel(T)

    assert outcomes(receipt) == [
        ("run", "digger", "stopped"),
        *[("call", "quick", "finished")] * 3,
        ("call", "read", "stopped"),
    ]


async def test_a_run_without_calls_is_an_item_of_its_own() -> None:
    """It is cancelled while the model speaks."""
    speaking = asyncio.Event()

    async def speak(_: Any) -> Any:
        speaking.set()
        await asyncio.Event().wait()

    agent = Agent("speaker", model=FunctionModel(speak))
    async with Runtime([agent]) as runtime, asyncio.timeout(100):
        task = asyncio.ensure_future(runtime.run("speaker", "go", thread=T))
        await speaking.wait()
        receipt = await runtime.cancel((await the_run(runtime)).run_id)
        await task

    assert outcomes(receipt) == [("run", "speaker", "stopped")]


async def the_run(runtime: Runtime) -> RunRecord:
    (run,) = await runtime.list_runs()
    return run


async def told_to_stop(runtime: Runtime) -> None:
    """Wait until a cancel has reached the live run."""
    live = runtime.engine.active.find_by_thread(T)
    assert live is not None
    await live.token.cancelled()


async def cancel_before(
    runtime: Runtime, task: asyncio.Future[Any], let_go: asyncio.Event
) -> tuple[CancelReceipt, Any]:
    """Cancel a run that is held, let it go once it knows, and wait for both."""
    cancelling = asyncio.ensure_future(runtime.cancel(T))
    await told_to_stop(runtime)
    let_go.set()
    return await cancelling, await task


class SlowEnd:
    """A plugin: the last phase of a run takes until it is let go."""

    def __init__(self, is_slow: Callable[[PhaseContext], bool] = lambda _: True) -> None:
        self.ending, self.let_go = asyncio.Event(), asyncio.Event()
        self.plugin = Piece("slow-end", lambda r: r.hook(Phase.RUN_END, self._end))
        self._is_slow = is_slow

    async def _end(self, ctx: PhaseContext) -> Command | None:
        if self._is_slow(ctx):
            self.ending.set()
            await self.let_go.wait()
        return None


# -- runs that wait, have ended, or were never there ------------------------------------------


async def test_a_run_that_waits_is_stopped_where_nobody_runs_it() -> None:
    site = Site()

    async with Runtime([site.agent("quick", "pay")]) as runtime:
        result = await runtime.run("digger", "go", thread=T)
        assert result.suspended
        receipt = await runtime.cancel(T)
        run = await the_run(runtime)

    assert run.termination_reason == CANCELLED
    assert outcomes(receipt) == [
        ("run", "digger", "stopped"),
        ("call", "quick", "finished"),
        ("call", "pay", "stopped"),
    ]


async def test_a_desk_without_agents_gets_the_same_receipt() -> None:
    store, site = MemoryStore(), Site()
    runtime = Runtime([site.agent("quick", "pay")], store=store, recover=False)
    await runtime.run("digger", "go", thread=T)

    receipt = await Runtime([], store=store, recover=False).cancel(T)

    assert [item.outcome for item in receipt.items] == [STOPPED, FINISHED, STOPPED]


@pytest.mark.parametrize("over", [False, True])
async def test_nothing_to_cancel_is_false_and_empty(over: bool) -> None:
    async with Runtime([Agent("quick", model=FunctionModel(caller()))]) as runtime:
        if over:
            await runtime.run("quick", "go", thread=T)
        receipt = await runtime.cancel(T)

    assert receipt == CancelReceipt(accepted=False)
    assert not receipt


async def test_a_run_that_comes_to_its_end_by_itself_had_finished() -> None:
    """It was cancelled when nothing but its last phase was left."""
    slow, site = SlowEnd(), Site()
    agent = site.agent("quick", plugins=[slow.plugin])
    async with Runtime([agent]) as runtime, asyncio.timeout(100):
        task = asyncio.ensure_future(runtime.run("digger", "go", thread=T))
        await slow.ending.wait()
        receipt, result = await cancel_before(runtime, task, slow.let_go)

    assert result.termination == NATURAL_END
    assert receipt
    assert outcomes(receipt) == [("run", "digger", "finished"), ("call", "quick", "finished")]


class SlowClaim(MemoryStore):
    """A store that lets nobody have a thread until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go = asyncio.Event(), asyncio.Event()

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        self.asked.set()
        await self.let_go.wait()
        return await super().claim(thread_id, at_ms=at_ms)


async def test_a_run_that_has_not_begun_is_in_the_receipt_once_it_has_ended() -> None:
    store, site = SlowClaim(), Site()
    async with Runtime([site.agent("once")], store=store, recover=False) as runtime:
        async with asyncio.timeout(100):
            task = asyncio.ensure_future(runtime.run("digger", "go", thread=T))
            await store.asked.wait()
            receipt, result = await cancel_before(runtime, task, store.let_go)

    assert result.termination == CANCELLED
    assert outcomes(receipt) == [("run", "digger", "stopped")]


# -- the deadline -----------------------------------------------------------------------------


async def test_what_does_not_end_in_time_is_unknown() -> None:
    site = Site()

    async with Runtime([site.agent("quick", "stubborn")]) as runtime, site.busy(runtime) as task:
        receipt = await runtime.cancel(T, deadline=0.05)
        assert not task.done()

    assert receipt
    assert not receipt.complete
    assert outcomes(receipt) == [
        ("run", "digger", "unknown"),
        ("call", "quick", "finished"),
        ("call", "stubborn", "unknown"),
    ]
    assert [item.note for item in receipt.items] == [TOO_LATE, None, TOO_LATE]
    assert (await task).termination == CANCELLED, "the wish holds, however long it takes"


async def test_without_a_deadline_to_wait_for_it_is_asked_all_the_same() -> None:
    site = Site()

    async with Runtime([site.agent("read")]) as runtime, site.busy(runtime) as task:
        receipt = await runtime.cancel(T, deadline=0)
        result = await task

    assert receipt
    assert result.termination == CANCELLED


async def test_closing_a_run_that_only_waits_may_not_take_longer_either() -> None:
    """Its last phase is slow; the run is ended by this process, and goes on ending."""
    slow = SlowEnd(lambda ctx: ctx.cancellation_token is None)
    site, store = Site(), MemoryStore()
    first = Runtime([site.agent("pay")], store=store, recover=False)
    await first.run("digger", "go", thread=T)

    agent = site.agent("pay", plugins=[slow.plugin])
    async with Runtime([agent], store=store, recover=False) as runtime, asyncio.timeout(100):
        receipt = await runtime.cancel(T, deadline=0.05)
        assert slow.ending.is_set()
        assert outcomes(receipt)[0] == ("run", "digger", "unknown")
        slow.let_go.set()
        again = await runtime.cancel(T)

    run = await store.latest_run(T)
    assert run is not None
    assert run.termination_reason == CANCELLED
    assert again.complete


@pytest.mark.parametrize("deadline", [-1.0, float("nan")])
async def test_a_deadline_is_a_time_to_come(deadline: float) -> None:
    async with Runtime([Agent("a", model="demo")]) as runtime:
        with pytest.raises(ConfigError, match="deadline"):
            await runtime.cancel(T, deadline=deadline)


class Refusing(MemoryStore):
    """A store that keeps no commands."""

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        raise StoreUnavailable("no commands today")


async def test_a_cancel_that_cannot_be_kept_says_so() -> None:
    site = Site()

    async with Runtime([site.agent("read")], store=Refusing()) as runtime, site.busy(runtime):
        with pytest.raises(StoreError, match="no commands today"):
            await runtime.cancel(T)


# -- trees ------------------------------------------------------------------------------------


def family(site: Site, *leaf_calls: str) -> list[Agent]:
    """A root that gives a task to a middle, which gives one to a leaf."""
    return [
        site.agent("quick", "agent_run_middle", id="root", delegates=["middle"]),
        site.agent("agent_run_leaf", id="middle", delegates=["leaf"]),
        site.agent(*leaf_calls, id="leaf"),
    ]


async def test_delegates_are_part_of_it_on_every_level() -> None:
    site = Site()

    async with Runtime(family(site, "quick", "once", "block")) as runtime:
        async with site.busy(runtime, "root", calls=2):
            receipt = await runtime.cancel(T)
        runs = await runtime.list_runs()

    assert outcomes(receipt) == [
        ("run", "root", "stopped"),
        ("call", "quick", "finished"),
        ("call", "agent_run_middle", "stopped"),
        ("run", "middle", "stopped"),
        ("call", "agent_run_leaf", "stopped"),
        ("run", "leaf", "stopped"),
        ("call", "quick", "finished"),
        ("call", "once", "stopped"),
        ("call", "block", "unknown"),
    ]
    assert {run.termination_reason for run in runs} == {CANCELLED}


async def test_a_delegate_can_be_cancelled_alone() -> None:
    site = Site()

    async with Runtime(family(site, "read")) as runtime, site.busy(runtime, "root") as task:
        (middle,) = [r for r in await runtime.list_runs() if r.agent_id == "middle"]
        receipt = await runtime.cancel(middle.run_id)
        result = await task

    assert [item.name for item in receipt.items if item.kind == "run"] == ["middle", "leaf"]
    assert result.termination == NATURAL_END, "its parent is told, and goes on"


async def test_a_delegate_that_was_done_before_is_not_in_it() -> None:
    site = Site()
    root = site.agent("agent_run_leaf", "read", id="root", delegates=["leaf"], sequential=True)

    agents = [root, site.agent("quick", id="leaf")]
    async with Runtime(agents) as runtime, site.busy(runtime, "root"):
        receipt = await runtime.cancel(T)

    assert outcomes(receipt) == [
        ("run", "root", "stopped"),
        ("call", "agent_run_leaf", "finished"),
        ("call", "read", "stopped"),
    ]


async def test_a_tree_that_waits_is_ended_on_every_level() -> None:
    """A leaf asks for an approval: nobody runs any of them."""
    site = Site()

    async with Runtime(family(site, "pay")) as runtime:
        result = await runtime.run("root", "go", thread=T)
        assert result.suspended
        receipt = await runtime.cancel(T)
        runs = await runtime.list_runs()
        assert not await runtime.list_tickets()

    assert {run.termination_reason for run in runs} == {CANCELLED}
    assert receipt.complete
    assert [item.name for item in receipt.items if item.kind == "run"] == [
        "root",
        "middle",
        "leaf",
    ]
    assert {item.outcome for item in receipt.items if item.name != "quick"} == {STOPPED}


async def test_tasks_in_the_background_are_part_of_it() -> None:
    """Their owner waits for them, and they end with it."""
    site = Site()
    read, once = site.tools[:2]
    agent = Agent("owner", model=FunctionModel(caller("read", "once")), background=[read, once])

    async with Runtime([agent]) as runtime, asyncio.timeout(100):
        result = await runtime.run("owner", "go", thread=T)
        for _ in range(2):
            await site.begun.acquire()
        receipt = await runtime.cancel(T)
        run = await runtime.find_run(result.run_id)

    assert run is not None
    assert run.termination_reason == CANCELLED
    assert Counter(outcomes(receipt)) == {
        ("run", "owner", "stopped"): 1,
        ("call", "read", "finished"): 1,
        ("call", "once", "finished"): 1,
        ("task", "read", "stopped"): 1,
        ("task", "once", "stopped"): 1,
    }


class HardOfHearing(MemoryStore):
    """Commands are heard only once somebody lets them be."""

    def __init__(self) -> None:
        super().__init__()
        self.watched, self.heard = asyncio.Event(), asyncio.Event()

    async def wait_changed(self, thread_id: str, since: int) -> int:
        self.watched.set()
        return await super().wait_changed(thread_id, since)

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        await self.heard.wait()
        async for threads in super().watch_commands():
            yield threads


@pytest.mark.parametrize(
    ("call", "items"),
    [
        (
            ("agent_run_leaf", "d", {"prompt": "go"}),
            [
                ("call", "agent_run_leaf", "stopped"),
                ("run", "leaf", "stopped"),
                ("call", "read", "stopped"),
            ],
        ),
        (("read", "b", {}), [("call", "read", "finished"), ("task", "read", "stopped")]),
    ],
    ids=["a delegate", "a task"],
)
async def test_what_a_run_starts_before_it_hears_of_the_cancel_is_in_the_receipt(
    call: tuple[str, str, Any], items: list[tuple[str, str, str]]
) -> None:
    """It runs in another process, and starts something after the cancel was sent."""
    store, site = HardOfHearing(), Site()
    ready, begin = asyncio.Event(), asyncio.Event()

    async def answer(_: Any) -> Any:
        if not begin.is_set():
            ready.set()
            await begin.wait()
            return tool_calls_response("", call)
        await asyncio.Event().wait()

    model, is_task = FunctionModel(answer), call[0] == "read"
    root = Agent(
        "root",
        model=model,
        background=[site.tools[0]] if is_task else [],
        delegates=[] if is_task else ["leaf"],
    )
    there = Runtime([root, site.agent("read", id="leaf")], store=store, recover=False)
    here = Runtime([], store=store, recover=False)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(there.run("root", "go", thread=T))
        await ready.wait()
        cancelling = group.create_task(here.cancel(T))
        await store.watched.wait()
        begin.set()
        await site.begun.acquire()
        store.heard.set()

    assert run.result().termination == CANCELLED
    assert outcomes(cancelling.result()) == [("run", "root", "stopped"), *items]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_tree_of_111_agents_is_ended_from_its_root(kind: str, tmp_path: Path) -> None:
    """One, ten, a hundred: every run and call of it is in the receipt, and nothing goes on."""
    site = Site()
    agents = [
        site.agent(*["agent_run_middle"] * 10, id="root", delegates=["middle"]),
        site.agent(*["agent_run_leaf"] * 10, id="middle", delegates=["leaf"]),
        site.agent("read", id="leaf"),
    ]
    store = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'awaken.db'}"

    async with Runtime(agents, store=store) as runtime:
        async with site.busy(runtime, "root", calls=100) as task:
            receipt = await runtime.cancel(T)
            assert (await task).termination == CANCELLED
        runs = await runtime.list_runs(RunQuery(limit=1_000))

    assert Counter(item.kind for item in receipt.items) == {"run": 111, "call": 210}
    assert {item.outcome for item in receipt.items} == {STOPPED}
    assert {item.id for item in receipt.items if item.kind == "run"} == {r.run_id for r in runs}
    assert Counter((run.status, run.agent_id) for run in runs) == {
        (RunStatus.DONE, "root"): 1,
        (RunStatus.DONE, "middle"): 10,
        (RunStatus.DONE, "leaf"): 100,
    }


# -- other processes --------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
sys.path.insert(0, {here!r})
from receipt_kit import T, Site
from awaken import Runtime

async def main():
    site = Site()
    agents = [
        site.agent("quick", "agent_run_leaf", id="root", delegates=["leaf"]),
        site.agent("once", "read", id="leaf"),
    ]
    async with Runtime(agents, store=sys.argv[1]) as runtime:
        async with site.busy(runtime, "root", calls=2) as task:
            print("ready", flush=True)
            await task
    print(task.result().termination, flush=True)

asyncio.run(main())
"""


@contextmanager
def another_process(store: str) -> Iterator[Callable[[], str]]:
    """A process with a run in the middle of its calls; gives what it says next."""
    source = PROGRAM.format(here=str(Path(__file__).parent))
    process = subprocess.Popen(
        [sys.executable, "-c", source, store], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = process.stdout
    try:
        assert lines.readline() == "ready\n"
        yield lambda: lines.readline().strip()
    finally:
        process.kill()
        process.communicate()


async def test_a_tree_in_another_process_is_ended_there(tmp_path: Path) -> None:
    """This one has none of its agents; it waits until the other has told the store."""
    store = f"sqlite:///{tmp_path / 'awaken.db'}"

    with another_process(store) as said:
        async with Runtime([], store=store) as runtime, asyncio.timeout(100):
            receipt = await runtime.cancel(T, deadline=15)
            ended = await asyncio.to_thread(said)

    assert ended == str(CANCELLED)
    assert outcomes(receipt) == [
        ("run", "root", "stopped"),
        ("call", "quick", "finished"),
        ("call", "agent_run_leaf", "stopped"),
        ("run", "leaf", "stopped"),
        ("call", "once", "stopped"),
        ("call", "read", "stopped"),
    ]


async def test_a_tree_whose_process_was_killed_is_ended_here(tmp_path: Path) -> None:
    """Nobody can tell what became of calls that were under way; all else is said."""
    store = f"sqlite:///{tmp_path / 'awaken.db'}"
    with another_process(store):
        pass

    async with Runtime([], store=store) as runtime, asyncio.timeout(100):
        receipt = await runtime.cancel(T, deadline=15)
        runs = await runtime.list_runs()

    assert {run.termination_reason for run in runs} == {CANCELLED}
    assert [item.name for item in receipt.items if item.kind == "run"] == ["root", "leaf"]
    assert {item.outcome for item in receipt.items if item.kind == "run"} == {STOPPED}
    fates = {item.name: item.outcome for item in receipt.items if item.kind == "call"}
    assert fates == {
        "quick": FINISHED,
        "agent_run_leaf": UNKNOWN,
        "once": UNKNOWN,
        "read": UNKNOWN,
    }
    assert {item.note for item in receipt.of(UNKNOWN)} == {MAY_HAVE}
