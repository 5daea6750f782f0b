"""A run that broke off is freed once its caller has dropped the error."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable

import pytest

from awaken import Agent, Runtime
from awaken.contract.commits import Committed, ThreadCommit
from awaken.errors import AwakenError, StoreUnavailable
from awaken.loop.live import LiveRun
from awaken.runtime.active import ActiveRun
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, text_response

pytestmark = pytest.mark.anyio

RUNS = 10


class AwayStore(MemoryStore):
    async def commit(self, commit: ThreadCommit) -> Committed:
        raise StoreUnavailable("away")


def _alive() -> int:
    gc.collect()
    return sum(isinstance(found, ActiveRun | LiveRun) for found in gc.get_objects())


async def _fail(run: Callable[[str], Awaitable[object]]) -> None:
    for number in range(RUNS):
        with pytest.raises(AwakenError):
            await run(f"thread-{number}")


async def test_a_run_whose_model_fails_is_freed() -> None:
    async with Runtime([Agent("a", model=ScriptedModel([]), system_prompt="")]) as runtime:
        before = _alive()
        await _fail(lambda thread: runtime.run("a", "hello", thread=thread))
        assert _alive() - before <= 2, "only the last run may be held, by its error"


async def test_a_run_whose_store_fails_is_freed() -> None:
    agent = Agent("a", model=ScriptedModel([text_response("hi")] * RUNS), system_prompt="")
    async with Runtime([agent], store=AwayStore()) as runtime:
        before = _alive()
        await _fail(lambda thread: runtime.run("a", "hello", thread=thread))
        assert _alive() - before <= 2, "only the last run may be held, by its error"
