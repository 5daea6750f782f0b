"""Draining: every run is left for other processes, and the runtime stays open (06 §2.11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.errors import RunLeft, RuntimeFault
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

PATIENCE = 100


class Node:
    """A process with an agent that looks twice before it answers."""

    def __init__(self, path: Path) -> None:
        self.looking, self.looked = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.looking.set()
            await self.looked.wait()
            return "seen"

        agent = Agent("a", model=FunctionModel(self.answer), tools=[look])
        self.runtime = Runtime([agent], store=f"sqlite:///{path}")

    def answer(self, request: InferenceRequest) -> StreamResult:
        turns = sum(message.tool_calls is not None for message in request.messages)
        if turns == 2:
            return text_response("done")
        return tool_call_response("", "look", f"c{turns}", {})


async def test_every_run_of_a_drained_runtime_goes_on_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    one, two = Node(path), Node(path)
    async with asyncio.timeout(PATIENCE), one.runtime as here:
        run = asyncio.ensure_future(here.run("a", "go", thread="mine"))
        submitted = await here.submit("a", "go", thread="theirs")
        await one.looking.wait()
        while len(here.engine.active.all()) < 2:
            await here.store.wait_changed("theirs", 0)
            await asyncio.sleep(0)
        draining = asyncio.ensure_future(here.drain(PATIENCE))
        await asyncio.sleep(0)
        one.looked.set()
        await draining
        with pytest.raises(RunLeft):
            await run
        assert not here.engine.active
        with pytest.raises(RuntimeFault, match="draining"):
            await here.run("a", "more")
        later = await here.submit("a", "go", thread="later")
        for found in await here.list_runs():
            assert found.status is not RunStatus.DONE

        two.looked.set()
        async with two.runtime as there:
            for id in ("mine", submitted.run_id, later.run_id):
                assert (await there.wait(id, timeout=PATIENCE)).termination == NATURAL_END


async def test_a_step_that_outlasts_the_grace_is_left_at_its_last_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    one, two = Node(path), Node(path)
    async with asyncio.timeout(PATIENCE), one.runtime as here:
        run = asyncio.ensure_future(here.run("a", "go", thread="t"))
        await one.looking.wait()
        await here.drain(0)
        with pytest.raises(RunLeft):
            await run
        two.looked.set()
        async with two.runtime as there:
            assert (await there.wait("t", timeout=PATIENCE)).termination == NATURAL_END
