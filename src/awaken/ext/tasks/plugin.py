"""The plugin that gives an agent background tasks and messages; each run has its own copy."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.inbox import InboxSender
from awaken.core.lifecycle import CANCELLED, Phase, to_run_status
from awaken.core.state.command import Command
from awaken.core.state.run_keys import PENDING_WORK, RUN_LIFECYCLE, SetPending
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.core.task import (
    DurableMessageSink,
    TaskJournal,
)
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError
from awaken.ext.tasks.handles import TaskHandles
from awaken.ext.tasks.limits import BackgroundLimits
from awaken.ext.tasks.manager import BackgroundTaskManager
from awaken.ext.tasks.message_tools import (
    RECOVER_TOOL_ID,
    SEND_MESSAGE_TOOL_ID,
    MessagePolicy,
    RecoverFailedMessagesTool,
    SendMessageTool,
)
from awaken.ext.tasks.outbox import MessageDispatcher
from awaken.ext.tasks.state import (
    BACKGROUND_PLUGIN_ID,
    BACKGROUND_TASK_STATE,
    BACKGROUND_TASKS,
    FAILED_MESSAGES,
    OUTBOX,
    BackgroundTaskView,
)
from awaken.ext.tasks.task_tools import (
    CANCEL_TASK_TOOL_ID,
    LIST_TASKS_TOOL_ID,
    WAIT_TASK_TOOL_ID,
    CancelTaskTool,
    ListTasksTool,
    WaitTaskTool,
)
from awaken.ids import UUID7, Ids
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar

ALL_TOOLS = frozenset(
    {
        CANCEL_TASK_TOOL_ID,
        LIST_TASKS_TOOL_ID,
        WAIT_TASK_TOOL_ID,
        SEND_MESSAGE_TOOL_ID,
        RECOVER_TOOL_ID,
    }
)


class BackgroundTaskPlugin:
    """Lets an agent's tools start background tasks, and its model list, await, cancel and message
    them.

    Tools get the run's manager with `ctx.service(BackgroundTaskManager)`. Give one plugin to all
    agents of a runtime: they share its tasks and limits.

    Args:
        manager: a manager for code outside runs; it finds the run that is live in a thread.
        limits: how many tasks may run, and for how long.
        policy: which agents may write to threads that neither started them nor were started by
            them; by default none.
        sink: delivers messages to other threads; by default the one that the host has bound.
        journal: makes tasks survive this process; by default the one that the host has bound.
        tools: which of its tools the model gets; by default all. If the agent has its own tool of
            the same name, the model gets that one.

    Raises:
        ConfigError: the plugin has no tool of that name.
    """

    id = BACKGROUND_PLUGIN_ID

    def __init__(
        self,
        manager: BackgroundTaskManager | None = None,
        *,
        limits: BackgroundLimits | None = None,
        policy: MessagePolicy | None = None,
        sink: DurableMessageSink | None = None,
        journal: TaskJournal | None = None,
        tools: Collection[str] = ALL_TOOLS,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        if manager is None:
            handles = TaskHandles(limits, clock=clock, ids=ids)
            manager = BackgroundTaskManager(handles, journal=journal)
        elif limits is not None or journal is not None:
            raise ConfigError("background_tasks: a manager has its own limits and journal")
        for name in tools:
            if name not in ALL_TOOLS:
                known = ", ".join(sorted(ALL_TOOLS))
                raise ConfigError(f"background_tasks: no tool {name!r}; there are: {known}")
        self.manager = manager
        self._policy, self._sink, self._tools = policy, sink, frozenset(tools)
        self._dispatcher = MessageDispatcher(manager, sink)

    def for_run(self) -> BackgroundTaskPlugin:
        """The plugin of one run: its own manager, the same tasks."""
        manager = BackgroundTaskManager(self.manager.handles, journal=self.manager.own_journal)
        return BackgroundTaskPlugin(
            manager, policy=self._policy, sink=self._sink, tools=self._tools
        )

    def without_tools(self) -> BackgroundTaskPlugin:
        """The plugin for an agent that starts no tasks but may be handed a run that has some."""
        return BackgroundTaskPlugin(self.manager, policy=self._policy, sink=self._sink, tools=())

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        self.manager.set_store(store)
        self.manager.set_owner_inbox(owner_inbox)
        self.manager.adopt_running()

    async def close(self, *, leave: bool = False) -> None:
        """End all tasks and wait for their end. With `leave`, tasks in the journal are left to
        other processes."""
        await self.manager.handles.close(leave=leave)

    def register(self, registrar: Registrar) -> None:
        registrar.key(BACKGROUND_TASKS)
        registrar.key(BACKGROUND_TASK_STATE)
        registrar.key(OUTBOX)
        registrar.key(FAILED_MESSAGES)
        registrar.service(BackgroundTaskManager, self.manager)
        registrar.service(MessageDispatcher, self._dispatcher)
        registrar.hook(Phase.RUN_START, self.run_start)
        registrar.hook(Phase.STEP_END, self.note_work, when=self.has_tasks)
        registrar.hook(Phase.STEP_END, self._dispatcher.dispatch, when=self._dispatcher.has_work)
        registrar.hook(Phase.RUN_END, self.run_end)
        offers: dict[str, Tool] = {
            CANCEL_TASK_TOOL_ID: CancelTaskTool(self.manager),
            LIST_TASKS_TOOL_ID: ListTasksTool(self.manager),
            WAIT_TASK_TOOL_ID: WaitTaskTool(self.manager),
            SEND_MESSAGE_TOOL_ID: SendMessageTool(self.manager, self._policy),
            RECOVER_TOOL_ID: RecoverFailedMessagesTool(),
        }
        for name, tool in offers.items():
            if name in self._tools:
                registrar.tool(tool, spare=True)

    # -- hooks --------------------------------------------------------------------------------

    async def run_start(self, ctx: PhaseContext) -> Command | None:
        """Attach the manager to the thread, repair the thread's records, note the running tasks,
        and send messages that are still in the outbox."""
        thread_id, run_id = ctx.run_identity.thread_id, ctx.run_identity.run_id
        self.manager.attach(thread_id, run_id, ctx.cancellation_token)
        state = ctx.read(BACKGROUND_TASK_STATE)
        await self.manager.restore_for_thread(thread_id, state.tasks if state else {})
        command = await self.note_work(ctx) or Command()
        return command.extend(await self._dispatcher.dispatch(ctx) or Command()) or None

    def has_tasks(self, snapshot: Snapshot) -> bool:
        state, work = snapshot.get(BACKGROUND_TASK_STATE), snapshot.get(PENDING_WORK)
        return bool(state and state.tasks) or bool(work and self.id in work.owners)

    async def note_work(self, ctx: PhaseContext) -> Command | None:
        """Note in the state whether tasks run, and which."""
        # Two iterations of the event loop, one for a task and one for its body: even in a run that
        # never awaits anything, a task that a step started begins before the next step.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        thread_id = ctx.run_identity.thread_id
        await self.manager.records.catch_up(thread_id)
        self.manager.records.report_missed(thread_id)
        running = tuple(
            summary
            for task in self.manager.records.tasks_of(thread_id).values()
            if not task.is_terminal and not task.internal
            for summary in (self.manager.summary(task),)
        )
        command, work = Command(), ctx.read(PENDING_WORK)
        if bool(running) != bool(work and self.id in work.owners):
            command.update(PENDING_WORK, SetPending(pending=bool(running), owner=self.id))
        view = ctx.read(BACKGROUND_TASKS) or BackgroundTaskView()
        if view.tasks != running:
            command.update(BACKGROUND_TASKS, BackgroundTaskView(tasks=running))
        return command or None

    async def run_end(self, ctx: PhaseContext) -> Command | None:
        """Detach from the thread; the tasks of a cancelled run are cancelled."""
        run_id = ctx.run_identity.run_id
        lifecycle = ctx.read(RUN_LIFECYCLE)
        if lifecycle is not None and lifecycle.status_reason == to_run_status(CANCELLED)[1]:
            self.manager.cancel_descendants_for_run(run_id)
        self.manager.handles.detach(ctx.run_identity.thread_id, run_id)
        return None
