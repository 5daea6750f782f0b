"""Another agent as a tool."""

from __future__ import annotations

from contextvars import ContextVar

from awaken.backend.dispatch import execute_resolved_delegate_execution
from awaken.backend.local import LocalBackend
from awaken.codec import Json, to_json
from awaken.contract.backend import (
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRunResult,
    BackendStatusKind,
)
from awaken.contract.registry import ExecutionResolver
from awaken.contract.tool import ToolCallContext, ToolOutput
from awaken.domain.event import RunEvent, TextDelta
from awaken.domain.message import Message
from awaken.domain.progress import ProgressStatus
from awaken.domain.spec import AgentSpec
from awaken.domain.suspension import (
    PendingToolCall,
    SuspendTicket,
    Suspension,
    ToolCallResumeMode,
)
from awaken.domain.tool import ToolDescriptor, ToolError, ToolResult, ToolStatus
from awaken.errors import AwakenError
from awaken.plugin.agent import ResolvedAgent

MAX_DEPTH = 8
_depth: ContextVar[int] = ContextVar("awaken_delegate_depth", default=0)

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
    """`agent_run_<id>`: give another agent a task, get its answer."""

    def __init__(
        self, spec: AgentSpec, resolver: ExecutionResolver, local: LocalBackend | None = None
    ) -> None:
        self._agent_id = spec.id
        self._local = local
        self._resolver = resolver
        name = f"agent_run_{spec.id}"
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
        depth = _depth.get()
        if depth >= MAX_DEPTH:
            raise ToolError.execution_failed(f"agents delegate at most {MAX_DEPTH} levels deep")
        await ctx.report_progress(message=f"delegating to {self._agent_id}")
        message = Message.user(args["prompt"])
        request = BackendDelegateRunRequest(
            agent_id=self._agent_id,
            messages=[message],
            new_messages=[message],
            sink=_Passthrough(ctx),
            resolver=self._resolver,
            parent=BackendParentContext(
                parent_run_id=ctx.run_identity.run_id,
                parent_thread_id=ctx.run_identity.thread_id,
                parent_tool_call_id=ctx.call_id,
            ),
            control=BackendControl(cancellation_token=ctx.cancellation_token),
        )
        mark = _depth.set(depth + 1)
        try:
            execution = self._resolver.resolve_execution(self._agent_id)
            result = await execute_resolved_delegate_execution(execution, request, self._local)
        except AwakenError as error:
            await ctx.report_progress(ProgressStatus.FAILED, str(error))
            raise ToolError.execution_failed(str(error)) from error
        finally:
            _depth.reset(mark)
        if result.status.kind is BackendStatusKind.SUSPENDED and isinstance(
            execution, ResolvedAgent
        ):
            # Nothing is kept of a local delegate: an answer would find nobody to go on.
            await ctx.report_progress(ProgressStatus.FAILED)
            raise ToolError.execution_failed(
                f"agent '{self._agent_id}' needs an approval, which it cannot ask for as a "
                "delegate; hand the conversation over to it instead"
            )
        await ctx.report_progress(_PROGRESS.get(result.status.kind, ProgressStatus.PENDING))
        return ToolOutput(self._result(result, ctx))

    def _result(self, result: BackendRunResult, ctx: ToolCallContext) -> ToolResult:
        kind = result.status.kind
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
                "status": str(result.status),
                "response": result.response,
                "output": to_json(result.output),
                "steps": result.steps,
            },
            message=result.response if status is ToolStatus.SUCCESS else str(result.status),
            suspension=self._ticket(result, ctx) if status is ToolStatus.PENDING else None,
            metadata={"child_run_id": result.run_id} if result.run_id else {},
        )

    def _ticket(self, result: BackendRunResult, ctx: ToolCallContext) -> SuspendTicket:
        tool_id = self._descriptor.id
        return SuspendTicket(
            suspension=Suspension(
                id=f"delegate_run:{result.run_id}"
                if result.run_id
                else f"delegate_tool:{ctx.call_id or tool_id}",
                action=_ACTIONS[result.status.kind],
                message=result.status.message or f"agent '{self._agent_id}' waits for an answer",
                parameters={
                    "agent_id": self._agent_id,
                    "backend_status": str(result.status),
                    "child_run_id": result.run_id,
                    "tool_call_id": ctx.call_id,
                },
            ),
            pending=PendingToolCall(id=ctx.call_id, name=tool_id),
            resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
        )


class _Passthrough:
    """A child's text as its parent's tool output."""

    def __init__(self, ctx: ToolCallContext) -> None:
        self._ctx = ctx

    async def emit(self, event: RunEvent) -> None:
        if isinstance(event.event, TextDelta):
            await self._ctx.stream_output(event.event.delta)

    async def close(self) -> None:
        return
