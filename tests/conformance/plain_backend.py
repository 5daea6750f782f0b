"""A backend that does all it claims in a few lines, to be spoiled in one place at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateRunRequest,
    BackendOutputCapability,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
    RemoteError,
)
from awaken.core.lifecycle import CANCELLED, NATURAL_END, SUSPENDED_END
from awaken.core.message import Message, Role
from awaken.errors import Cancelled
from awaken.ids import UUID7
from awaken.testing.conformance import BackendPart, BackendSubject


class PlainBackend(ExecutionBackend):
    """All five agents, by their names."""

    def __init__(self) -> None:
        self.working = asyncio.Event()
        self.stopped = asyncio.Event()
        self.runs: dict[str, CancellationToken] = {}

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities(
            cancellation=BackendCancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
            decisions=False,
            overrides=True,
            frontend_tools=True,
            continuation=BackendContinuationCapability.REMOTE_STATE,
            waits=BackendWaitCapability.INPUT,
            transcript=BackendTranscriptCapability.FULL_TRANSCRIPT,
            output=BackendOutputCapability.TEXT,
        )

    async def abort(self, request: BackendAbortRequest) -> None:
        if request.run_identity.run_id in self.runs:
            self.runs[request.run_identity.run_id].cancel()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        token = self.runs[request.run_identity.run_id] = CancellationToken()
        if request.control.cancellation_token is not None:
            request.control.cancellation_token.on_cancel(token.cancel)
        try:
            with interruptible(token):
                return await self.run(
                    request.agent_id,
                    request.run_identity.run_id,
                    request.messages,
                    answered=request.is_continuation,
                )
        except Cancelled:
            return self.cancelled(request.agent_id)
        finally:
            del self.runs[request.run_identity.run_id]

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        try:
            with interruptible(request.control.cancellation_token):
                return await self.run(request.agent_id, UUID7.new(), request.messages)
        except Cancelled:
            return self.cancelled(request.agent_id)

    def cancelled(self, agent_id: str) -> BackendRunResult:
        return BackendRunResult(
            agent_id=agent_id, status=BackendRunStatus.cancelled(), termination=CANCELLED
        )

    async def run(
        self, agent_id: str, run_id: str, messages: Sequence[Message], *, answered: bool = False
    ) -> BackendRunResult:
        said = [message.text() for message in messages if message.role is Role.USER]
        match agent_id:
            case BackendPart.SLOW:
                await self.work()
            case BackendPart.FAILING:
                return self.fail()
            case BackendPart.ASKING if not answered:
                return BackendRunResult(
                    agent_id=agent_id,
                    status=BackendRunStatus.waiting_input("well?"),
                    termination=SUSPENDED_END,
                )
            case BackendPart.RECALLING:
                return self.answer(agent_id, run_id, said[0])
        return self.answer(agent_id, run_id, said[-1])

    async def work(self) -> None:
        self.stopped.clear()
        self.working.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()

    def fail(self) -> BackendRunResult:
        raise RemoteError("out of order")

    def answer(self, agent_id: str, run_id: str, text: str) -> BackendRunResult:
        return BackendRunResult(
            agent_id=agent_id,
            status=BackendRunStatus.completed(),
            termination=NATURAL_END,
            response=text,
            output=BackendRunOutput.from_text(text),
            steps=1,
            run_id=run_id,
        )


class PlainSubject(BackendSubject):
    """One backend for all of it."""

    def __init__(self, backend: PlainBackend) -> None:
        self.plain = backend

    def backend(self, part: BackendPart) -> ExecutionBackend:
        return self.plain

    async def until_working(self) -> None:
        await self.plain.working.wait()
        self.plain.working.clear()

    async def until_stopped(self) -> None:
        await self.plain.stopped.wait()
