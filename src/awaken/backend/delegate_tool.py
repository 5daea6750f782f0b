"""Delegation: the tool that gives another agent a task, and sinks for the events of a child run.

The sinks pass some of a child run's events on to the listeners of its parent.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from awaken.backend.dispatch import execute_resolved_delegate_execution
from awaken.backend.local import LocalBackend
from awaken.codec import Json, digest, to_json
from awaken.core.backend import (
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRunResult,
    BackendStatusKind,
)
from awaken.core.budget import Spending
from awaken.core.deps import deps_below
from awaken.core.event import (
    ActivitySnapshot,
    Error,
    EventSink,
    NullEventSink,
    RunEvent,
    TextDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.core.message import Message
from awaken.core.registry import ExecutionResolver
from awaken.core.run import RunWaitingTicket
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command
from awaken.core.state.run_keys import SPENDING
from awaken.core.suspension import (
    Asker,
    PendingToolCall,
    SuspendTicket,
    Suspension,
    ToolCallResumeMode,
)
from awaken.core.thread_ids import without_scope
from awaken.core.tool import (
    PROGRESS_ACTIVITY,
    ProgressStatus,
    ToolDescriptor,
    ToolEffect,
    ToolError,
    ToolResult,
    ToolStatus,
)
from awaken.core.tool_context import EventForwarder, ToolCallContext, ToolOutput, ToolTraits
from awaken.engine.call_results import append_summary, load_delegate_summary
from awaken.errors import AwakenError, ConfigError, RunLeft

MAX_DEPTH = 8
_PROGRESS = {
    BackendStatusKind.COMPLETED: ProgressStatus.DONE,
    BackendStatusKind.FAILED: ProgressStatus.FAILED,
    BackendStatusKind.TIMEOUT: ProgressStatus.FAILED,
    BackendStatusKind.CANCELLED: ProgressStatus.CANCELLED,
}
_ACTIONS = {
    BackendStatusKind.WAITING_INPUT: "agent_delegate:input_required",
    BackendStatusKind.WAITING_AUTH: "agent_delegate:auth_required",
    BackendStatusKind.SUSPENDED: "agent_delegate:suspended",
}


class DelegateTool:
    """`agent_run_<id>`: gives another agent a task and returns its answer.

    A call that is executed again, after a crash or with an approver's answer, continues the run it
    started: the delegate does not repeat its work.
    """

    traits = ToolTraits(effect=ToolEffect.IDEMPOTENT)
    runs_agent = True
    """As a background task, messages to the task go to the agent."""

    def __init__(
        self,
        spec: AgentSpec,
        resolver: ExecutionResolver,
        local: LocalBackend | None = None,
    ) -> None:
        self._agent_id = spec.id
        self._local = local
        self._resolver = resolver
        name = delegate_tool_name(spec.id)
        self._descriptor = ToolDescriptor(
            id=name,
            name=name,
            description=spec.description or f"Give agent '{spec.id}' a task and get its answer.",
            parameters={
                "type": "object",
                "properties": {
                    "prompt": {"type": "string", "description": "The task, with all it needs."}
                },
                "required": ["prompt"],
            },
        )

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Json:
        prompt = args.get("prompt") if isinstance(args, dict) else None
        if not isinstance(prompt, str):
            raise ToolError.invalid_arguments('missing required field "prompt"')
        if not prompt.strip():
            raise ToolError.invalid_arguments("prompt must not be empty")
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        if ctx.depth >= MAX_DEPTH:
            raise ToolError.execution_failed(
                f"agents delegate at most {MAX_DEPTH} levels deep; answer without "
                f"'{self._agent_id}'"
            )
        await ctx.report_progress(message=f"delegating to {self._agent_id}")
        message = Message.user(args["prompt"], id=f"{ctx.idempotency_key}>")
        request = BackendDelegateRunRequest(
            agent_id=self._agent_id,
            messages=[message],
            new_messages=[message],
            sink=ForwardingSink(ctx.forward) if ctx.forward is not None else NullEventSink(),
            resolver=self._resolver,
            parent=BackendParentContext(
                parent_run_id=ctx.run_identity.run_id,
                parent_thread_id=ctx.run_identity.thread_id,
                parent_tool_call_id=ctx.call_id,
            ),
            control=BackendControl(cancellation_token=ctx.cancellation_token),
            durable=ctx.delegates,
            key=ctx.idempotency_key,
            resume=ctx.resume_input,
            asker=ctx.asker,
            depth=ctx.depth + 1,
            budget=ctx.budget,
            deps=await deps_below(ctx.services, self._agent_id, ctx.run_deps),
        )
        try:
            execution = self._resolver.resolve_execution(self._agent_id)
            result = await execute_resolved_delegate_execution(execution, request, self._local)
        except RunLeft:
            raise
        except AwakenError as error:
            thread_id = ctx.run_identity.thread_id
            why = without_scope(str(error), thread_id)
            await ctx.report_progress(ProgressStatus.FAILED, why)
            done = await load_delegate_summary(ctx.delegates, thread_id, ctx.idempotency_key)
            raise ToolError.execution_failed(append_summary(why, done)) from error
        await ctx.report_progress(_PROGRESS.get(result.status.kind, ProgressStatus.PENDING))
        return ToolOutput(self._result(result, ctx), _spending(result, ctx))

    def _result(self, result: BackendRunResult, ctx: ToolCallContext) -> ToolResult:
        kind = result.status.kind
        ended = without_scope(str(result.status), ctx.run_identity.thread_id)
        status = (
            ToolStatus.SUCCESS
            if kind is BackendStatusKind.COMPLETED
            else ToolStatus.PENDING
            if kind in _ACTIONS
            else ToolStatus.ERROR
        )
        return ToolResult(
            tool_name=self._descriptor.id,
            status=status,
            data={
                "agent_id": self._agent_id,
                "status": ended,
                "response": result.response,
                "output": to_json(result.output),
                "steps": result.steps,
            },
            message=result.response
            if status is ToolStatus.SUCCESS
            else append_summary(ended, result.done),
            suspension=self._ticket(result, ctx) if status is ToolStatus.PENDING else None,
            metadata={"child_run_id": result.run_id} if result.run_id else {},
        )

    def _ticket(self, result: BackendRunResult, ctx: ToolCallContext) -> SuspendTicket:
        tool_id, run_id = self._descriptor.id, result.run_id
        question = result.tickets[0] if result.tickets else None
        parameters = {
            "agent_id": self._agent_id,
            "backend_status": str(result.status),
            "child_run_id": run_id,
            "tool_call_id": ctx.call_id,
        }
        suspension = Suspension(
            id=f"delegate_run:{run_id}" if run_id else f"delegate_tool:{ctx.call_id or tool_id}",
            action=_ACTIONS[result.status.kind],
            message=self._message(result.status.message, question),
            parameters=parameters,
        )
        pending = PendingToolCall(id=ctx.call_id, name=tool_id, arguments=ctx.arguments)
        mode = ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
        if ctx.delegates is None or run_id is None:
            # The delegate's run is not stored and cannot continue: the answer becomes the result.
            return SuspendTicket(suspension=suspension, pending=pending, resume_mode=mode)
        asker = Asker(
            thread_id=run_id,
            run_id=run_id,
            agent_id=result.agent_id,
            tool_name=tool_id,
            arguments=ctx.arguments,
            reason=suspension.action,
            resume_mode=mode,
        )
        if question is not None:
            asker = _add_question(asker, question)
        return SuspendTicket(suspension=suspension, pending=pending, asker=asker)

    def _message(self, said: str | None, question: RunWaitingTicket | None) -> str:
        if question is None:
            return said or f"agent '{self._agent_id}' waits for an answer"
        if question.asker is not None and said is not None:
            return said  # the text already names the agent that asks
        return f"agent '{self._agent_id}' asks: {said or f'approve {question.tool_name}?'}"


MAX_NAME_CHARS = 64
_INVALID_CHARS = r"[^A-Za-z0-9_-]"


def delegate_tool_name(agent_id: str) -> str:
    """`agent_run_<id>`, reduced to the characters and length that every provider accepts."""
    name = re.sub(_INVALID_CHARS, "_", f"agent_run_{agent_id}")
    if len(name) <= MAX_NAME_CHARS:
        return name
    mark = digest(agent_id)[:8]
    return f"{name[: MAX_NAME_CHARS - len(mark) - 1]}_{mark}"


def _add_question(asker: Asker, question: RunWaitingTicket) -> Asker:
    """The asker with the details of its question. If the question comes from a deeper delegate,
    that agent is named; the answer is passed down from run to run."""
    inner = question.asker
    return msgspec.structs.replace(
        asker,
        agent_id=inner.agent_id if inner is not None else asker.agent_id,
        tool_name=question.tool_name,
        arguments=question.arguments,
        ticket=question.key,
        reason=inner.reason if inner is not None else question.reason,
        resume_mode=inner.resume_mode if inner is not None else question.resume_mode,
        expires_at=question.expires_at,
    )


def _spending(result: BackendRunResult, ctx: ToolCallContext) -> Command | None:
    """The update that adds an ended delegate's spending to its parent's. Returns `None` if there is
    no budget or no spending, or if the delegate still waits.

    A background delegate's spending is counted separately, so this returns `None` for it too.
    """
    if ctx.budget is None or result.run_id is None or result.status.is_waiting:
        return None
    if ctx.in_background:
        return None
    if result.spending is not None:
        ctx.budget.restore(result.run_id, result.spending.as_parents())
    spent = ctx.budget.merge_run(result.run_id, ctx.run_identity.run_id)
    return Command().update(SPENDING, spent) if spent != Spending() else None


# -- events of a child run --------------------------------------------------------------------

ErrorMode = Literal["drop", "wrap", "forward"]
"""What happens to a child's errors: they are dropped, become text, or are forwarded as events."""


