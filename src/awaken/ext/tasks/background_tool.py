"""Running any tool in the background: a call starts a task and does not wait for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from awaken.codec import Json, to_json
from awaken.core.account import Account
from awaken.core.aio.cancel import interruptible
from awaken.core.aio.owned_tasks import log_error, start_logged
from awaken.core.backend import DurableDelegates
from awaken.core.deps import RunDeps
from awaken.core.event import ActivitySnapshot, AgentEvent
from awaken.core.identity import RunIdentity
from awaken.core.inbox import InboxReceiver
from awaken.core.message import ToolCall
from awaken.core.spec import AgentSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.suspension import ToolCallResume
from awaken.core.task import (
    BackgroundTaskError,
    PersistedTaskMeta,
    TaskParentContext,
)
from awaken.core.thread_ids import task_uid
from awaken.core.tool import (
    PROGRESS_ACTIVITY,
    Recover,
    ToolDescriptor,
    ToolError,
    ToolResult,
    ToolStatus,
)
from awaken.core.tool_context import (
    CURRENT_CALL,
    Tool,
    ToolCallContext,
    ToolOutput,
    ToolTraits,
    only_asks,
    traits_of,
)
from awaken.errors import Cancelled, StoreError
from awaken.ext.tasks.admission import TaskOptions
from awaken.ext.tasks.manager import BackgroundTaskManager
from awaken.ext.tasks.task import TaskContext, TaskResult
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.tool import execute_tool
from awaken.tool.execute import checks_itself
from awaken.tool.output import was_cut_short

log = logging.getLogger("awaken.background")

_NOTE = "Runs in the background: the call returns a task id at once, the result follows later."


class BackgroundTool:
    """A tool whose calls run as background tasks; each call returns `{task_id, status}` at once.

    A call that needs an approval still asks first. The tool's return value becomes the task's
    result, and its progress the task's progress. State changes that it returns are refused, because
    the step that made the call is over. If the tool may be run again, another process can resume
    the task after a crash.

    Args:
        tool: the tool to run; its agent needs the plugin `background_tasks`.
        deadline: the most seconds that the task may take.
        description: replaces the tool's own description for the model.
    """

    def __init__(
        self, tool: Tool, *, deadline: float | None = None, description: str | None = None
    ) -> None:
        self.tool = tool
        self.checks_itself = checks_itself(tool)
        self._runs_agent = getattr(tool, "runs_agent", False) is True
        self._deadline = deadline
        inner = tool.descriptor()
        words = description or f"{inner.description}\n{_NOTE}".lstrip()
        self._descriptor = msgspec.structs.replace(inner, description=words)
        self._own = traits_of(tool)
        # The call only starts the task: the tool's own timeout applies to the task, and `verify`
        # can find out whether the task was started.
        self.traits: ToolTraits = msgspec.structs.replace(
            self._own,
            timeout=None,
            recover=Recover.VERIFY if self._own.recovery is Recover.REPORT else self._own.recovery,
        )

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Json:
        """Returns the arguments unchanged, after the tool has validated them."""
        validate = getattr(self.tool, "validate_args", None)
        if validate is not None:
            validate(args)
        return args

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        return only_asks(self.tool, args, decision)

    async def verify(self, ctx: ToolCallContext) -> Any:
        """Whether a call that was cut short has started its task; see `ToolTraits`."""
        manager = ctx.service(BackgroundTaskManager)
        known = await self._find_started(manager, ctx)
        if known is not None:
            return {"task_id": known.task_id, "status": known.status.value}
        if manager.journal is not None:
            return False  # a task that the journal does not know never began
        if self._own.recovery is not Recover.VERIFY:
            return None
        return await self.tool.verify(ctx)  # type: ignore[attr-defined]

    async def _find_started(
        self, manager: BackgroundTaskManager, ctx: ToolCallContext
    ) -> PersistedTaskMeta | None:
        """The task that the call has started before, if any; also one of an earlier version, whose
        id was the call's key."""
        thread_id, key = ctx.run_identity.thread_id, ctx.idempotency_key
        if not key:
            return None
        records = manager.records
        return await records.find_by_uid(key, thread_id) or await records.find_by_uid(
            task_uid(thread_id, key), thread_id
        )

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        """Start the task, or return its status if the call has started it before."""
        if only_asks(self.tool, args, ctx.resume_input):
            return await execute_tool({ctx.tool_name: self.tool}, _call(args, ctx), ctx)
        manager = ctx.service(BackgroundTaskManager)
        thread_id, key = ctx.run_identity.thread_id, ctx.idempotency_key
        known = await self._find_started(manager, ctx)
        if known is not None:
            return self._receipt(ctx, known.task_id, known.status.value)
        can_be_written_to = self._runs_agent and ctx.delegates is not None
        resume = {"tool": self._descriptor.id, "arguments": args, "key": key}
        if can_be_written_to:
            resume["runs_agent"] = True
        options = TaskOptions(
            deadline=self._deadline,
            uid=task_uid(thread_id, key) if key else None,
            resume=resume if self._own.recovery is Recover.RETRY else None,
            inbox=can_be_written_to,
            effect=self._own.effect,
            stoppable=self._own.stoppable,
        )
        if ctx.run_deps is not None:
            ctx.run_deps.acquire()  # the task may outlive the run
        try:
            name = await manager.spawn(
                thread_id,
                "tool",
                None,
                self._descriptor.name,
                TaskParentContext(),
                lambda task: self._run(args, ctx, task),
                options,
            )
        except BaseException as error:
            if ctx.run_deps is not None:
                await ctx.run_deps.release()
            if isinstance(error, BackgroundTaskError):
                raise ToolError.execution_failed(str(error)) from error
            raise
        return self._receipt(ctx, name, "running")

    def resume(
        self,
        manager: BackgroundTaskManager,
        task: PersistedTaskMeta,
        payload: Json,
        agent: ResolvedAgent | None = None,
        delegates: DurableDelegates | None = None,
        budget: Account | None = None,
        deps: RunDeps | None = None,
    ) -> str:
        """Resume a task that another process started.

        Args:
            manager: a manager with the task's journal.
            task: the task's record from the journal.
            payload: the `resume` data from the journal.
            agent: the agent that the tool belongs to, for the tool's context.
            delegates: runs the agents that the tool delegates to.
            budget: the budget of the run that started the task, which those agents share.
            deps: the dependencies of that run.

        Raises:
            BackgroundTaskError: the task has ended, or belongs to another tool.
        """
        tool_id = self._descriptor.id
        if payload["tool"] != tool_id:
            raise BackgroundTaskError(
                f"task '{task.task_id}' runs tool '{payload['tool']}', not '{tool_id}'"
            )
        missing = [name for name in ("arguments", "key") if name not in payload]
        if missing:
            raise BackgroundTaskError(
                f"task '{task.task_id}' was not started by tool '{tool_id}': its record has "
                f"no {' and no '.join(missing)}"
            )
        args = payload["arguments"]
        ctx = _build_context(task, payload, agent, delegates, budget)
        ctx.run_deps = deps
        if deps is not None:
            deps.acquire()
        return manager.resume_task(
            task,
            lambda taken: self._run(args, ctx, taken),
            deadline=self._deadline,
            inbox=self._runs_agent and delegates is not None,
        )

    async def _run(self, args: Json, ctx: ToolCallContext, task: TaskContext) -> TaskResult:
        try:
            return await self._work(args, ctx, task)
        finally:
            if ctx.run_deps is not None:
                await ctx.run_deps.release()

    async def _work(self, args: Json, ctx: ToolCallContext, task: TaskContext) -> TaskResult:
        own = msgspec.structs.replace(
            ctx,
            run_identity=task.identity_within(ctx.run_identity),
            cancellation_token=task.cancel_token,
            activity_sink=_ProgressSink(task),
            forward=None,
            in_background=True,
        )
        CURRENT_CALL.set(own)
        tools, call = {ctx.tool_name: self.tool}, _call(args, ctx)
        output: ToolOutput | None = None
        try:
            with interruptible(task.cancel_token), _relay_messages(task, own):
                output = await execute_tool(tools, call, own)
                while (run_id := _waiting_run_id(output)) is not None and own.delegates is not None:
                    # The agent's run has its own ticket; once it is answered there, the task goes
                    # on.
                    with task.waiting("waits for an approval"):
                        await own.delegates.wait_for_answer(run_id)
                    output = await execute_tool(tools, call, own)
        except Cancelled:
            # A success counts, even if the task was cancelled meanwhile.
            if output is None or output.result.status is not ToolStatus.SUCCESS:
                return await self._build_stopped_result(own)
        assert output is not None, "a tool that was not interrupted has an output"
        return _task_result(output)

    async def _build_stopped_result(self, ctx: ToolCallContext) -> TaskResult:
        """The result of a cancelled task; its error says what its agent had done by then."""
        delegates = ctx.delegates if self._runs_agent else None
        try:
            thread_id, key = ctx.run_identity.thread_id, ctx.idempotency_key
            done = (
                await delegates.summarize_delegate(thread_id, key)
                if delegates is not None
                else None
            )
        except StoreError as error:
            log.warning("cannot read what task %s had done: %s", ctx.idempotency_key, error)
            done = "it is unknown what it had done before that"
        return msgspec.structs.replace(TaskResult.cancelled(), error=done)

    def _receipt(self, ctx: ToolCallContext, task_id: str, status: str) -> ToolOutput:
        data = {"task_id": task_id, "status": status}
        return ToolOutput(ToolResult.success(ctx.tool_name, data))


