"""Delegates inside background tasks (02 §2.14)."""

from __future__ import annotations

import asyncio

import pytest
from background_kit import until_cancelled

from awaken.backend import (
    BackendControl,
    BackendDelegateRunRequest,
    BackendRunStatus,
    BackendStatusKind,
    LocalBackend,
)
from awaken.core.event import CollectingSink, NullEventSink, RunStart
from awaken.core.message import Message
from awaken.core.state.store import StateStore
from awaken.core.task import TaskParentContext
from awaken.ext.tasks import BackgroundTaskManager, BackgroundTaskPlugin, TaskResult, TaskStatus
from awaken.ext.tasks.task import (
    AgentTaskContext,
    current_background_task_context,
    current_background_task_id,
)
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.testing import ScriptedModel, text_response, tool_call_response
from awaken.testing.tools import CustomCancelTool
from delegate_request_kit import FixedResolver, delegate_request

pytestmark = pytest.mark.anyio


def managed() -> BackgroundTaskManager:
    """A manager over a store that has the plugin's keys, as the seeds put it together."""
    store = StateStore()
    manager = BackgroundTaskManager()
    manager.set_store(store)
    env = ExecutionEnv.from_plugins([BackgroundTaskPlugin(manager)])
    store.register_keys(env.keys.values())
    return manager


def control_of(ctx: AgentTaskContext) -> BackendControl:
    return BackendControl(cancellation_token=ctx.cancel_token)


async def test_execute_delegate_in_background_task_can_self_cancel_and_cascade() -> None:
    """02/B5 [S]: the task and its child are cancelled; the second reply is never used."""
    manager = managed()
    model = ScriptedModel(
        [
            tool_call_response(
                "cancel self", "cancel_task", "call-1", {"target": {"relation": "self"}}
            ),
            text_response("should not be reached after cancellation"),
        ]
    )
    resolver = FixedResolver(ResolvedAgent.new("delegate", "m", "sys", model))
    child_ids: list[str] = []

    async def worker(ctx: AgentTaskContext) -> TaskResult:
        context = current_background_task_context()
        assert context is not None, "the task's context is visible inside the task"
        assert (context.manager, context.task_id) == (manager, ctx.task_id)
        child_ids.append(
            await manager.spawn(
                "thread-1",
                "child",
                "leaf",
                "child task",
                TaskParentContext(task_id=ctx.task_id),
                until_cancelled,
            )
        )
        result = await LocalBackend().execute_delegate(
            delegate_request(resolver, "cancel yourself", control_of(ctx))
        )
        if result.status == BackendRunStatus.cancelled():
            return TaskResult.cancelled()
        return TaskResult.failed(f"expected a cancelled delegate, got {result}")

    task_id = await manager.spawn_agent_with_context(
        "thread-1", "worker", "worker agent", TaskParentContext(), worker
    )
    async with asyncio.timeout(100):
        await manager.wait([task_id])
        await manager.wait(child_ids)

    task, child = manager.get(task_id), manager.get(child_ids[0])
    assert task is not None
    assert child is not None
    assert (task.status, child.status) == (TaskStatus.CANCELLED, TaskStatus.CANCELLED)
    assert (task.task_type, child.task_type) == ("sub_agent", "child")
    assert model.remaining == 1
    assert current_background_task_context() is None


async def test_execute_delegate_preserves_existing_cancel_task_tool_in_background_context() -> None:
    """02/B6 [S]: an agent's own `cancel_task` is called, and the run completes."""
    manager = managed()
    own = CustomCancelTool()
    model = ScriptedModel(
        [
            tool_call_response(
                "use custom cancel", "cancel_task", "call-1", {"target": {"relation": "self"}}
            ),
            text_response("custom tool won"),
        ]
    )
    resolver = FixedResolver(ResolvedAgent.new("delegate", "m", "sys", model).with_tool(own))

    async def worker(ctx: AgentTaskContext) -> TaskResult:
        result = await LocalBackend().execute_delegate(
            delegate_request(resolver, "use custom cancel", control_of(ctx))
        )
        if result.status.kind is BackendStatusKind.COMPLETED:
            return TaskResult.success({"response": result.response, "steps": result.steps})
        return TaskResult.failed(f"expected a completed delegate, got {result}")

    task_id = await manager.spawn_agent_with_context(
        "thread-1", "worker", "worker agent", TaskParentContext(), worker
    )
    async with asyncio.timeout(100):
        await manager.wait([task_id])

    assert own.calls == 1
    summary = manager.get(task_id)
    assert summary is not None
    assert summary.status is TaskStatus.COMPLETED
    assert summary.result == {"response": "custom tool won", "steps": 2}


