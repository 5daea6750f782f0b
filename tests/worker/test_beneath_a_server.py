"""What a server needs of the engine, without the front door's handles (design §8): to be told what
runs, to hear commands, to resume abandoned runs, and to read a run's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from awaken import Agent, Message, RunRequest, Runtime, ToolCallResume, tool
from awaken.core.event import RunFinish, RunStart, TextDelta
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import NeverLost
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.worker import Worker
from awaken.worker.event_stream import stream_run
from awaken.worker.live_runs import ActiveRun
from awaken.worker.recovery import Recovery

pytestmark = pytest.mark.anyio

T = "thread"
PATIENCE = 100


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def pays(request: InferenceRequest) -> Any:
    if any(message.tool_calls for message in request.messages):
        return text_response("done")
    return tool_call_response("", "pay", "c", {})


def engine_of(store: MemoryStore, *agents: Agent) -> Worker:
    return Runtime(agents, store=store, recover=False).engine


def go(*, wait: bool = False) -> RunRequest:
    message = Message.user("go")
    return RunRequest(thread_id=T, messages=(message,), agent_id="a", wait_for_decisions=wait)


def talker() -> Agent:
    return Agent("a", model=FunctionModel(lambda _: "well"))


def payer() -> Agent:
    return Agent("a", model=FunctionModel(pays), tools=[pay])


class Watcher:
    """Notes the runs that begin and end."""

    def __init__(self, engine: Worker) -> None:
        self.seen: list[tuple[str | None, bool]] = []
        self.unsubscribe = engine.active.changes.subscribe(self._note)

    def _note(self, run: ActiveRun) -> None:
        self.seen.append((run.run_id, run.has_ended))


async def test_a_subscriber_is_told_of_each_run_that_begins_and_ends() -> None:
    engine = engine_of(MemoryStore(), talker())
    watcher = Watcher(engine)
    first = await engine.run(go())
    second = await engine.run(go())
    watcher.unsubscribe()
    await engine.run(go())
    ids = [first.run_id, second.run_id]
    assert watcher.seen == [(id, ended) for id in ids for ended in (False, True)]


async def test_a_subscriber_that_fails_holds_up_neither_the_run_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = engine_of(MemoryStore(), talker())

    def fails(_: ActiveRun) -> None:
        raise KeyError("odd")

    engine.active.changes.subscribe(fails)
    watcher = Watcher(engine)
    assert (await engine.run(go())).termination == NATURAL_END
    assert len(watcher.seen) == 2
    assert "a subscriber failed" in caplog.text


async def test_the_stream_of_a_run_ends_with_its_result() -> None:
    engine = engine_of(MemoryStore(), talker())
    async with stream_run(engine, go()) as events:
        told = [event.event async for event in events]
    assert isinstance(told[0], RunStart)
    assert isinstance(told[-1], RunFinish)
    assert [event.delta for event in told if isinstance(event, TextDelta)] == ["well"]
    assert events.result.response == "well"
    assert not engine.owned


async def test_leaving_the_stream_of_a_run_cancels_it() -> None:
    store = MemoryStore()
    engine = engine_of(store, payer())
    async with stream_run(engine, go(wait=True)) as events:
        async for event in events:
            if isinstance(event.event, RunFinish):
                break
    run = await store.load_run(event.run_id)
    assert run is not None
    assert run.termination_reason == CANCELLED


async def test_every_subscriber_hears_of_a_command_until_it_leaves() -> None:
    store = MemoryStore()
    engine = engine_of(store, payer())
    paused = await engine.run(go())
    heard: list[tuple[str, str]] = []
    both = asyncio.Event()

    async def one(thread_id: str) -> None:
        heard.append(("one", thread_id))

    async def other(thread_id: str) -> None:
        heard.append(("other", thread_id))
        both.set()

    engine.commands.subscribe(one)
    engine.commands.subscribe(other)
    engine.commands.subscribe(other)
    async with asyncio.timeout(PATIENCE):
        await store.send(ThreadCommand.cancel(T, paused.run_id, at_ms=0))
        await both.wait()
        assert heard == [("one", T), ("other", T)]
        both.clear()
        engine.commands.unsubscribe(one)
        await store.send(ThreadCommand.cancel(T, paused.run_id, at_ms=0))
        await both.wait()
    engine.commands.unsubscribe(other)
    assert heard == [("one", T), ("other", T), ("other", T)]


async def test_a_run_that_is_answered_is_resumed_by_a_recovery_that_was_started() -> None:
    store = MemoryStore()
    engine = engine_of(store, payer())
    recovery, ended = Recovery(engine), asyncio.Event()
    recovery.start()
    paused = await engine.run(go())
    engine.active.changes.subscribe(lambda run: ended.set() if run.has_ended else None)
    there = Runtime([], store=store, recover=False)
    async with asyncio.timeout(PATIENCE):
        await there.decide(T, {paused.tickets[0].key or "": True})
        await ended.wait()
    recovery.stop()
    await recovery.wait_stopped()
    await engine.cancel_all()
    run = await store.load_run(paused.run_id)
    assert run is not None
    assert (run.status, run.termination_reason) == (RunStatus.DONE, NATURAL_END)


class SlowToRead(MemoryStore):
    """A store that names threads with commands only when it may, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.may_answer = asyncio.Event(), asyncio.Event()

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        async for threads in super().watch_commands():
            if not self.reading.is_set():
                self.reading.set()
                await self.may_answer.wait()
            yield threads


async def test_an_answer_that_comes_while_recovery_starts_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NeverLost, "poll_interval", 1000)
    store = SlowToRead()
    engine = engine_of(store, payer())
    paused = await engine.run(go())
    recovery, heard, ended = Recovery(engine), asyncio.Event(), asyncio.Event()

    async def hear(_: str) -> None:
        heard.set()

    recovery.start()
    engine.commands.subscribe(hear)
    engine.active.changes.subscribe(lambda run: ended.set() if run.has_ended else None)
    async with asyncio.timeout(PATIENCE):
        await store.reading.wait()
        await store.decide(T, [(paused.tickets[0].key or "", ToolCallResume.approve())], at_ms=1)
        await heard.wait()
        store.may_answer.set()
        await ended.wait()
    engine.commands.unsubscribe(hear)
    recovery.stop()
    await recovery.wait_stopped()
    await engine.cancel_all()


async def test_a_thread_without_a_live_run_that_gets_a_message_is_told_to_subscribers() -> None:
    engine = engine_of(MemoryStore(), talker())
    await engine.run(go())
    told: list[str] = []
    engine.unattended.subscribe(told.append)
    await engine.write_to(T, [Message.user("and now?")])
    assert told == [T]
