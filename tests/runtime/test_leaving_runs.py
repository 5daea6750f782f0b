"""Closing a runtime so that the next one goes on."""

from __future__ import annotations

import asyncio

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.errors import ConfigError, RunLeft
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio


class Shop:
    """Charges, then ships; each tool waits until it is told to go on."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.did: list[str] = []
        self.started, self.go = asyncio.Event(), asyncio.Event()

    def runtime(self) -> Runtime:
        @tool
        async def charge() -> str:
            """Charge."""
            self.started.set()
            await self.go.wait()
            self.did.append("charge")
            return "charged"

        @tool
        async def ship() -> str:
            """Ship."""
            self.did.append("ship")
            return "shipped"

        agent = Agent("shop", model=FunctionModel(_next_call), tools=[charge, ship])
        return Runtime([agent], store=self.store, on_close="leave")


def _next_call(request: InferenceRequest) -> StreamResult:
    made = [call.name for message in request.messages for call in message.tool_calls or ()]
    for name in ("charge", "ship"):
        if name not in made:
            return tool_call_response("", name, f"c-{name}", {})
    return text_response("done")


async def test_a_run_is_left_at_the_end_of_its_step_and_goes_on_in_the_next_runtime() -> None:
    shop = Shop()
    async with shop.runtime() as first:
        running = asyncio.ensure_future(first.run("shop", "go", thread="t"))
        await shop.started.wait()
        closing = asyncio.ensure_future(first.close())
        await asyncio.sleep(0)
        shop.go.set()
        await closing
    with pytest.raises(RunLeft, match="recover it"):
        await running
    assert shop.did == ["charge"]
    left = await shop.store.latest_run("t")
    assert left is not None
    assert left.status is RunStatus.RUNNING

    async with shop.runtime() as second:
        (run,) = second.recovered
        assert (await run).response == "done"
    assert shop.did == ["charge", "ship"]


async def test_a_run_that_does_not_come_to_a_border_is_torn_down_and_settled_later() -> None:
    shop = Shop()
    first = shop.runtime()
    running = asyncio.ensure_future(first.run("shop", "go", thread="t"))
    await shop.started.wait()
    await first.engine.leave_all(grace=0.01)
    with pytest.raises(RunLeft):
        await running

    async with shop.runtime() as second:
        (run,) = second.recovered
        result = await run
    assert result.response == "done"
    told = [m.text() for m in await shop.store.load_messages("t") if m.tool_call_id == "c-charge"]
    assert "unknown" in told[0]
    assert shop.did == ["ship"], "what may have happened is not repeated"


async def test_another_word_is_refused() -> None:
    with pytest.raises(ConfigError, match="'cancel' or 'leave', not 'drop'"):
        Runtime([], on_close="drop")  # type: ignore[arg-type]
