"""Plain tools run in threads of their runtime, one a running call; tools that hang keep no other
from running, and a call that never began is never called unknown."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from run_kit import results

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import CancelOutcome
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response, tool_calls_response
from awaken.tool.thread_pool import ToolThreads

pytestmark = pytest.mark.anyio

PATIENCE = 100
"""Seconds after which something counts as stuck."""


def answer(request: InferenceRequest) -> Any:
    """Call the tool the user names, and say what it answered."""
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return text_response(last.text())
    names = last.text().split()
    if len(names) > 1:
        return tool_calls_response("", *((name, f"c{n}", {}) for n, name in enumerate(names)))
    return tool_call_response("", names[0], "c1", {})


@asynccontextmanager
async def runtime_of(*tools: Tool, **options: Any) -> AsyncIterator[Runtime]:
    agent = Agent("a", model=FunctionModel(answer), tools=list(tools))
    async with asyncio.timeout(PATIENCE), Runtime([agent], **options) as runtime:
        yield runtime


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110  # what happens in a thread sets no event
        await asyncio.sleep(0)


class Holding:
    """A plain tool that holds its thread until it is let go."""

    def __init__(self, name: str, **options: Any) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.calls = 0

        @tool(name=name, **options)
        def hold() -> str:
            """Hold."""
            self.calls += 1
            self.begun.release()
            assert self.go_on.wait(PATIENCE)
            return "let go"

        self.tool: Tool = hold

    async def hang_in(self, runtime: Runtime, times: int) -> None:
        """Let calls of the tool run out of time, so many of them after they had begun."""
        for n in itertools.count():
            if self.calls == times:
                return
            name = self.tool.descriptor().name
            result = await runtime.run("a", name, thread=f"hang-{times}-{n}")
            assert result.response.startswith(("Timeout: ", "Execution failed: not started"))

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE)


@pytest.fixture
def holder() -> Iterator[Holding]:
    holding = Holding("hold", effect="read")
    yield holding
    holding.go_on.set()


@pytest.fixture
def hanger() -> Iterator[Holding]:
    holding = Holding("hang", effect="read", timeout=0.01)
    yield holding
    holding.go_on.set()


@tool(effect="once")
def pay() -> str:
    """Pay."""
    return "paid"


async def test_as_many_plain_tools_run_at_once_as_there_are_threads() -> None:
    """200 runs, each of whose tools waits for all the others."""
    at_once = threading.Barrier(200)

    @tool(effect="read")
    def meet() -> str:
        """Meet."""
        at_once.wait(PATIENCE)
        return "met"

    async with runtime_of(meet, tool_threads=200) as runtime, asyncio.TaskGroup() as group:
        runs = [group.create_task(runtime.run("a", "meet", thread=f"t{n}")) for n in range(200)]

    assert {run.result().response for run in runs} == {"met"}


async def test_calls_beyond_the_limit_wait_for_a_thread(holder: Holding) -> None:
    async with runtime_of(holder.tool, pay, tool_threads=1) as runtime:
        held = asyncio.create_task(runtime.run("a", "hold", thread="t1"))
        await holder.has_begun()
        waiting = asyncio.create_task(runtime.run("a", "pay", thread="t2"))
        also = asyncio.create_task(runtime.run("a", "pay", thread="t3"))
        await until(lambda: runtime.engine.tool_threads.waiting() == ["pay", "pay"])
        assert runtime.engine.tool_threads.under_way() == ["hold"]
        holder.go_on.set()

        assert (await held).response == "let go"
        assert (await waiting).response == "paid"
        assert (await also).response == "paid"


async def test_tools_that_hang_keep_no_other_from_running(
    hanger: Holding, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime_of(hanger.tool, pay, tool_threads=2) as runtime:
        with caplog.at_level(logging.WARNING, logger="awaken.tool"):
            await hanger.hang_in(runtime, 5)
        assert "tool 'hang' was abandoned, and still holds its thread" in caplog.text

        assert (await runtime.run("a", "pay", thread="t")).response == "paid"


async def test_a_call_that_waits_gets_the_place_of_one_that_is_given_up(hanger: Holding) -> None:
    async with runtime_of(hanger.tool, pay, tool_threads=1) as runtime:
        both = await runtime.run("a", "hang pay", thread="t")

        assert both.termination == NATURAL_END
        assert results(await runtime.messages("t"))["c1"] == "paid"


async def test_a_call_no_thread_was_free_for_is_not_started_and_never_unknown(
    holder: Holding,
) -> None:
    begun: list[bool] = []

    @tool(effect="once", timeout=0.01)
    def charge() -> str:
        """Charge."""
        begun.append(True)
        return "charged"

    store = MemoryStore()
    async with runtime_of(holder.tool, charge, tool_threads=1, store=store) as runtime:
        held = asyncio.create_task(runtime.run("a", "hold", thread="t1"))
        await holder.has_begun()
        result = await runtime.run("a", "charge", thread="t2")
        holder.go_on.set()
        await held

    assert "not started: tool 'charge' got none of the 1 threads for tools" in result.response
    assert "unknown" not in result.response
    [entry] = await store.load_calls(result.run_id)
    assert entry.phase.value == "failed"
    assert not begun


async def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_never_began(
    holder: Holding,
) -> None:
    begun: list[bool] = []

    @tool(effect="once")
    def charge() -> str:
        """Charge."""
        begun.append(True)
        return "charged"

    store = MemoryStore()
    async with runtime_of(holder.tool, charge, tool_threads=1, store=store) as runtime:
        held = asyncio.create_task(runtime.run("a", "hold", thread="t1"))
        await holder.has_begun()
        running = asyncio.create_task(runtime.run("a", "charge", thread="t2"))
        await until(lambda: runtime.engine.tool_threads.waiting() == ["charge"])

        receipt = await runtime.cancel("t2")

        result = await running
        assert result.termination == CANCELLED
        assert receipt.complete
        assert [i.outcome for i in receipt.items if i.kind == "call"] == [CancelOutcome.STOPPED]
        assert "unknown" not in results(await runtime.messages("t2"))["c1"]
        [entry] = await store.load_calls(result.run_id)
        assert entry.phase.value == "cancelled"
        holder.go_on.set()
        await held
        assert (await runtime.run("a", "charge", thread="t3")).response == "charged"
    assert begun == [True]


async def test_a_thread_that_was_given_up_and_comes_back_is_used_again(hanger: Holding) -> None:
    async with runtime_of(hanger.tool, pay, tool_threads=1) as runtime:
        threads = runtime.engine.tool_threads
        await hanger.hang_in(runtime, 1)
        assert threads.under_way() == ["hang"]
        hanger.go_on.set()
        await until(lambda: not threads.under_way())
        for n in range(3):
            assert (await runtime.run("a", "pay", thread=f"p{n}")).response == "paid"
        assert threads.under_way() == []


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None, "many"])
async def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    agent = Agent("a", model=FunctionModel(answer))
    with pytest.raises(ConfigError, match="tool_threads is a whole number from 1 on"):
        Runtime([agent], tool_threads=limit)


FORKING = """
import asyncio, os
from awaken.tool.thread_pool import ToolThreads

