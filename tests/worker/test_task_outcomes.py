"""What is said of background tasks that were cut short, and of records nobody can read."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest
from delegation_kit import Place, T, ended, open_runs
from task_kit import Started, Yard, boss, dig, over, tasks_in, told, waiting

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.run import CancelReceipt
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.task import TaskStatus
from awaken.core.thread_ids import agent_ids
from awaken.ext.tasks.task import find_live_task
from awaken.ext.tasks.task_commits import INTERRUPTED
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

MAY_HAVE = "it is unknown whether it took effect"


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def of_tasks(receipt: CancelReceipt) -> list[tuple[str, str, str | None]]:
    return [(i.name, i.outcome.value, i.note) for i in receipt.items if i.kind == "task"]


async def lose(uid: str) -> None:
    """Let a task be gone as if its process had ended."""
    task = find_live_task(uid)
    assert task is not None
    assert task.runner is not None
    task.leave()
    await asyncio.wait([task.runner])


async def until_waiting(uid: str) -> None:
    """Wait until a task does nothing but wait."""
    async with asyncio.timeout(100):
        while (task := find_live_task(uid)) is not None:
            if task.progress is not None and task.progress.message == "waits for an approval":
                return
            await asyncio.sleep(0)


# -- cancelled --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "note"), [("dig", None), ("blast", MAY_HAVE)])
async def test_a_receipt_says_what_a_task_may_have_done(
    place: Place, name: str, note: str | None
) -> None:
    yard = Yard()
    agent = yard.agent("digger", [(name, {"n": 1})], background=[name])

    async with place.runtime([agent]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        receipt = await runtime.cancel(T)
        (task,) = await runtime.tasks()

    assert of_tasks(receipt) == [(name, "stopped", note)]
    assert receipt.complete
    assert task.status is TaskStatus.CANCELLED
    assert ("unknown whether" in (task.error or "")) is (note is not None)


async def test_a_task_whose_work_goes_on_is_not_called_stopped(place: Place) -> None:
    begun, go = threading.Event(), threading.Event()

    @tool(effect="idempotent")
    def block() -> str:
        """Take its time, in a thread."""
        begun.set()
        go.wait(5)
        return "done after all"

    def answer(request: object) -> object:
        made = any(message.tool_calls for message in request.messages)  # type: ignore[attr-defined]
        return text_response("end") if made else tool_call_response("", "block", "c", {})

    agent = Agent("a", model=FunctionModel(answer), background=[block])  # type: ignore[arg-type]
    async with place.runtime([agent]) as runtime:
        await runtime.run("a", "go", thread=T)
        while not begun.is_set():
            await runtime.store.load_thread(T)
        try:
            receipt = await runtime.cancel(T)
        finally:
            go.set()

    assert of_tasks(receipt) == [("block", "unknown", MAY_HAVE)]
    assert not receipt.complete


# -- lost -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancel", [False, True])
async def test_after_a_crash_nobody_knows_what_a_task_has_done(place: Place, cancel: bool) -> None:
    """One that had to run once is not simply failed, or cancelled."""
    yard = Yard()
    agent = yard.agent("digger", [("blast", {"n": 1})], background=["blast"])

    async with place.runtime([agent]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        (task,) = await tasks_in(runtime)
        await lose(task.run_id)
        if cancel:
            await runtime.engine.tasks.release_idle()
            receipt = await runtime.cancel(task.run_id)
            assert of_tasks(receipt) == [("blast", "stopped", MAY_HAVE)]
        else:
            await runtime.recover()
        run = await over(runtime)
        (seen,) = await runtime.tasks()

    kind = "cancelled" if cancel else "failed"
    assert run.final_output == f"digger: bg_0 {kind}, outcome unknown"
    assert seen.status.value == kind
    assert (INTERRUPTED in (seen.error or "")) is not cancel
    assert yard.done == []


class Spoiling(MemoryStore):
    """A store in which a task's record is as nobody here can read it."""

    async def commit(self, commit: ThreadCommit) -> Committed:
        run = commit.run
        if run is not None and run.is_task and run.status is RunStatus.RUNNING:
            request = run.request
            assert request is not None
            task = {**request.request_extras["task"], "effect": "eternal"}
            extras = {**request.request_extras, "task": task}
            spoilt = msgspec.structs.replace(request, request_extras=extras)
            run = msgspec.structs.replace(run, request=spoilt)
            commit = msgspec.structs.replace(commit, run=run)
        return await super().commit(commit)


async def test_a_record_nobody_can_read_is_ended_and_its_owner_told() -> None:
    """It is not left open for ever, and the reason is given."""
    yard, store = Yard(), Spoiling()

    async with Runtime([yard.digger(dig(1))], store=store) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        (listed,) = await runtime.tasks(T)
        await lose(listed.id)
        await runtime.recover()
        run = await over(runtime)
        (seen,) = await runtime.tasks()
        assert await open_runs(runtime) == []

    assert (listed.task_id, listed.status) == ("bg_0", TaskStatus.RUNNING)
    assert seen.status is TaskStatus.FAILED
    assert "the record of the task cannot be read" in (seen.error or "")
    assert "bg_0 failed the record of the task" in (run.final_output or "")


async def test_a_task_that_no_tool_can_go_on_with_is_ended(place: Place) -> None:
    """Whatever it was begun with is not what its tool knows."""
    started, yard = Started(resume={"tool": "dig", "position": 17}), Yard()
    agent = yard.agent("a", [("start", {})], background=["dig"], tools=[started.tool])

    async with place.runtime([agent]) as runtime:
        await runtime.run("a", "go", thread=T)
        await started.begun.wait()
        (task,) = await tasks_in(runtime)
        await lose(task.run_id)
        await runtime.recover()
        await ended(runtime, task.run_id)
        await over(runtime)
        (news,) = await told(runtime)

    assert news.startswith(f"bg_0 failed {INTERRUPTED}, and it cannot go on: ")
    assert "was not started by tool 'dig'" in news


# -- waiting ----------------------------------------------------------------------------------


async def test_closing_leaves_an_agent_that_only_waits(place: Place) -> None:
    """`on_close="cancel"` ends what works; what waits for a person is left, in the background as
    anywhere, and goes on with the answer."""
    yard = Yard()
    helper = yard.agent("helper", [("pay", {"n": 1})])

    async with place.runtime([boss(helper), helper], on_close="cancel") as runtime:
        await runtime.run("boss", "go", thread=T)
        (task,) = await tasks_in(runtime)
        asking = await waiting(runtime, agent_ids(task.run_id)[-1])
        await until_waiting(task.run_id)
    async with place.runtime([boss(helper), helper]) as runtime:
        (question,) = await runtime.list_tickets()
        await runtime.decide(question.thread_id, {question.key: True})
        run = await over(runtime)

    assert question.run_id == asking.run_id
    assert yard.done == ["paid 1"]
    assert run.final_output == "boss: bg_0 completed helper: "


async def test_closing_ends_an_agent_that_works(place: Place) -> None:
    """The same agent, before it asks."""
    yard = Yard()
    helper = yard.agent("helper", [("dig", {"n": 1})])

    async with place.runtime([boss(helper), helper], on_close="cancel") as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
    async with place.runtime([], recover=False) as runtime:
        (task,) = await tasks_in(runtime)

    assert task.termination_reason == CANCELLED
