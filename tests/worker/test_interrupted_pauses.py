"""A run that has just paused looks for commands once more: an error there is the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import RunStatus
from awaken.core.store.commands import ThreadCommand
from awaken.errors import RuntimeFailed
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


class OddStore(MemoryStore):
    """Fails once, when the runtime asks for the commands of a run that has paused."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error: BaseException | None = error

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        error, run = self._error, await self.latest_run(thread_id)
        if error is not None and run is not None and run.status is RunStatus.WAITING:
            self._error = None
            raise error
        return await super().load_commands(thread_id, skip=skip)


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (asyncio.CancelledError(), RuntimeFailed),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(), SystemExit),
    ],
)
async def test_the_caller_gets_what_interrupts_a_pause(
    error: BaseException, seen: type[BaseException]
) -> None:
    model = ScriptedModel([tool_call_response("", "pay", "c1", {})])
    agent = Agent("a", model=model, system_prompt="", tools=[pay])
    async with Runtime([agent], store=OddStore(error)) as runtime:
        with pytest.raises(seen):
            await runtime.run("a", "hello", thread="t")
        assert not runtime.engine.active
