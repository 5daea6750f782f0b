"""What a caller gets back."""

from __future__ import annotations

from awaken.domain.inference import TokenUsage
from awaken.domain.lifecycle import Suspended, TerminationReason
from awaken.domain.run import RunWaitingTicket
from awaken.domain.value import Value
from awaken.loop import AgentRunResult


class RunResult(Value, frozen=True, kw_only=True):
    """How a run ended, or what it waits for."""

    thread_id: str
    run_id: str
    response: str
    termination: TerminationReason
    steps: int
    usage: TokenUsage
    tickets: tuple[RunWaitingTicket, ...] = ()

    @property
    def suspended(self) -> bool:
        """Whether the run waits for somebody to answer its `tickets`."""
        return isinstance(self.termination, Suspended)

    @classmethod
    def of(cls, thread_id: str, result: AgentRunResult) -> RunResult:
        return cls(
            thread_id=thread_id,
            run_id=result.run_id,
            response=result.response,
            termination=result.termination,
            steps=result.steps,
            usage=TokenUsage(
                prompt_tokens=result.input_tokens,
                completion_tokens=result.output_tokens,
                total_tokens=result.input_tokens + result.output_tokens,
            ),
            tickets=result.tickets,
        )
