"""Makers that open dependencies: they are closed when the run and its tasks have used them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest

from answer_kit import by_id
from awaken import Agent, RunContext, RunInfo, Runtime, tool
from awaken.errors import AwakenError, ConfigError
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


class Session:
    """What a library gives, which is itself a context manager, as many are."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.is_open = log, True
        log.append("open")

    def close(self, how: str = "close") -> None:
        self.is_open = False
        self.log.append(how)

    async def __aenter__(self) -> Session:
        self.log.append("entered")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


Maker = Callable[[list[str]], Any]


def generator(log: list[str]) -> Any:
    async def make(run: RunInfo) -> AsyncIterator[Session]:
        session = Session(log)
        try:
            yield session
        finally:
            await asyncio.sleep(0)
            session.close()

    return make


def async_manager(log: list[str]) -> Any:
    return asynccontextmanager(generator(log))


def manager(log: list[str]) -> Any:
    @contextmanager
    def make(run: RunInfo) -> Iterator[Session]:
        session = Session(log)
        yield session
        session.close()

    return make


def awaited_manager(log: list[str]) -> Any:
    async def make(run: RunInfo) -> Any:
        return async_manager(log)(run)

    return make


@tool(effect="read")
async def look(ctx: RunContext[Session]) -> str:
    """Look."""
    ctx.deps.log.append("used" if ctx.deps.is_open else "used after it was closed")
    return "seen"


@tool(needs_approval=True)
async def pay(ctx: RunContext[Session]) -> str:
    """Pay."""
    ctx.deps.log.append("used" if ctx.deps.is_open else "used after it was closed")
    return "paid"


def agent(*script: Any, **options: Any) -> Agent[Session]:
    calls = script or (tool_call_response("", "look", "c1", {}), "done")
    given: dict[str, Any] = {"tools": [look, pay], **options}
    return Agent("a", model=ScriptedModel(calls), deps=Session, **given)


@pytest.mark.parametrize("maker", [generator, async_manager, manager, awaited_manager])
async def test_what_a_maker_opens_is_closed_when_the_run_ends(maker: Maker) -> None:
    log: list[str] = []
    async with Runtime([agent()], deps={Session: maker(log)}) as runtime:
        assert (await runtime.run("a", "go")).ok

        assert log == ["open", "used", "close"]


async def test_a_value_that_could_be_entered_is_the_value() -> None:
    """A maker that returns the agent's own type keeps it open, as before."""
    log: list[str] = []
    async with Runtime([agent()], deps={Session: lambda run: Session(log)}) as runtime:
        await runtime.run("a", "go")

    assert log == ["open", "used"]


class Waiting:
    """A model that waits until its run is cancelled."""

    name = "waiting"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def execute_stream(self, request: Any) -> AsyncIterator[Any]:
        self.asked.set()
        await asyncio.Event().wait()
        yield None


async def failing(runtime: Runtime, model: Any) -> None:
    with suppress(AwakenError):
        await runtime.run("a", "go", thread="t")


async def cancelled(runtime: Runtime, model: Any) -> None:
    task = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
    await model.asked.wait()
    await runtime.cancel("t")
    await task


async def left(runtime: Runtime, model: Any) -> None:
    await runtime.submit("a", "go", thread="t")
    await model.asked.wait()
    await runtime.close()


@pytest.mark.parametrize(
    ("model", "play"),
    [(ScriptedModel([ValueError("no words")]), failing), (Waiting(), cancelled), (Waiting(), left)],
    ids=["it fails", "it is cancelled", "the runtime closes"],
)
async def test_it_is_closed_however_the_run_ends(
    model: Any, play: Callable[[Runtime, Any], Awaitable[None]]
) -> None:
    log: list[str] = []
    a = Agent("a", model=model, deps=Session)
    async with Runtime([a], deps={Session: generator(log)}) as runtime:
        async with asyncio.timeout(50):
            await play(runtime, model)

        assert log == ["open", "close"]


async def test_a_run_that_waits_has_closed_it_and_opens_it_again() -> None:
    log: list[str] = []
    a = agent(tool_call_response("", "pay", "c1", {}), "done")
    async with Runtime([a], deps={Session: generator(log)}) as runtime:
        assert (await runtime.run("a", "go", thread="t")).suspended
        assert log == ["open", "close"]

        assert (await runtime.run(thread="t", answers=await by_id(runtime, {"c1": True}))).ok
        assert log == ["open", "close", "open", "used", "close"]


async def test_a_background_task_keeps_it_open_until_the_task_has_ended() -> None:
    """The run pauses, and would close it, while the task is at work."""
    log: list[str] = []
    go_on = asyncio.Event()

    @tool(effect="read")
    async def count(ctx: RunContext[Session]) -> str:
        """Count."""
        await go_on.wait()
        ctx.deps.log.append("used" if ctx.deps.is_open else "used after it was closed")
        return "counted"

    script = (tool_call_response("", "count", "c1", {}), "I count.", "Counted.")
    a = agent(*script, tools=[], background=[count])
    async with Runtime([a], deps={Session: generator(log)}) as runtime:
        paused = await runtime.run("a", "go", thread="t")
        assert (paused.waiting, log) == (True, ["open"])
        go_on.set()
        await runtime.wait(paused.run_id, timeout=50)

    assert log[:2] == ["open", "used"]
    assert log.count("open") == log.count("close")
    assert "used after it was closed" not in log


async def test_a_delegate_uses_that_of_the_run_above_it() -> None:
    log: list[str] = []
    helper = agent(description="Helps.")
    boss_model = ScriptedModel([tool_call_response("", "agent_run_a", "c1", {"prompt": "x"}), "ok"])
    boss = Agent("boss", model=boss_model, deps=Session, delegates=[helper])
    async with Runtime([boss], deps={Session: generator(log)}) as runtime:
        await runtime.run("boss", "go")

    assert log == ["open", "used", "close"]


async def test_an_error_in_closing_is_logged_and_the_run_stays_what_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def make(run: RunInfo) -> AsyncIterator[Session]:
        yield Session([])
        raise OSError("the connection is gone")

    async with Runtime([agent()], deps={Session: make}) as runtime:
        assert (await runtime.run("a", "go", thread="t")).ok

    assert "the dependencies of a run, a Session, could not be closed" in caplog.text
    assert "the connection is gone" in caplog.text


async def test_a_run_that_fails_is_seen_by_what_closes() -> None:
    """So a transaction is rolled back."""
    seen: list[str] = []

    async def make(run: RunInfo) -> AsyncIterator[Session]:
        try:
            yield Session([])
        except AwakenError as error:
            seen.append(str(error))
            raise

    a = Agent("a", model=ScriptedModel([ValueError("no words")]), deps=Session)
    async with Runtime([a], deps={Session: make}) as runtime:
        with pytest.raises(AwakenError):
            await runtime.run("a", "go")

    assert len(seen) == 1
    assert "no words" in seen[0]


@pytest.mark.parametrize("yields", [True, False])
async def test_a_maker_of_another_type_is_closed_and_refused(yields: bool) -> None:
    log: list[str] = []

    async def make(run: RunInfo) -> Any:
        try:
            yield 7
        finally:
            log.append("closed")

    def wrong(run: RunInfo) -> Iterator[int]:
        yield 7

    async with Runtime([agent()], deps={Session: make if yields else wrong}) as runtime:
        with pytest.raises(ConfigError, match=r"or yield one in an async generator"):
            await runtime.run("a", "go")

    assert log == (["closed"] if yields else [])