class StreamingPassthroughSink:
    """Streams a child's text as the output of the tool call that runs it.

    Args:
        ctx: the call.
        errors: what happens to the child's errors. `wrap` streams them as text that is not part of
            `text`; `forward` passes the events on unchanged, if the call forwards events.

    Raises:
        ConfigError: there is no such mode.
    """

    def __init__(self, ctx: ToolCallContext, errors: ErrorMode = "wrap") -> None:
        if errors not in get_args(ErrorMode):
            raise ConfigError(f"errors is drop, wrap or forward, not {errors!r}")
        self._ctx = ctx
        self._errors = errors
        self._child = _FirstRunFilter()
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The child's text so far."""
        return "".join(self._pieces)

    async def emit(self, event: RunEvent) -> None:
        if not self._child.has(event):
            return
        match event.event:
            case TextDelta(delta=delta):
                self._pieces.append(delta)
                await self._ctx.stream_output(delta)
            case Error() as error:
                await self._emit_error(event, error)

    async def _emit_error(self, event: RunEvent, error: Error) -> None:
        if self._errors == "wrap":
            code = f" {error.code}" if error.code else ""
            await self._ctx.stream_output(f"[child error{code}: {error.message}]")
        elif self._errors == "forward" and self._ctx.forward is not None:
            await self._ctx.forward(event)

    async def close(self) -> None:
        """Does nothing: the call's result ends its output."""


