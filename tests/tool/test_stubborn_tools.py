"""Calls that do not want to end: no tool can hold up its timeout, or a cancel of its run."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import types
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tool_context import run_tool

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.tool import ToolResult, ToolStatus
from awaken.core.tool_context import ToolCallContext
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_call_response
from awaken.tool import execute

pytestmark = pytest.mark.anyio

PATIENCE = 100


class Stubborn:
    """Swallows every cancellation until it is let go."""

    def __init__(self, **options: Any) -> None:
        self.begun, self.go_on, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @tool(name="stubborn", **options)
        async def stubborn() -> str:
            """Go on."""
            await self.hold()
            return "let go"

        self.tool = stubborn

    async def hold(self) -> None:
        self.begun.set()
        while not self.go_on.is_set():
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                continue
        self.ended.set()


@pytest.fixture
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "STOP_GRACE", 0.01)


async def result_of(called: Any) -> ToolResult:
    result: ToolResult = (await run_tool(called)).result
    return result


@pytest.mark.usefixtures("_short_grace")
async def test_a_tool_that_swallows_its_cancellation_cannot_defeat_its_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stubborn = Stubborn(timeout=0.01)
    model = ScriptedModel([tool_call_response("", "stubborn", "c1", {}), "went on"])
    agent = Agent("a", model=model, tools=[stubborn.tool])

    with caplog.at_level(logging.WARNING, logger="awaken.tool"):
        async with asyncio.timeout(PATIENCE), Runtime([agent]) as runtime:
            result = await runtime.run("a", "go", thread="t")
            assert not stubborn.ended.is_set()

            assert result.termination == NATURAL_END
            [told] = [m.text() for m in await runtime.messages("t") if m.role == "tool"]
            assert told.startswith("Timeout: no answer within 0.01 seconds; it is unknown")
            assert "call 'c1' of tool 'stubborn' ignores its cancellation" in caplog.text
            stubborn.go_on.set()
            await stubborn.ended.wait()
            await asyncio.sleep(0)
    assert "call 'c1' of tool 'stubborn', which was abandoned, has ended" in caplog.text


@pytest.mark.usefixtures("_short_grace")
async def test_a_tool_with_a_timeout_that_swallows_its_cancellation_cannot_hold_up_a_cancel() -> (
    None
):
    stubborn = Stubborn(timeout=3600)
    model = ScriptedModel([tool_call_response("", "stubborn", "c1", {})])
    agent = Agent("a", model=model, tools=[stubborn.tool])

    async with asyncio.timeout(PATIENCE), Runtime([agent]) as runtime:
        run = asyncio.create_task(runtime.run("a", "go", thread="t"))
        await stubborn.begun.wait()
        await runtime.cancel("t")
        assert (await run).termination == CANCELLED
        assert not stubborn.ended.is_set()
        stubborn.go_on.set()
        await stubborn.ended.wait()


@pytest.mark.usefixtures("_short_grace")
async def test_a_verify_that_swallows_its_cancellation_cannot_hold_up_its_run() -> None:
    stubborn, begun, store = Stubborn(), asyncio.Event(), MemoryStore()

    async def verify(_: ToolCallContext) -> bool:
        await stubborn.hold()
        return True

    @tool(timeout=0.01, verify=verify)
    async def deed(ctx: ToolCallContext) -> str:
        """Do it."""
        begun.set()
        raise AssertionError("only its intent is needed")

    @tool(name="deed", verify=verify)
    async def dying() -> str:
        """Do it."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    call = tool_call_response("", "deed", "c1", {})
    async with asyncio.timeout(PATIENCE):
        first = Agent("a", model=ScriptedModel([call]), tools=[dying])
        dead = asyncio.create_task(Runtime([first], store=store).run("a", "go", thread="t"))
        await begun.wait()
        store.forsake()  # as if its process had died
        second = Agent("a", model=ScriptedModel(["went on"]), tools=[deed])
        async with Runtime([second], store=store) as runtime:
            [run] = runtime.recovered
            assert (await run).response == "went on"
            [told] = [m.text() for m in await runtime.messages("t") if m.role == "tool"]
            assert "unknown whether 'deed' took effect" in told
        dead.cancel()
        await asyncio.wait([dead])
        stubborn.go_on.set()
        await stubborn.ended.wait()


async def test_what_a_tool_returns_while_it_is_being_stopped_counts() -> None:
    @tool(timeout=0.01)
    async def late() -> str:
        """Be late."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "paid after all"
        return "never"

    assert (await result_of(late)).model_text() == "paid after all"


async def test_what_a_tool_raises_while_it_is_being_stopped_is_a_timeout() -> None:
    @tool(timeout=0.01)
    async def late() -> str:
        """Be late."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("aborted") from None
        return "never"

    result = await result_of(late)

    assert result.status is ToolStatus.ERROR
    assert result.message == "Timeout: no answer within 0.01 seconds"
    assert result.metadata == {"timed_out": True}


async def test_a_timeout_of_the_tools_own_is_its_own_failure() -> None:
    @tool(timeout=PATIENCE)
    async def impatient() -> str:
        """Be impatient."""
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return "never"

    assert (await result_of(impatient)).message == "Execution failed: TimeoutError: "


async def test_a_tool_that_cancels_its_own_task_ends_its_call() -> None:
    @tool(timeout=PATIENCE)
    async def suicidal() -> str:
        """Cancel yourself."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()
        return "never"

    assert (await result_of(suicidal)).message == "Cancelled: by the tool"


def test_a_call_whose_coroutine_is_closed_does_not_go_on() -> None:
    """As the garbage collector does with what an event loop leaves behind."""

    @types.coroutine
    def pause() -> Generator[None, None, None]:
        yield

    @tool
    async def hang() -> str:
        """Hang."""
        await pause()
        return "never"

    async def caller() -> None:
        await run_tool(hang)
        went_on.append(True)

    went_on: list[bool] = []
    call = caller()
    call.send(None)
    call.close()
    assert not went_on


# -- Ctrl-C -----------------------------------------------------------------------------------

PROGRAM = """
import asyncio, signal, sys
from awaken import Agent, Runtime, tool
from awaken.testing import FunctionModel, tool_call_response

signal.signal(signal.SIGINT, signal.default_int_handler)

@tool{options}
async def work() -> str:
    "Work."
    print("begun", flush=True)
    await asyncio.Event().wait()

model = FunctionModel(lambda _: tool_call_response("", "work", "c1", {{}}))
agent = Agent("a", model=model, tools=[work])

async def main():
    async with Runtime([agent], store=sys.argv[1]) as runtime:
        await runtime.run("a", "go", thread="t")

asyncio.run(main())
"""


@pytest.mark.parametrize("options", ["", "(timeout=3600)"])
async def test_ctrl_c_cancels_the_run_and_ends_the_process(options: str, tmp_path: Path) -> None:
    """asyncio tells of it by cancelling the main task, which no tool can mistake for its own."""
    address = f"sqlite:///{tmp_path}/db"
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM.format(options=options), address), stdout=pipe, stderr=pipe
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"begun\n"
    child.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE):
        _, errors = await child.communicate()

    assert b"KeyboardInterrupt" in errors
    async with Runtime([], store=address, recover=False) as runtime:
        [record] = await runtime.list_runs()
        assert record.termination_reason == CANCELLED
