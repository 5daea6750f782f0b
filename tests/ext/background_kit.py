"""A manager with a store and an inbox, bodies that do as they are told, and calls from nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken, wait_first
from awaken.core.identity import RunIdentity
from awaken.core.inbox import InboxReceiver, inbox_channel
from awaken.core.message import ToolCall
from awaken.core.spec import AgentSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.core.task import PersistedTaskMeta, TaskJournal, TaskParentContext
from awaken.core.tool import ToolResult
from awaken.core.tool_context import CURRENT_CALL, Tool, ToolCallContext
from awaken.engine import LoopStatePlugin
from awaken.ext.tasks import (
    BackgroundLimits,
    BackgroundTaskManager,
    BackgroundTaskPlugin,
    TaskContext,
    TaskResult,
)
from awaken.ext.tasks.handles import TaskHandles
from awaken.ext.tasks.task import TaskBody
from awaken.ids import SequentialIds
from awaken.plugin.env import install_plugin
from awaken.testing import FakeClock
from awaken.tool import execute_tool

NO_PARENT = TaskParentContext()


def background_store(manager: BackgroundTaskManager | None = None) -> StateStore:
    """A store with the loop's keys and the plugin's."""
    store = StateStore()
    install_plugin(store, LoopStatePlugin())
    install_plugin(store, BackgroundTaskPlugin(manager))
    return store


class Bench:
    """One manager bound to a store and an inbox, on a clock that stands still."""

    def __init__(
        self,
        *,
        limits: BackgroundLimits | None = None,
        journal: TaskJournal | None = None,
        handles: TaskHandles | None = None,
        on_closed: Callable[[Json], None] | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.handles = handles or TaskHandles(limits, clock=self.clock, ids=SequentialIds())
        self.manager = BackgroundTaskManager(self.handles, journal=journal)
        self.store = background_store()
        self.manager.set_store(self.store)
        sender, self.inbox = inbox_channel(on_closed)
        self.manager.set_owner_inbox(sender)

    async def spawn(
        self,
        body: TaskBody | None = None,
        thread: str = "thread-1",
        name: str | None = None,
        parent: TaskParentContext = NO_PARENT,
        **options: Any,
    ) -> str:
        return await self.manager.spawn(
            thread, "work", name, "some work", parent, body or until_cancelled, **options
        )

    async def ended(self, *task_ids: str) -> None:
        """Wait for tasks, though not for ever."""
        async with asyncio.timeout(100):
            await self.manager.wait(task_ids)

    def record(self, task_id: str) -> PersistedTaskMeta:
        return self.manager.records.state_records()[task_id]

    def status(self, task_id: str) -> str:
        summary = self.manager.get(task_id)
        assert summary is not None
        return summary.status.value

    def events(self) -> list[Json]:
        return self.inbox.drain()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)


async def until_cancelled(ctx: TaskContext) -> TaskResult:
    await ctx.cancelled()
    return TaskResult.cancelled()


def giving(value: Json = None) -> TaskBody:
    async def body(_: TaskContext) -> TaskResult:
        return TaskResult.success(value)

    return body


def raising(error: BaseException) -> TaskBody:
    async def body(_: TaskContext) -> TaskResult:
        raise error

    return body


class Gate:
    """A body that says when it has begun, and ends when it is let through, or cancelled."""

    def __init__(self, result: TaskResult | None = None) -> None:
        self.begun, self.open = asyncio.Event(), asyncio.Event()
        self.result = result or TaskResult.success("through")
        self.ctx: TaskContext | None = None

    async def __call__(self, ctx: TaskContext) -> TaskResult:
        self.ctx = ctx
        self.begun.set()
        await wait_first(self._opened(), ctx.cancelled())
        return self.result if self.open.is_set() else TaskResult.cancelled()

    async def _opened(self) -> None:
        await self.open.wait()


async def settle(turns: int = 20) -> None:
    """Let everything that can run do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


# -- calls ------------------------------------------------------------------------------------


def call_context(
    *,
    thread: str = "thread-1",
    run_id: str = "run-1",
    agent_id: str = "agent-1",
    call_id: str = "call-1",
    tool: str = "tool",
    snapshot: Snapshot | None = None,
    token: CancellationToken | None = None,
    services: Mapping[type, object] | None = None,
    parent_thread_id: str | None = None,
    key: str = "",
) -> ToolCallContext:
    return ToolCallContext(
        call_id=call_id,
        tool_name=tool,
        run_identity=RunIdentity(
            thread_id=thread, run_id=run_id, agent_id=agent_id, parent_thread_id=parent_thread_id
        ),
        agent_spec=AgentSpec(id=agent_id, model_id="m", system_prompt=""),
        snapshot=snapshot or Snapshot(0, {}),
        cancellation_token=token,
        services=services or {},
        idempotency_key=key,
    )


async def call(tool: Tool, args: Json, ctx: ToolCallContext) -> ToolResult:
    """The tool as the loop runs it: its errors are results."""
    name = tool.descriptor().id
    made = ToolCall(id=ctx.call_id, name=name, arguments=args)
    mark = CURRENT_CALL.set(ctx)
    try:
        output = await execute_tool({name: tool}, made, ctx)
    finally:
        CURRENT_CALL.reset(mark)
    assert isinstance(output.result, ToolResult)
    return output.result


async def receive(inbox: InboxReceiver) -> Json:
    async with asyncio.timeout(100):
        return await inbox.recv()


class MemoryJournal:
    """A journal that lives as long as the test."""

    def __init__(self, *, takes_over: bool = False) -> None:
        self.tasks: dict[str, PersistedTaskMeta] = {}
        self.resumes: dict[str, Json] = {}
        self.ends: list[tuple[str, Json]] = []
        self.emitted: list[Json] = []
        self.written: dict[str, Json] = {}
        self.takes_over = takes_over
        self.before_begin: Callable[[], Awaitable[None]] | None = None
        self.failures = 0

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        if self.before_begin is not None:
            await self.before_begin()
        self.tasks[task.uid], self.resumes[task.uid] = task, resume

    async def end(self, task: PersistedTaskMeta, event: Json) -> bool:
        if self.failures:
            self.failures -= 1
            raise OSError("the journal is not there")
        self.tasks[task.uid] = task
        self.ends.append((task.status.value, event))
        return self.takes_over

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        self.emitted.append(event)
        return self.takes_over

    async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
        if self.takes_over:
            self.written[id] = event
        return self.takes_over

    async def list_started(self, run_id: str) -> list[PersistedTaskMeta]:
        return [task for task in self.tasks.values() if task.parent_context.run_id == run_id]

    async def find(self, uids: Iterable[str]) -> Mapping[str, PersistedTaskMeta]:
        return {uid: self.tasks[uid] for uid in uids if uid in self.tasks}