async def test_outside_a_task_a_delegate_has_no_cancel_task() -> None:
    """02 §2.14: step 7 needs a context, and nothing else is offered in its place."""
    model = ScriptedModel([text_response("done")])
    resolver = FixedResolver(ResolvedAgent.new("delegate", "m", "sys", model))
    message = Message.user("hello")

    await LocalBackend().execute_delegate(
        BackendDelegateRunRequest(
            agent_id="delegate",
            messages=[message],
            new_messages=[message],
            sink=NullEventSink(),
            resolver=resolver,
        )
    )

    assert [tool.id for tool in model.requests[0].tools] == []
    assert current_background_task_id() is None


async def test_in_a_task_cancel_task_is_the_only_tool_that_is_added() -> None:
    """02 §2.14: an agent without the plugin gets its state and hooks, not its tools."""
    manager = managed()
    model = ScriptedModel([text_response("done")])
    resolver = FixedResolver(ResolvedAgent.new("delegate", "m", "sys", model))

    async def worker(ctx: AgentTaskContext) -> TaskResult:
        await LocalBackend().execute_delegate(delegate_request(resolver, "hello", control_of(ctx)))
        return TaskResult.success()

    task_id = await manager.spawn_agent_with_context(
        "thread-1", None, "worker agent", TaskParentContext(), worker
    )
    async with asyncio.timeout(100):
        await manager.wait([task_id])

    assert [tool.id for tool in model.requests[0].tools] == ["cancel_task"]


async def test_parent_thread_id_reaches_the_childs_run_identity() -> None:
    """03/MH-1: `parent_thread_id` reaches the child's run identity."""
    manager, sink = managed(), CollectingSink()
    resolver = FixedResolver(ResolvedAgent.new("delegate", "m", "sys", ScriptedModel(["done"])))

    async def worker(ctx: AgentTaskContext) -> TaskResult:
        await LocalBackend().execute_delegate(
            delegate_request(resolver, "hello", control_of(ctx), sink)
        )
        return TaskResult.success()

    task_id = await manager.spawn_agent_with_context(
        "thread-1", None, "worker agent", TaskParentContext(), worker
    )
    async with asyncio.timeout(100):
        await manager.wait([task_id])

    start = sink.events()[0].event
    assert isinstance(start, RunStart)
    assert start.identity is not None
    assert start.identity.parent_thread_id == "parent-thread"


async def test_a_delegate_reads_what_is_written_to_its_task() -> None:
    """03 §2: a message to a child is in the next request of the agent that runs in it."""
    manager = managed()

    async def worker(ctx: AgentTaskContext) -> TaskResult:
        manager.send_task_inbox_message(ctx.task_id, "thread-1", "boss", "hurry up")
        result = await LocalBackend().execute_delegate(
            delegate_request(resolver, "go", control_of(ctx))
        )
        return TaskResult.success(result.response)

    model = ScriptedModel([text_response("done")])
    resolver = FixedResolver(ResolvedAgent.new("delegate", "m", "sys", model))
    task_id = await manager.spawn_agent_with_context(
        "thread-1", "worker", "worker agent", TaskParentContext(), worker
    )
    async with asyncio.timeout(100):
        [summary] = await manager.wait([task_id])

    assert summary.result == "done"
    text = model.requests[0].messages[-1].text()
    assert text.startswith(f'<background-task-event kind="custom" task_id="{task_id}">')
    assert '"event_type":"agent_message","payload":{"from":"boss","content":"hurry up"}' in text
