"""Instrumented stores, tools and models.

Each wraps another object and passes on every call that is not instrumented.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, cast

from awaken.codec import digest
from awaken.core.llm import InferenceRequest, LlmExecutor, LlmStreamEvent
from awaken.core.run import RunRecord
from awaken.core.store.commands import Submission, Submitted, ThreadCommand
from awaken.core.store.commits import Committed, Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.suspension import Decision
from awaken.core.thread import Thread
from awaken.core.tool import ToolResult, ToolStatus
from awaken.core.tool_context import Tool, ToolCallContext, ToolOutput
from awaken.testing.chaos.damage import transcript_faults
from awaken.testing.chaos.effect_log import EffectLog, KillSwitch, NoteKind


def watch_store(store: Store, switch: KillSwitch) -> Store:
    """`store` with a point before and after every write."""
    return cast("Store", _InstrumentedStore(store, switch))


def watch_tool(tool: Tool, switch: KillSwitch) -> Tool:
    """`tool` with a point directly before and after its body."""
    return cast("Tool", _InstrumentedTool(tool, switch))


def watch_model(model: LlmExecutor, effect_log: EffectLog) -> LlmExecutor:
    """`model` with a note of every request, and of faults in its messages."""
    return cast("LlmExecutor", _InstrumentedModel(model, effect_log))


class _Instrumented:
    """Passes unknown attributes on, and has the type of the wrapped object for `isinstance`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property  # type: ignore[misc]  # the runtime treats tools of its own classes specially
    def __class__(self) -> Any:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _InstrumentedStore(_Instrumented):
    def __init__(self, store: Store, switch: KillSwitch) -> None:
        super().__init__(store)
        self._switch = switch

    async def commit(self, commit: ThreadCommit) -> Committed:
        self._switch.reach("before a commit")
        committed: Committed = await self._inner.commit(commit)
        self._switch.effect_log.note(
            NoteKind.COMMIT,
            commit.thread_id,
            detail={
                "length": committed.length,
                "messages": [[message.id, digest(message)] for message in commit.messages],
                "answers": [m.id for m in commit.messages if m.role == "assistant"],
                "calls": [[call.key, call.phase] for call in commit.calls],
                "sends": [[c.thread_id, m.id] for c in commit.sends for m in c.messages],
            },
        )
        self._switch.reach("after a commit")
        return committed

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        self._switch.reach("before a claim")
        fence: Fence = await self._inner.claim(thread_id, at_ms=at_ms)
        self._switch.reach("after a claim")
        return fence

    async def claim_next(
        self, agents: Collection[str], **options: Any
    ) -> Sequence[tuple[Fence, RunRecord]]:
        # Nothing is durable before the first claim, and how often a node looks is up to it.
        claimed: Sequence[tuple[Fence, RunRecord]] = await self._inner.claim_next(agents, **options)
        if claimed:
            self._switch.reach("after a claim")
        return claimed

    async def submit(self, submission: Submission) -> Submitted:
        self._switch.reach("before a submission")
        submitted: Submitted = await self._inner.submit(submission)
        self._switch.reach("after a submission")
        return submitted

    async def send(self, command: ThreadCommand) -> int:
        self._switch.reach("before a command")
        id: int = await self._inner.send(command)
        if command.messages:
            ids = [message.id for message in command.messages]
            self._switch.effect_log.note(NoteKind.SENT, command.thread_id, detail=ids)
        self._switch.reach("after a command")
        return id

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        self._switch.reach("before a cancel")
        cancelled: Sequence[Thread] = await self._inner.cancel_tree(thread_id, at_ms=at_ms, by=by)
        self._switch.reach("after a cancel")
        return cancelled

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        self._switch.reach("before an answer")
        command: int | None = await self._inner.decide(thread_id, decisions, at_ms=at_ms)
        self._switch.reach("after an answer")
        return command


class _InstrumentedTool(_Instrumented):
    def __init__(self, tool: Tool, switch: KillSwitch) -> None:
        super().__init__(tool)
        self._switch, self._effect_log = switch, switch.effect_log
        self._name = tool.descriptor().id

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        name, key = self._name, ctx.idempotency_key
        self._switch.reach(f"start of {name}")
        if not self._only_asks(ctx):
            self._effect_log.note(NoteKind.START, name, key)
        try:
            output: ToolOutput = await self._inner.execute(args, ctx)
        except Exception as error:
            self._effect_log.note(NoteKind.END, name, key, detail=type(error).__name__)
            self._switch.reach(f"end of {name}")
            raise
        self._effect_log.note(NoteKind.ASKED if _is_pending(output) else NoteKind.END, name, key)
        self._switch.reach(f"end of {name}")
        return output

    def _only_asks(self, ctx: ToolCallContext) -> bool:
        """Whether the call only asks for an approval, and the body does not run."""
        return ctx.resume_input is None and getattr(self._inner, "needs_approval", False) is True

    async def verify(self, ctx: ToolCallContext) -> Any:
        answer = self._inner.verify(ctx)
        if inspect.isawaitable(answer):
            answer = await answer
        self._effect_log.note(NoteKind.VERIFIED, self._name, ctx.idempotency_key, repr(answer))
        return answer


def _is_pending(output: object) -> bool:
    result = output.result if isinstance(output, ToolOutput) else output
    return isinstance(result, ToolResult) and result.status is ToolStatus.PENDING


class _InstrumentedModel(_Instrumented):
    def __init__(self, model: LlmExecutor, effect_log: EffectLog) -> None:
        super().__init__(model)
        self._effect_log = effect_log

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        shown = tuple(request.messages)
        for fault in transcript_faults(shown):
            self._effect_log.note(NoteKind.FAULT, self._inner.name, detail=fault)
        asked = {"question": digest(shown), "messages": [m.id for m in shown if m.id]}
        self._effect_log.note(NoteKind.MODEL, self._inner.name, detail=asked)
        answer = self._inner.execute_stream(request)
        try:
            async for event in answer:
                yield event
        finally:
            close = getattr(answer, "aclose", None)
            if close is not None:
                await close()