threads = ToolThreads(1)

def work():
    print(asyncio.run(threads.call("work", lambda: "worked", {})), flush=True)

work()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    work()
"""


async def test_a_process_that_forked_has_threads_of_its_own() -> None:
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert child.stdout == "worked\nworked\n", child.stderr


# -- the end of the runtime --------------------------------------------------------------------


async def test_the_idle_threads_of_a_runtime_end_when_it_is_closed(
    hanger: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that opens a runtime for each request would have hundreds of them."""
    monkeypatch.setattr(sys.modules[ToolThreads.__module__], "KEPT_IDLE", 10.0 * PATIENCE)
    before = set(threading.enumerate())

    @tool
    def quick() -> str:
        """Answer."""
        return "quick"

    async with runtime_of(quick, hanger.tool) as runtime:
        await hanger.hang_in(runtime, 1)
        await runtime.run("a", "quick", thread="t")
    held = set(threading.enumerate()) - before
    assert held, "the thread of the call that hangs, at least"
    hanger.go_on.set()
    for thread in held:
        await asyncio.to_thread(thread.join, PATIENCE / 10)
    assert not any(thread.is_alive() for thread in held)


async def test_a_call_after_the_end_is_still_made() -> None:
    threads = ToolThreads(1)
    await threads.call("first", lambda: None, {})
    threads.close()
    assert await threads.call("late", lambda: "made", {}) == "made"
    assert await threads.call("later", lambda: "made", {}) == "made"


# -- the end of the process -------------------------------------------------------------------

PROGRAM = """
import asyncio, atexit, threading
from awaken import Agent, Runtime, tool
from awaken.testing import FunctionModel, tool_call_response
from awaken.tool import thread_pool

begun, go_on = threading.Event(), threading.Event()

@tool(effect="once")
def work() -> str:
    "Work."
    begun.set()
    go_on.wait()
    print("wrote", flush=True)
    return "written"

model = FunctionModel(lambda _: tool_call_response("", "work", "c1", {}))
agent = Agent("a", model=model, tools=[work])

async def main():
    async with Runtime([agent]) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
        while not begun.is_set():
            await asyncio.sleep(0)
        await runtime.cancel("t")
        await run
    print("closed", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("at_exit", "told"),
    [
        ("thread_pool.EXIT_GRACE = 0.05", "closed\n"),
        ("atexit.register(go_on.set)", "closed\nwrote\n"),
    ],
    ids=["one that hangs", "one that is about to end"],
)
async def test_a_process_ends_though_a_tool_hangs_and_lets_others_finish(
    at_exit: str, told: str
) -> None:
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", f"{PROGRAM}\n{at_exit}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert child.stdout == told, child.stderr
    assert child.returncode == 0


async def test_a_thread_keeps_nothing_of_the_calls_it_has_made() -> None:
    class Large:
        """Stands for much data."""

    threads = ToolThreads(1)
    given = Large()
    kept = weakref.ref(given)
    assert await threads.call("keep", lambda value: value, {"value": given}) is given
    del given
    await threads.call("next", lambda: None, {})  # the same thread has gone on to it
    gc.collect()
    assert kept() is None