def background(
    tool: Tool, *, deadline: float | None = None, description: str | None = None
) -> BackgroundTool:
    """Wrap a tool to run in the background; see `BackgroundTool`. A tool that is wrapped already is
    returned as it is."""
    if isinstance(tool, BackgroundTool) and deadline is None and description is None:
        return tool
    return BackgroundTool(tool, deadline=deadline, description=description)


@contextmanager
def _relay_messages(task: TaskContext, ctx: ToolCallContext) -> Iterator[None]:
    """Pass messages from the task's inbox on to the agent that runs in the task. Messages that the
    journal takes are delivered by the journal."""
    inbox, delegates = task.take_inbox(), ctx.delegates
    if inbox is None or delegates is None:
        yield
        return
    relaying = _relay(inbox, delegates, ctx.run_identity.thread_id, ctx.idempotency_key)
    relay = start_logged(relaying, f"messages to task {task.uid} are lost", log)
    try:
        yield
    finally:
        relay.cancel()
        inbox.close()


async def _relay(
    inbox: InboxReceiver, delegates: DurableDelegates, thread_id: str, key: str
) -> None:
    while True:
        event = await inbox.recv()
        try:
            await delegates.send_event(thread_id, key, event)
        except Exception as error:
            log_error(error, f"a message to the agent of task {key} was dropped", log)


