"""What the model can do with tasks: see them, wait for them, start tools as tasks (03/DB-4)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from background_kit import (
    Bench,
    Gate,
    MemoryJournal,
    call,
    call_context,
    giving,
    settle,
    until_cancelled,
)

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.codec import Json
from awaken.core.state.command import Command
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.core.suspension import ToolCallResume
from awaken.core.task import TaskStatus
from awaken.core.thread_ids import task_uid
from awaken.core.tool import Recover, ToolDescriptor, ToolEffect, ToolKind, ToolResult, ToolStatus
from awaken.core.tool_context import Tool, ToolOutput, traits_of
from awaken.errors import ConfigError
from awaken.ext.tasks import (
    BackgroundTaskError,
    BackgroundTaskManager,
    BackgroundTaskPlugin,
    TaskContext,
    TaskOptions,
    TaskResult,
    background,
)
from awaken.ext.tasks.handles import TaskHandles
from awaken.ext.tasks.task import current_background_task_id
from awaken.ext.tasks.task_tools import OUTPUT_PAGE, ListTasksTool, WaitTaskTool
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


async def asked(tool: Tool, args: Json, ctx: ToolCallContext | None = None) -> Json:
    result = await call(tool, args, ctx or call_context())
    assert result.status is ToolStatus.SUCCESS, result.message
    return result.data


# -- list_tasks -------------------------------------------------------------------------------


async def test_the_model_sees_the_tasks_of_its_conversation() -> None:
    """03/DB-4: with names and progress, without results; not those of others, nor internal ones."""
    bench = Bench()
    gate = Gate()
    running = await bench.spawn(gate, name="scout")
    done = await bench.spawn(giving("a long result"))
    await bench.spawn(thread="thread-2")
    await bench.spawn(options=TaskOptions(internal=True))
    await bench.ended(done)
    assert gate.ctx is not None
    gate.ctx.report("half way", 0.5)

    listed = await asked(ListTasksTool(bench.manager), {})

    at = bench.clock.now_ms()
    common = {"task_type": "work", "description": "some work", "created_at_ms": at}
    assert listed == {
        "tasks": [
            {
                "task_id": running,
                "name": "scout",
                "status": "running",
                "progress": {"message": "half way", "fraction": 0.5},
                **common,
            },
            {"task_id": done, "status": "completed", "completed_at_ms": at, **common},
        ],
        "total": 2,
    }


async def test_a_list_comes_in_pages_and_by_status() -> None:
    """03/DB-4: paging."""
    bench = Bench()
    ids = [await bench.spawn(giving()) for _ in range(5)]
    await bench.ended(*ids)
    last = await bench.spawn()
    tool = ListTasksTool(bench.manager)

    page = await asked(tool, {"offset": 1, "limit": 2})
    running = await asked(tool, {"status": "running"})

    assert [task["task_id"] for task in page["tasks"]] == ["bg_1", "bg_2"]
    assert (page["total"], page["next_offset"]) == (6, 3)
    assert [task["task_id"] for task in running["tasks"]] == [last]
    assert "next_offset" not in running
    bad = await call(tool, {"status": "asleep"}, call_context())
    assert bad.message is not None
    assert bad.message.startswith("Invalid arguments: status:")


# -- wait_task --------------------------------------------------------------------------------


async def test_the_model_waits_for_all_and_reads_the_results() -> None:
    """03/DB-4: `wait_task`, by id or name; without ids, for whatever runs."""
    bench = Bench()
    gates = [Gate(), Gate(TaskResult.failed("no luck"))]
    first = await bench.spawn(gates[0], name="scout")
    second = await bench.spawn(gates[1])
    tool = WaitTaskTool(bench.manager)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        by_name = group.create_task(asked(tool, {"ids": ["scout", second]}))
        everything = group.create_task(asked(tool, {}))
        await settle()
        assert not by_name.done()
        for gate in gates:
            gate.open.set()

    for waited in (by_name.result(), everything.result()):
        assert waited["status"] == "done"
        assert [task["task_id"] for task in waited["tasks"]] == [first, second]
        assert waited["tasks"][0]["result"] == "through"
        assert waited["tasks"][1]["error"] == "no luck"
    assert await asked(tool, {}) == {"status": "done", "tasks": []}


async def test_the_model_waits_for_any() -> None:
    """03/DB-4."""
    bench = Bench()
    gate = Gate()
    slow, quick = await bench.spawn(), await bench.spawn(gate)
    gate.open.set()

    async with asyncio.timeout(100):
        waited = await asked(WaitTaskTool(bench.manager), {"ids": [slow, quick], "mode": "any"})

    assert waited["status"] == "done"
    assert [task["status"] for task in waited["tasks"]] == ["running", "completed"]


async def test_the_model_does_not_wait_for_ever() -> None:
    """03/DB-4: a timeout, its own or the tool's; the task goes on."""
    bench = Bench()
    task_id = await bench.spawn()
    tool = WaitTaskTool(bench.manager)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        short = group.create_task(asked(tool, {"ids": [task_id], "timeout": 2}))
        usual = group.create_task(asked(tool, {"ids": [task_id]}))
        await bench.clock.until_sleeping(2)
        bench.clock.advance(2)
        assert (await short)["status"] == "timeout"
        assert not usual.done()
        bench.clock.advance(58)

    assert usual.result()["status"] == "timeout"
    assert bench.status(task_id) == "running"


