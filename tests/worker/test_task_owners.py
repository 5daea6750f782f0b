"""Tasks of the runtime's own: each has an owner that logs, tries again, or raises (design §8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from delegation_kit import T
from task_kit import Yard, agent_in_task, boss, until_told

from awaken import Agent, Runtime, tool
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.store.commits import Committed, Fence, ThreadCommit
from awaken.core.task import DurableMessageRequest
from awaken.ext.tasks import task_inbox
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.worker import command_listener as listen
from awaken.worker import recovery

pytestmark = pytest.mark.anyio

PATIENCE = 100
ODD = [
    RuntimeError("odd"),
    BaseExceptionGroup("odd", [GeneratorExit("odd")]),
    asyncio.CancelledError("odd"),
]


class Odd(MemoryStore):
    """A store with an odd error, once, in each method that is named."""

    def __init__(self, error: BaseException, *methods: str) -> None:
        super().__init__()
        self.error = error
        self.methods = set(methods)
        self.raised = asyncio.Event()
        self.readers = 0

    def _raise(self, method: str) -> None:
        if method in self.methods:
            self.methods.remove(method)
            self.raised.set()
            raise self.error

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        self.readers += 1
        self._raise("watch" if self.readers == 1 else "watch again")
        async for threads in super().watch_commands():
            yield threads

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        self._raise("claim")
        return await super().claim(thread_id, at_ms=at_ms)

    async def commit(self, commit: ThreadCommit) -> Committed:
        if commit.acks and commit.sends:
            self._raise("commit")
        return await super().commit(commit)


def odd(request: Any) -> str:
    return type(request).__name__


def lines(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{record.levelname} {record.getMessage()}" for record in caplog.records)


@pytest.mark.parametrize("error", ODD, ids=odd)
async def test_a_cancel_from_another_process_is_heard_after_an_odd_error(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listen, "RETRY_LISTENING", 0)
    store, begun = Odd(error, "watch"), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    model = FunctionModel(lambda _: tool_call_response("", "wait", "c", {}))
    here = Runtime([Agent("a", model=model, tools=[wait])], store=store, recover=False)
    there = Runtime([], store=store, recover=False)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        run = group.create_task(here.run("a", "go", thread=T))
        await begun.wait()
        assert await there.cancel(T, deadline=PATIENCE)

    assert run.result().termination == CANCELLED
    assert "ERROR commands from other processes cannot be read" in lines(caplog)


@pytest.mark.parametrize(
    ("method", "logged"),
    [
        ("watch", "ERROR cannot look for runs to resume"),
        ("watch again", "ERROR commands from other processes cannot be read"),
    ],
)
@pytest.mark.parametrize("error", ODD, ids=odd)
async def test_runs_are_still_taken_up_after_an_odd_error(
    error: BaseException,
    method: str,
    logged: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that is answered through another runtime goes on in this one."""
    monkeypatch.setattr(listen, "RETRY_LISTENING", 0)
    monkeypatch.setattr(recovery, "RETRY_SECONDS", 0.01)

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: InferenceRequest) -> Any:
        if any(message.tool_calls for message in request.messages):
            return text_response("done")
        return tool_call_response("", "pay", "c", {})

    store = Odd(error, method)
    agent = Agent("a", model=FunctionModel(answer), tools=[pay])
    async with asyncio.timeout(PATIENCE), Runtime([agent], store=store) as here:
        asked = await here.run("a", "go", thread=T)
        await store.raised.wait()
        there = Runtime([], store=store, recover=False)
        await there.decide(T, {asked.tickets[0].key or "": True})
        assert (await here.wait(T)).termination == NATURAL_END
    assert logged in lines(caplog)


async def test_a_thread_that_cannot_be_woken_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Odd(RuntimeError("odd"))
    agent = Agent("a", model=FunctionModel(lambda _: "well"))
    async with asyncio.timeout(PATIENCE), Runtime([agent], store=store, recover=False) as runtime:
        await runtime.run("a", "hello", thread=T)
        store.methods = {"claim"}
        request = DurableMessageRequest(
            message_id="m",
            recipient_thread_id=T,
            recipient_agent_id="a",
            sender_agent_id="b",
            message="psst",
        )
        await runtime.engine.messages.deliver(request)
    assert f"ERROR thread {T} was not woken: RuntimeError('odd')" in lines(caplog)


