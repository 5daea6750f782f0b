"""An agent elsewhere that asks back: by messages, not by tickets."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from awaken.backend import (
    BackendCapabilities,
    BackendContinuationCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    BackendTranscriptCapability,
    ExecutionBackend,
)
from awaken.core.lifecycle import NATURAL_END, SUSPENDED_END
from awaken.core.spec import RemoteEndpoint
from awaken.runtime.remote_agent import RemoteAgent

QUESTIONS = ("which city?", "which day?")


class FarBackend(ExecutionBackend):
    """Puts its questions one after another, and tells what it was answered.

    It knows how far it is from the conversation alone.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard

    def capabilities(self) -> BackendCapabilities:
        return msgspec.structs.replace(
            BackendCapabilities.remote_stateless_text(),
            continuation=BackendContinuationCapability.REMOTE_STATE,
            transcript=BackendTranscriptCapability.FULL_TRANSCRIPT,
        )

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        said = [message.text() for message in request.messages if message.is_visible_user()]
        self._heard(said[-1])
        asked = len(said) - 1
        if asked < len(QUESTIONS):
            return BackendRunResult(
                agent_id=request.agent_id,
                status=BackendRunStatus.waiting_input(QUESTIONS[asked]),
                termination=SUSPENDED_END,
                response=QUESTIONS[asked],
            )
        return BackendRunResult(
            agent_id=request.agent_id,
            status=BackendRunStatus.completed(),
            termination=NATURAL_END,
            response=f"far[{', '.join(said[1:])}]",
        )


class FarFactory:
    """Makes the one backend there is."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard

    def backend(self) -> str:
        return "far"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        return

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return FarBackend(self._heard)


def far_agent(name: str = "far") -> RemoteAgent:
    return RemoteAgent(name, "http://far.example", backend="far")