async def test_a_long_result_is_read_page_by_page() -> None:
    """03/DB-4: output paging."""
    bench = Bench()
    text = "".join(f"{n:05d}" for n in range(OUTPUT_PAGE // 4))
    task_id = await bench.spawn(giving(text))
    await bench.ended(task_id)
    tool, read, offset = WaitTaskTool(bench.manager), "", 0

    while True:
        [task] = (await asked(tool, {"ids": [task_id], "offset": offset}))["tasks"]
        page = task["result_page"]
        read += page["text"]
        assert page["total_chars"] == len(text)
        if "next_offset" not in page:
            break
        offset = page["next_offset"]

    assert read == text
    assert len(page["text"]) < OUTPUT_PAGE


async def test_a_task_nobody_knows_or_oneself_cannot_be_waited_for() -> None:
    """Bad input: the task, and which there are; a task of another thread is not known here."""
    bench = Bench()
    tool, answers = WaitTaskTool(bench.manager), []
    mine = await bench.spawn()
    theirs = await bench.spawn(thread="thread-2")

    async def body(ctx: TaskContext) -> TaskResult:
        result = await call(tool, {"ids": [ctx.task_id]}, call_context())
        answers.append(result.message)
        return TaskResult.success()

    await bench.ended(await bench.spawn(body))
    stranger = await call(tool, {"ids": [theirs]}, call_context())

    assert answers == ["Execution failed: task 'bg_2' cannot wait for itself"]
    assert stranger.message == (
        f"Not found: task '{theirs}'; tasks of this conversation: {mine}, bg_2"
    )


# -- tools as tasks ---------------------------------------------------------------------------


def with_manager(bench: Bench, **given: Any) -> ToolCallContext:
    return call_context(services={BackgroundTaskManager: bench.manager}, **given)


async def test_a_tool_in_the_background_answers_at_once() -> None:
    """Its result is the task's; it runs as the call it came from, inside the task."""
    bench, gate, seen = Bench(), asyncio.Event(), []

    @tool(kind=ToolKind.READ)
    async def dig(depth: int, ctx: ToolCallContext) -> dict[str, int]:
        """Dig a hole."""
        seen.append((ctx.call_id, ctx.idempotency_key, current_background_task_id()))
        await gate.wait()
        return {"dug": depth}

    slow = background(dig)
    receipt = await asked(slow, {"depth": 3}, with_manager(bench, key="m1:0"))
    assert receipt == {"task_id": "bg_0", "status": "running"}
    gate.set()
    await bench.ended("bg_0")

    record = bench.record("bg_0")
    assert (record.status, record.result) == (TaskStatus.COMPLETED, {"dug": 3})
    assert (record.task_type, record.description) == ("tool", "dig")
    assert seen == [("call-1", "m1:0", "bg_0")]
    told = slow.descriptor()
    assert (told.id, told.kind, told.parameters) == (
        "dig",
        ToolKind.READ,
        dig.descriptor().parameters,
    )
    assert told.description.startswith("Dig a hole.\nRuns in the background")


async def test_a_tools_error_is_its_tasks_failure() -> None:
    """As the loop would have told it; a timeout is the tool's own."""
    bench = Bench()

    @tool(timeout=0.001, effect="read")
    async def sleepy() -> str:
        await asyncio.Event().wait()
        return "never"

    @tool
    async def broken() -> str:
        raise ValueError("boom")

    for made in (sleepy, broken):
        await asked(background(made), {}, with_manager(bench))
    await bench.ended("bg_0", "bg_1")

    assert bench.record("bg_0").error == "Timeout: no answer within 0.001 seconds"
    assert bench.record("bg_1").error == "Execution failed: ValueError: boom"


async def test_bad_arguments_are_refused_before_anything_starts() -> None:
    """By the tool itself."""
    bench = Bench()

    @tool
    async def dig(depth: int) -> int:
        return depth

    result = await call(background(dig), {"depth": "deep"}, with_manager(bench))

    assert result.status is ToolStatus.ERROR
    assert result.message is not None
    assert result.message.startswith("Invalid arguments:")
    assert bench.list("thread-1") == []


async def test_arguments_the_tool_takes_are_taken() -> None:
    """An explicit null for what is optional, which the schema shown to models does not say."""
    bench = Bench()

    @tool
    async def dig(depth: int | None = None) -> str:
        return f"{depth} deep"

    await asked(background(dig), {"depth": None}, with_manager(bench))
    await bench.ended("bg_0")

    assert bench.record("bg_0").result == "None deep"


async def test_a_cancelled_task_interrupts_its_tool() -> None:
    """As a cancelled run does: at once, wherever it waits."""
    bench, closed = Bench(), []

    @tool
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("hang")
        return "never"

    await asked(background(hang), {}, with_manager(bench))
    await settle()
    assert bench.cancel("bg_0")
    await bench.ended("bg_0")

    assert bench.status("bg_0") == "cancelled"
    assert closed == ["hang"]


async def test_what_a_tool_reports_is_its_tasks_progress() -> None:
    """`report_progress` and `report_activity`, though the run may be over."""
    bench, half, gate = Bench(), asyncio.Event(), asyncio.Event()

    @tool
    async def dig(ctx: ToolCallContext) -> str:
        await ctx.report_progress(message="digging", progress=0.5)
        half.set()
        await gate.wait()
        await ctx.report_activity("note", "almost")
        return "dug"

    await asked(background(dig), {}, with_manager(bench))
    await half.wait()
    summary = bench.get("bg_0")
    assert summary.progress.message == "digging"
    assert summary.progress.fraction == 0.5
    gate.set()
    await bench.ended("bg_0")


async def test_a_deadline_is_the_tasks() -> None:
    """03/DB-3."""
    bench = Bench()

    @tool(effect="idempotent")
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    await asked(background(hang, deadline=30), {}, with_manager(bench))
    await bench.clock.until_sleeping()
    bench.clock.advance(30)
    await bench.ended("bg_0")

    assert bench.record("bg_0").error == "the deadline of 30 seconds has passed"


async def test_a_change_of_state_is_refused_in_the_background(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The step it would belong to is over."""
    bench = Bench()

    class Switch:
        def descriptor(self) -> ToolDescriptor:
            return ToolDescriptor(id="switch", name="switch", description="")

        def validate_args(self, args: Json) -> Json:
            return args

        async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
            result = ToolResult.success("switch", "done")
            return ToolOutput(result, Command().update(ACTIVE_AGENT, "other"))

    await asked(background(Switch()), {}, with_manager(bench))
    await bench.ended("bg_0")

    assert bench.record("bg_0").result == "done"
    assert "state changes of tool 'switch' are refused" in caplog.text


async def test_an_approval_is_asked_for_before_the_tool_goes_to_the_background() -> None:
    """Nobody can answer a task; the call itself suspends, and starts the task once approved."""
    bench, paid = Bench(), []

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    later = background(pay)
    ctx = with_manager(bench, tool="pay")
    first = await call(later, {"amount": 3}, ctx)
    assert first.status is ToolStatus.PENDING
    assert bench.list("thread-1") == []

    approved = msgspec.structs.replace(ctx, resume_input=ToolCallResume.approve())
    assert await asked(later, {"amount": 3}, approved) == {"task_id": "bg_0", "status": "running"}
    await bench.ended("bg_0")
    assert paid == [3]
    assert bench.record("bg_0").result == "paid"


async def test_a_tool_that_asks_in_the_background_all_the_same_has_failed() -> None:
    """It cannot wait for an answer there."""
    bench = Bench()

    class Asking:
        def descriptor(self) -> ToolDescriptor:
            return ToolDescriptor(id="ask", name="ask", description="")

        def validate_args(self, args: Json) -> Json:
            return args

        async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
            return ToolOutput(ToolResult.suspended("ask", "may I?"))

    await asked(background(Asking()), {}, with_manager(bench))
    await bench.ended("bg_0")

    assert bench.record("bg_0").error == (
        "the tool asks for a decision, which a background task cannot get"
    )


async def test_an_agent_without_the_plugin_is_told_what_to_do() -> None:
    """Bad input: the tool, the service, the remedy."""

    @tool
    async def dig() -> str:
        return "dug"

    result = await call(background(dig), {}, call_context(tool="dig"))

    assert result.message is not None
    assert "wants a BackgroundTaskManager, which no plugin of agent 'agent-1' offers" in (
        result.message
    )


# -- after a crash ----------------------------------------------------------------------------


@tool(effect="read")
async def look(place: str) -> str:
    return f"seen {place}"


@tool
async def shoot(target: str) -> str:
    return f"shot {target}"


async def test_only_what_may_be_run_again_can_be_taken_up() -> None:
    """The journal gets a payload for tools whose recovery is retry, and none for others."""
    journal = MemoryJournal()
    bench = Bench(journal=journal)

    await asked(background(look), {"place": "moon"}, with_manager(bench, key="m1:0"))
    await asked(background(shoot), {"target": "moon"}, with_manager(bench, key="m1:1"))
    await bench.ended("bg_0", "bg_1")

    payload = {"tool": "look", "arguments": {"place": "moon"}, "key": "m1:0"}
    assert journal.resumes == {
        task_uid("thread-1", "m1:0"): payload,
        task_uid("thread-1", "m1:1"): None,
    }
    assert (traits_of(background(look)).effect, traits_of(background(shoot)).effect) == (
        ToolEffect.READ,
        ToolEffect.ONCE,
    )


async def test_another_process_takes_a_tool_up() -> None:
    """From agent, tool, record and payload alone."""
    journal, seen = MemoryJournal(), []

    @tool(effect="idempotent")
    async def send(to: str, ctx: ToolCallContext) -> str:
        identity = ctx.run_identity
        seen.append((ctx.idempotency_key, identity.parent_thread_id, identity.agent_id))
        if len(seen) == 1:
            await asyncio.Event().wait()
        return f"sent to {to}"

    sending = background(send)
    first = Bench(journal=journal)
    await asked(sending, {"to": "me"}, with_manager(first, key="m1:0"))
    await settle()
    record = first.record("bg_0")
    async with asyncio.timeout(100):
        await first.handles.close(leave=True)

    manager = BackgroundTaskManager(TaskHandles(clock=first.clock), journal=journal)
    sending.resume(manager, record, journal.resumes[record.uid])
    async with asyncio.timeout(100):
        await manager.wait(["bg_0"])

    assert seen == [("m1:0", "thread-1", "agent-1")] * 2
    assert journal.tasks[record.uid].result == "sent to me"
    other = background(look)
    with pytest.raises(BackgroundTaskError, match="task 'bg_0' runs tool 'send', not 'look'"):
        other.resume(manager, record, journal.resumes[record.uid])


async def test_a_call_carried_out_again_starts_no_second_task() -> None:
    """The same key is the same task: running, ended, or known to the journal alone."""
    journal = MemoryJournal()
    bench = Bench(journal=journal)
    looking, ctx = background(look), with_manager(bench, key="m1:0")

    first = await asked(looking, {"place": "moon"}, ctx)
    second = await asked(looking, {"place": "moon"}, ctx)
    await bench.ended("bg_0")
    third = await asked(looking, {"place": "moon"}, ctx)
    elsewhere = Bench(journal=journal)
    fourth = await asked(looking, {"place": "moon"}, with_manager(elsewhere, key="m1:0"))

    assert first == second == {"task_id": "bg_0", "status": "running"}
    assert third == fourth == {"task_id": "bg_0", "status": "completed"}
    assert len(bench.list("thread-1")) == 1
    assert [task.task_id for task in elsewhere.list("thread-1")] == ["bg_0"], "known from now on"


async def test_whether_a_call_has_started_its_task_can_be_found_out() -> None:
    """A `once` tool, too, is started once: by what the journal knows; without one, nobody knows."""
    journal = MemoryJournal()
    bench, shooting = Bench(journal=journal), background(shoot)
    assert shooting.traits.recovery is Recover.VERIFY

    assert await shooting.verify(with_manager(bench, key="m1:0")) is False
    await asked(shooting, {"target": "moon"}, with_manager(bench, key="m1:0"))
    await bench.ended("bg_0")
    assert await shooting.verify(with_manager(bench, key="m1:0")) == {
        "task_id": "bg_0",
        "status": "completed",
    }
    assert await shooting.verify(with_manager(Bench(), key="m1:0")) is None


async def test_a_tools_own_verify_is_asked_where_nobody_else_knows() -> None:
    """`verify` of the tool itself, without a journal."""

    @tool(verify=lambda ctx: ctx.idempotency_key == "m1:0")
    async def pay() -> str:
        return "paid"

    paying = background(pay)

    assert await paying.verify(with_manager(Bench(), key="m1:0")) is True
    assert await paying.verify(with_manager(Bench(), key="m1:1")) is False


# -- in a run ---------------------------------------------------------------------------------


async def test_a_model_starts_a_tool_waits_for_it_and_answers() -> None:
    """The whole way: start, list, wait, and the run is done."""
    gate = asyncio.Event()

    @tool
    async def dig(depth: int) -> str:
        await gate.wait()
        return f"{depth} deep"

    @tool
    async def open_gate() -> str:
        gate.set()
        return "open"

    model = ScriptedModel(
        [
            tool_call_response("", "dig", "c1", {"depth": 3}),
            tool_call_response("", "list_tasks", "c2", {}),
            tool_call_response("", "open_gate", "c3", {}),
            tool_call_response("", "wait_task", "c4", {"ids": ["bg_0"]}),
            "3 deep it is",
            "as I said",
        ]
    )
    agent = Agent(
        "a", model=model, tools=[background(dig), open_gate], plugins=[BackgroundTaskPlugin()]
    )
    async with asyncio.timeout(100), Runtime([agent], store=MemoryStore()) as runtime:
        await runtime.run("a", "dig!", thread="t")

    results = [m.text() for m in model.requests[4].messages if m.tool_call_id is not None]
    assert results[0] == '{"task_id":"bg_0","status":"running"}'
    assert '"status":"running"' in results[1]
    assert '"result":"3 deep"' in results[3]


def test_a_plugin_offers_the_tools_it_is_told_to() -> None:
    """Bad input: an unknown tool is named, with those there are."""
    with pytest.raises(ConfigError, match=r"no tool 'stop_task'; there are: cancel_task, list_"):
        BackgroundTaskPlugin(tools=["stop_task"])
    with pytest.raises(ConfigError, match="a manager has its own limits and journal"):
        BackgroundTaskPlugin(BackgroundTaskManager(), journal=MemoryJournal())


async def test_two_tasks_cannot_have_one_unique_name() -> None:
    """03/DB-1."""
    bench = Bench()
    await bench.spawn(until_cancelled, options=TaskOptions(uid="mine"))

    with pytest.raises(BackgroundTaskError, match="task 'mine' has been started already"):
        await bench.spawn(giving(), options=TaskOptions(uid="mine"))