class ProgressForwardingSink:
    """Passes on only the progress of a child's own calls, not of the runs it starts."""

    def __init__(self, parent: EventSink) -> None:
        self._parent = parent
        self._child = _FirstRunFilter()
        self._calls: set[str] = set()

    async def emit(self, event: RunEvent) -> None:
        if not self._child.has(event):
            return
        match event.event:
            case ToolCallStart(id=call_id) | ToolCallReady(id=call_id):
                self._calls.add(call_id)
            case ActivitySnapshot(activity_type=kind, content={"call_id": str(call_id)}) if (
                kind == PROGRESS_ACTIVITY and call_id in self._calls
            ):
                await self._parent.emit(event)

    async def close(self) -> None:
        """Does nothing: the parent closes its own sink."""


class ForwardingSink:
    """Forwards a child's events unchanged to its parent's stream."""

    def __init__(self, forward: EventForwarder) -> None:
        self._forward = forward

    async def emit(self, event: RunEvent) -> None:
        await self._forward(event)

    async def close(self) -> None:
        return


class _FirstRunFilter:
    """Accepts the events of one run: that of the first event.

    Runs that this run starts send their events to the same sink, with their own ids.
    """

    def __init__(self) -> None:
        self._run_id: str | None = None

    def has(self, event: RunEvent) -> bool:
        if self._run_id is None:
            self._run_id = event.run_id
        return event.run_id == self._run_id
