"""A run that broke off is freed once its caller has dropped the error."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.engine.live_run import LiveRun
from awaken.errors import AwakenError, StoreError, StoreUnavailable
from awaken.models import ContextWindowPolicy
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, text_response, tool_call_response
from awaken.worker.live_runs import ActiveRun

pytestmark = pytest.mark.anyio

RUNS = 10


class AwayStore(MemoryStore):
    async def commit(self, commit: ThreadCommit) -> Committed:
        raise StoreUnavailable("away")


class RefusingStore(MemoryStore):
    """Refuses one commit, and keeps the error, as a store with a log of its own may."""

    def __init__(self, refused: int) -> None:
        super().__init__()
        self._left = refused
        self.error = StoreError("no")

    async def commit(self, commit: ThreadCommit) -> Committed:
        self._left -= 1
        if self._left == 0:
            raise self.error
        return await super().commit(commit)


def _collect() -> None:
    for _ in range(2):  # the first may run finalizers, which keeps what they see until the second
        gc.collect()


def _alive() -> int:
    _collect()
    # By `type`: `isinstance` asks each object, and a lazy part of an SDK then loads its modules.
    return sum(type(found) in (ActiveRun, LiveRun) for found in gc.get_objects())


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


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_run_whose_commit_is_refused_is_freed_with_its_runtime(refused: int) -> None:
    """Its journal keeps the error, and the error's traceback knows the run."""

    async def run() -> None:
        model = ScriptedModel([tool_call_response("", "look", "c1", {}), "done"])
        agent, store = Agent("a", model=model, tools=[look]), RefusingStore(refused)
        async with Runtime([agent], store=store, recover=False) as runtime:
            with pytest.raises(AwakenError):
                await runtime.run("a", "hello", thread="t")

    before = _alive()
    for _ in range(RUNS):
        asyncio.run(run())
    assert _alive() - before <= 2, "only the last run may be held, by its error"


def test_a_runtime_that_no_one_has_closed_is_freed() -> None:
    """Its event loop is gone, as after a test that broke off."""

    async def run() -> weakref.ref[object]:
        model = ScriptedModel([tool_call_response("", "look", "c1", {}), "done"])
        agent = Agent("a", model=model, tools=[look], context_policy=ContextWindowPolicy.of(10_000))
        runtime = await Runtime([agent]).__aenter__()
        await runtime.run("a", "hello", thread="t")
        return weakref.ref(runtime.engine)

    engine = asyncio.run(run())
    _collect()
    assert engine() is None
