"""A runtime has one event loop: `run_sync` from any thread, `run` from one loop only."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from front_kit import pay

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import CANCELLED
from awaken.core.llm import InferenceRequest
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError
from awaken.testing import FunctionModel, text_response, tool_call_response

PATIENCE = 100
CALLERS = 8
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'a.db'}"


def caller(*tools: Tool, **options: Any) -> Agent:
    """An agent that calls the tool it is told to call, and repeats what that says."""

    def answer(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.is_visible_user():
            name, _, n = last.text().partition(" ")
            return tool_call_response("", name, "c", {"n": int(n)} if n else {})
        return text_response(last.text())

    return Agent("a", model=FunctionModel(answer), tools=list(tools), **options)


class Gate:
    """A tool, `hold`, that says when it has begun, and goes on until it is let go."""

    def __init__(self) -> None:
        self.begun, self._go = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

        @tool(effect="read")
        async def hold() -> str:
            """Hold on."""
            self._loop = asyncio.get_running_loop()
            self.begun.set()
            await self._go.wait()
            return "held"

        self.tool: Tool = hold

    def open(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._go.set)

    @contextmanager
    def busy(self, work: Any) -> Iterator[Any]:
        """Work in another thread that holds on until the block ends."""
        with ThreadPoolExecutor(1) as executor:
            future = executor.submit(work)
            try:
                assert self.begun.wait(PATIENCE)
                yield future
            finally:
                self.open()


def test_run_sync_works_from_many_threads_at_once_and_does_all_once(store: str) -> None:
    done, all_there = list[int](), asyncio.Event()

    @tool
    async def work(n: int) -> str:
        """Work, beside all the others."""
        done.append(n)
        if len(done) == CALLERS:
            all_there.set()
        await all_there.wait()
        return f"did {n}"

    runtime = Runtime([caller(work)], store=store)
    with ThreadPoolExecutor(CALLERS) as executor:
        answers = executor.map(
            lambda n: runtime.run_sync("a", f"work {n}", thread=f"t{n}").response, range(CALLERS)
        )
        assert list(answers) == [f"did {n}" for n in range(CALLERS)]
    assert sorted(done) == list(range(CALLERS))
    asyncio.run(runtime.close())


def test_callers_that_queue_for_one_thread_all_get_their_turn(store: str) -> None:
    @tool
    async def work(n: int) -> str:
        """Work."""
        await asyncio.sleep(0)
        return f"did {n}"

    runtime = Runtime([caller(work)], store=store)
    with ThreadPoolExecutor(CALLERS) as executor:
        answers = executor.map(
            lambda n: runtime.run_sync("a", f"work {n}", thread="t", when_busy="queue").response,
            range(CALLERS),
        )
        assert sorted(answers) == [f"did {n}" for n in range(CALLERS)]
    asyncio.run(runtime.close())


def test_callers_may_come_while_the_last_one_leaves() -> None:
    """The loop of those before is on its way to be closed."""
    runtime = Runtime([Agent("a", model=FunctionModel(lambda _: "well"))])

    def often(n: int) -> list[str]:
        return [runtime.run_sync("a", "hello", thread=f"t{n}").response for _ in range(60)]

    with ThreadPoolExecutor(3) as executor:
        assert list(executor.map(often, range(3))) == [["well"] * 60] * 3


def test_a_caller_of_run_sync_does_not_wait_for_the_runs_of_others() -> None:
    gate = Gate()
    runtime = Runtime([caller(gate.tool)])
    with gate.busy(lambda: runtime.run_sync("a", "hold", thread="t").response) as other:
        quick = Agent("quick", model=FunctionModel(lambda _: "hello"))
        runtime.replace([quick])
        assert runtime.run_sync("quick", "hello", thread="u").response == "hello"
        assert not other.done()
    assert other.result() == "held"


def test_run_in_a_second_event_loop_is_refused_before_anything_is_done(store: str) -> None:
    gate = Gate()
    runtime = Runtime([caller(gate.tool)], store=store)
    with gate.busy(lambda: asyncio.run(runtime.run("a", "hold", thread="t")).response) as first:
        with pytest.raises(ConfigError, match="belongs to another event loop"):
            asyncio.run(runtime.run("a", "hold", thread="t", when_busy="queue"))
        with pytest.raises(ConfigError, match="belongs to another event loop"):
            asyncio.run(runtime.cancel("t"))
        assert not first.done()
    assert first.result() == "held"

    log = asyncio.run(runtime.messages("t"))
    assert [message.text() for message in log if message.is_visible_user()] == ["hold"]


def test_a_runtime_may_be_used_in_one_event_loop_after_another(store: str) -> None:
    runtime = Runtime([Agent("a", model=FunctionModel(lambda _: "well"))], store=store)

    async def twice() -> list[str]:
        return [(await runtime.run("a", "hello", thread="t")).response for _ in range(2)]

    assert asyncio.run(twice()) == ["well", "well"]
    assert runtime.run_sync("a", "hello", thread="t").response == "well"
    assert asyncio.run(twice()) == ["well", "well"]
    asyncio.run(runtime.close())


def test_run_sync_in_a_thread_of_an_async_program_works_in_that_programs_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @tool(effect="read")
    async def look() -> str:
        """Look around."""
        loops.append(asyncio.get_running_loop())
        return WHO.get()

    async def program() -> None:
        async with Runtime([caller(look)]) as runtime:
            WHO.set("the program")
            first = await asyncio.to_thread(lambda: runtime.run_sync("a", "look", thread="t"))
            second = await runtime.run("a", "look", thread="u")
            assert (first.response, second.response) == ("the program", "the program")
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(program())


def test_a_tool_may_call_run_sync_itself(store: str) -> None:
    @tool
    def ask(n: int) -> str:
        """Ask the same agent, in another thread."""
        return runtime.run_sync("a", f"ask {n - 1}" if n else "look", thread=f"t{n}").response

    @tool
    async def look() -> str:
        """Look around."""
        return "it is fine"

    runtime = Runtime([caller(ask, look)], store=store)
    assert runtime.run_sync("a", "ask 2", thread="t").response == "it is fine"
    asyncio.run(runtime.close())


def test_a_loop_that_is_open_and_does_not_run_is_not_waited_for() -> None:
    runtime = Runtime([Agent("a", model=FunctionModel(lambda _: "well"))])
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(runtime.run("a", "hello", thread="t"))
        with pytest.raises(ConfigError, match="does not run"):
            runtime.run_sync("a", "hello", thread="t")
    finally:
        loop.close()
    assert runtime.run_sync("a", "hello", thread="t").response == "well"


def test_a_runtime_that_is_closed_meanwhile_cancels_what_run_sync_runs() -> None:
    gate, opened = Gate(), threading.Event()
    runtime = Runtime([caller(gate.tool)])

    async def program() -> None:
        async with runtime:
            opened.set()
            await asyncio.to_thread(gate.begun.wait, PATIENCE)

    with ThreadPoolExecutor(1) as executor:
        program_ends = executor.submit(lambda: asyncio.run(program()))
        assert opened.wait(PATIENCE)
        assert runtime.run_sync("a", "hold", thread="t").termination == CANCELLED
        program_ends.result()


def test_a_loop_that_ends_while_run_sync_works_in_it_leaves_nobody_waiting() -> None:
    gate, opened = Gate(), threading.Event()
    runtime = Runtime([caller(gate.tool)])

    async def program() -> None:
        runtime.engine.one_loop.bind()
        opened.set()
        await asyncio.to_thread(gate.begun.wait, PATIENCE)

    with ThreadPoolExecutor(1) as executor:
        program_ends = executor.submit(lambda: asyncio.run(program()))
        assert opened.wait(PATIENCE)
        with pytest.raises(ConfigError, match="was closed while run_sync worked in it"):
            runtime.run_sync("a", "hold", thread="t")
        program_ends.result()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
def test_what_an_approver_raises_reaches_the_caller_of_run_sync(kind: type[BaseException]) -> None:
    """Also what ends a program: it is meant for the caller's thread."""

    def no(_: Any) -> Any:
        raise kind("enough")

    runtime = Runtime([caller(pay)])
    with pytest.raises(kind, match="enough"):
        runtime.run_sync("a", "pay 3", thread="t", on_approval=no)
    assert runtime.run_sync("a", "pay 3", thread="u", on_approval=lambda _: True).response


INTERRUPTED = """
import asyncio, os, signal, sys
from awaken import Agent, Runtime, tool
from awaken.testing import FunctionModel, tool_call_response

signal.signal(signal.SIGINT, signal.default_int_handler)

@tool
async def hold() -> str:
    "Press Ctrl-C, and hold on."
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

model = FunctionModel(lambda _: tool_call_response("", "hold", "c", {}))
runtime = Runtime([Agent("a", model=model, tools=[hold])], store=f"sqlite:///{sys.argv[1]}")
try:
    runtime.run_sync("a", "hold", thread="t")
except KeyboardInterrupt:
    (run,) = asyncio.run(runtime.list_runs())
    print("interrupted,", run.termination_reason)
"""


def test_ctrl_c_ends_run_sync_and_cancels_its_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "a.db")],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.stdout == "interrupted, CancelledEnd()\n", done.stderr