async def test_what_is_written_to_a_task_arrives_after_an_odd_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_inbox, "RETRY_SECONDS", 0)
    store, yard = Odd(RuntimeError("odd"), "commit"), Yard()
    helper = yard.agent("helper", [("dig", {"n": 1})])
    child = {"relation": "child", "name": "bg_0"}
    write = [("send_message", {"to": child, "message": "deeper"})]
    asker = boss(helper, write)
    async with asyncio.timeout(PATIENCE), Runtime([asker, helper], store=store) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        await store.raised.wait()
        yard.let_go(1)
        await until_told(runtime, 1)
        log = await runtime.messages(await agent_in_task(runtime))
    assert any("deeper" in message.text() for message in log)
    assert "is delayed: RuntimeError('odd')" in lines(caplog)


async def test_a_run_that_was_detached_and_breaks_off_says_so_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: InferenceRequest) -> str:
        raise ValueError("no answer")

    agent = Agent("a", model=FunctionModel(broken))
    async with Runtime([agent], recover=False) as runtime:
        async with runtime.stream("a", "go", thread=T, detached=True):
            pass
        await asyncio.wait(list(runtime.engine.owned))
    assert "a run that was detached broke off" in lines(caplog)


# -- owners themselves ------------------------------------------------------------------------

LOG = logging.getLogger("awaken.test")


async def test_work_that_is_kept_on_ends_when_it_is_cancelled() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    tasks = OwnedTasks(LOG)
    task = tasks.start_repeating(work, 0, "cannot work")
    await begun.wait()
    await tasks.close(PATIENCE)
    assert task.cancelled()


async def test_work_that_ends_by_itself_or_fails_begins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times, enough = 0, asyncio.Event()

    async def work() -> None:
        nonlocal times
        times += 1
        await asyncio.sleep(0)
        if times == 2:
            raise KeyError("odd")
        if times == 4:
            enough.set()

    tasks = OwnedTasks(LOG)
    tasks.start_repeating(work, 0, "cannot work")
    async with asyncio.timeout(PATIENCE):
        await enough.wait()
    await tasks.close(PATIENCE)
    assert lines(caplog) == "ERROR cannot work: KeyError('odd')"


async def test_closing_cancels_what_is_left_and_names_what_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go, tasks = asyncio.Event(), OwnedTasks(LOG)

    async def obeys() -> None:
        await asyncio.Event().wait()

    async def swallows() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    obeying = tasks.start(obeys(), "obeying")
    swallowing = tasks.start(swallows(), "swallowing")
    await asyncio.sleep(0)
    await tasks.close(0.01)
    assert obeying.cancelled()
    assert list(tasks) == [swallowing]
    assert lines(caplog) == "ERROR task swallowing was cancelled and goes on"
    let_go.set()
    await swallowing


async def test_the_owner_who_closes_its_tasks_from_one_of_them_does_not_cancel_itself() -> None:
    tasks = OwnedTasks(LOG)

    async def closes() -> str:
        await tasks.close(PATIENCE)
        return "closed"

    assert await tasks.start(closes()) == "closed"


async def test_who_awaits_a_task_gets_its_error_and_the_log_stays_empty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        raise KeyError("odd")

    with pytest.raises(KeyError):
        await OwnedTasks(LOG).start(fails())
    assert lines(caplog) == ""


def test_tasks_of_an_event_loop_that_is_gone_are_forgotten() -> None:
    tasks = OwnedTasks(LOG)
    loop = asyncio.new_event_loop()

    async def begin() -> asyncio.Task[None]:
        return tasks.start(asyncio.sleep(1000))

    old = loop.run_until_complete(begin())
    assert list(tasks) == [old]
    loop.run_until_complete(_ended(old))
    loop.close()

    async def once_more() -> None:
        new = tasks.start(asyncio.sleep(0))
        assert list(tasks) == [new]
        await new

    asyncio.run(once_more())


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
