"""The store is away while calls end: another program holds the lock of the database."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role, ToolCall
from awaken.core.store.commits import Committed, ThreadCommit, has_outcomes
from awaken.errors import CommitUnknown, StorageError, StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    FakeClock,
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
)

pytestmark = pytest.mark.anyio

T = "t"


class Patience(FakeClock):
    """A clock on which waiting takes no time; `after` a number of waits something happens."""

    def __init__(self) -> None:
        super().__init__(auto=True)
        self.after: tuple[int, Callable[[], None]] | None = None

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if self.after is not None and len(self.sleeps) >= self.after[0]:
            self.after[1]()


class Shop:
    """A shop whose calls take effect while another program locks its database."""

    def __init__(self, home: Path) -> None:
        self.path = home / "awaken.db"
        self.clock = Patience()
        self.effects: list[str] = []
        self.locks_at = "charge"
        self._other = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def runtime(self, *calls: str) -> Runtime:
        def answer(request: InferenceRequest) -> StreamResult:
            if request.messages[-1].role is Role.TOOL:
                return text_response("Done.")
            wanted = [ToolCall(id=f"c-{name}", name=name, arguments={}) for name in calls]
            return StreamResult(content=(), tool_calls=tuple(wanted))

        @tool
        async def charge() -> str:
            """Charge."""
            return self._do("charge")

        @tool
        async def ship() -> str:
            """Ship."""
            return self._do("ship")

        agent = Agent("shop", model=FunctionModel(answer), tools=[charge, ship])
        address = f"sqlite:///{self.path}?busy_timeout=0.05"
        return Runtime([agent], store=address, clock=self.clock, recover=False)

    def _do(self, name: str) -> str:
        self.effects.append(name)
        if name == self.locks_at and len(self.effects) == 1:
            self._other.execute("BEGIN IMMEDIATE")
        return f"{name} done"

    def unlock(self) -> None:
        self.clock.after = None
        self._other.execute("ROLLBACK")

    def close(self) -> None:
        self._other.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


async def results(runtime: Runtime) -> dict[str | None, str]:
    return {m.tool_call_id: m.text() for m in await runtime.messages(T) if m.role is Role.TOOL}


async def test_a_result_is_kept_while_the_database_is_locked_and_the_model_is_told_it(
    shop: Shop,
) -> None:
    shop.clock.after = (3, shop.unlock)
    async with shop.runtime("charge") as runtime:
        result = await runtime.run("shop", "Go!", thread=T)

        assert result.response == "Done."
        assert await results(runtime) == {"c-charge": "charge done"}
    assert shop.effects == ["charge"]


async def test_a_result_the_store_did_not_take_in_time_is_known_when_the_run_goes_on(
    shop: Shop,
) -> None:
    async with shop.runtime("charge") as runtime:
        with pytest.raises(StorageError, match="locked by another program"):
            await runtime.run("shop", "Go!", thread=T)
        assert await runtime.recover() == []
        shop.unlock()
        (run,) = await runtime.recover()

        assert (await run).response == "Done."
        assert await results(runtime) == {"c-charge": "charge done"}
    assert shop.effects == ["charge"]


async def test_the_next_message_finds_the_result_the_store_did_not_take_in_time(
    shop: Shop,
) -> None:
    async with shop.runtime("charge") as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        with pytest.raises(StoreUnavailable):
            await runtime.run("shop", "Hello?", thread=T)
        shop.unlock()
        await runtime.run("shop", "Hello?", thread=T)

        assert (await results(runtime))["c-charge"] == "charge done"


async def test_no_other_process_takes_a_run_over_whose_results_are_known_here(
    shop: Shop,
) -> None:
    async with shop.runtime("charge") as here, shop.runtime("charge") as there:
        await there.list_runs()  # its file is open before it is locked
        with pytest.raises(StorageError):
            await here.run("shop", "Go!", thread=T)

        assert await there.recover() == []
        shop.unlock()
        (run,) = await here.recover()
        assert (await run).response == "Done."
        assert await results(there) == {"c-charge": "charge done"}
    assert shop.effects == ["charge"]


async def test_results_that_came_while_another_could_not_be_kept_are_known_as_well(
    shop: Shop,
) -> None:
    async with shop.runtime("charge", "ship") as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        shop.unlock()
        (run,) = await runtime.recover()

        assert (await run).response == "Done."
        assert await results(runtime) == {"c-charge": "charge done", "c-ship": "ship done"}
    assert shop.effects == ["charge", "ship"]


async def test_a_runtime_that_closes_tries_once_more(shop: Shop) -> None:
    async with shop.runtime("charge") as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        shop.unlock()

    async with shop.runtime("charge") as runtime:
        (run,) = await runtime.recover()
        assert (await run).response == "Done."
        assert await results(runtime) == {"c-charge": "charge done"}
    assert shop.effects == ["charge"]


async def test_what_is_lost_when_a_runtime_closes_is_said(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop.runtime("charge") as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        with caplog.at_level(logging.ERROR, "awaken.runtime"):
            await runtime.close()
        shop.unlock()

    assert "the outcomes of these calls are lost: charge (" in caplog.text
    async with shop.runtime("charge") as runtime:
        (run,) = await runtime.recover()
        await run
        assert "it is unknown whether 'charge' took effect" in (await results(runtime))["c-charge"]
    assert shop.effects == ["charge"]


async def test_a_caller_who_leaves_while_the_store_is_away_loses_no_result(shop: Shop) -> None:
    async with shop.runtime("charge") as runtime:
        running = asyncio.ensure_future(runtime.run("shop", "Go!", thread=T))

        def leave() -> None:
            shop.unlock()
            running.cancel()

        shop.clock.after = (2, leave)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await results(runtime) == {"c-charge": "charge done"}
    assert shop.effects == ["charge"]


class CutOff(MemoryStore):
    """A store behind a line that is cut as soon as a call has ended: no answer comes any more."""

    is_cut = True

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.is_cut and has_outcomes(commit.calls):
            raise CommitUnknown("the line was cut")
        return await super().commit(commit)


async def test_a_result_is_known_when_the_line_to_the_store_is_back() -> None:
    charges: list[str] = []

    @tool
    async def charge() -> str:
        """Charge."""
        charges.append("charge")
        return "charged"

    store = CutOff()
    model = ScriptedModel([tool_call_response("", "charge", "c1", {}), "Done."])
    agent = Agent("shop", model=model, tools=[charge])
    async with Runtime([agent], store=store, clock=Patience(), recover=False) as runtime:
        with pytest.raises(StorageError, match="the line was cut"):
            await runtime.run("shop", "Go!", thread=T)
        store.is_cut = False
        (run,) = await runtime.recover()

        assert (await run).response == "Done."
        assert await results(runtime) == {"c1": "charged"}
    assert charges == ["charge"]