class _ProgressSink:
    """Turns a tool's progress events into its task's progress."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task

    async def __call__(self, event: AgentEvent) -> None:
        if not isinstance(event, ActivitySnapshot):
            return
        if event.activity_type == PROGRESS_ACTIVITY and isinstance(event.content, dict):
            self._task.report(event.content.get("message"), event.content.get("progress"))
        elif isinstance(event.content, str):
            self._task.report(event.content)


def _call(args: Json, ctx: ToolCallContext) -> ToolCall:
    return ToolCall(id=ctx.call_id, name=ctx.tool_name, arguments=args)


def _waiting_run_id(output: ToolOutput) -> str | None:
    """The id of the delegate's run that waits for an answer, or `None`."""
    result: ToolResult = output.result
    ticket = result.suspension if result.status is ToolStatus.PENDING else None
    return ticket.asker.run_id if ticket is not None and ticket.asker is not None else None


def _task_result(output: ToolOutput) -> TaskResult:
    result: ToolResult = output.result
    if result.status is ToolStatus.PENDING:
        return TaskResult.failed("the tool asks for a decision, which a background task cannot get")
    if result.status is ToolStatus.ERROR:
        return TaskResult.failed(result.model_text(), cut_short=was_cut_short(result))
    if output.command:
        log.warning(
            "state changes of tool %r are refused: it ran in the background",
            result.tool_name,
        )
    return TaskResult.success(result.message if result.data is None else to_json(result.data))


def _build_context(
    task: PersistedTaskMeta,
    payload: Json,
    agent: ResolvedAgent | None,
    delegates: DurableDelegates | None,
    budget: Account | None,
) -> ToolCallContext:
    parent = task.parent_context
    agent_id = parent.agent_id or ""
    identity = RunIdentity(
        thread_id=task.owner_thread_id, run_id=parent.run_id or "", agent_id=agent_id
    )
    spec = agent.spec if agent else AgentSpec(id=agent_id, model_id="", system_prompt="")
    return ToolCallContext(
        call_id=parent.call_id or "",
        tool_name=payload["tool"],
        run_identity=identity,
        agent_spec=spec,
        snapshot=Snapshot(0, {}),
        idempotency_key=payload["key"],
        arguments=payload["arguments"],
        services=agent.env.services if agent else {},
        delegates=delegates,
        budget=budget,
    )
