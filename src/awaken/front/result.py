"""The results that `Runtime` returns."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from awaken.domain.budget import Amount
from awaken.domain.inference import TokenUsage
from awaken.domain.lifecycle import NATURAL_END, SUSPENDED_END, Suspended, TerminationReason
from awaken.domain.run import RunRecord, RunWaitingTicket
from awaken.domain.value import Value
from awaken.errors import NoOutput
from awaken.front.output import OutputType
from awaken.state.runtime_keys import SPENDING

if TYPE_CHECKING:
    from awaken.domain.result import AgentRunResult
    from awaken.runtime.recovery import ResumedRun

T = TypeVar("T")

Shapes = Mapping[str, OutputType]
"""The output types, by agent id."""
NO_SHAPES: Shapes = MappingProxyType({})


class RecoveredRun:
    """A run that was resumed after its process had ended; await it to get its result.

    Raises:
        ThreadAlreadyRunning, InvalidResume: another process has resumed it first.
        AgentLoopError: the run broke off.
    """

    def __init__(self, resumed: ResumedRun, shapes: Shapes) -> None:
        record = resumed.record
        self.run_id = record.run_id
        self.thread_id = record.thread_id
        self.agent_id = record.agent_id
        self._task = resumed.task
        self._shapes = shapes

    def __await__(self) -> Generator[None, None, RunResult]:
        result = yield from self._task.__await__()
        return RunResult.of(self.thread_id, result, self._shapes)

    def __repr__(self) -> str:
        return f"RecoveredRun({self.run_id!r}, thread_id={self.thread_id!r})"


class RunResult(Value, frozen=True, kw_only=True):
    """How a run ended, or what it waits for.

    A `waiting` run is not over. It goes on when its `tickets` are answered, or, if it has none,
    when a background task it started reports to it. `usage` is the tokens used by the run's own
    model calls, and `cost` their price as far as prices are known. `spent` is what the run and
    everything it started have used of the budget; `None` without a budget.
    """

    thread_id: str
    run_id: str
    response: str
    termination: TerminationReason
    steps: int
    usage: TokenUsage
    cost: float | None = None
    tickets: tuple[RunWaitingTicket, ...] = ()
    waiting: bool = False
    spent: Amount | None = None
    shape: OutputType | None = None

    @property
    def output(self) -> Any:
        """The structured output: the answer as its agent's `output` type.

        Raises:
            NoOutput: the agent has no output type, or the run has no fitting answer; the text says
                why.
        """
        if self.shape is None:
            raise NoOutput(self.run_id, "its agent answers with text: give it an output type")
        if self.waiting or self.suspended:
            raise NoOutput(self.run_id, "it is waiting and has not answered yet")
        if self.termination != NATURAL_END:
            raise NoOutput(self.run_id, f"it ended without an answer: {self.termination!r}")
        try:
            return self.shape.read(self.response)
        except ValueError as error:
            raise NoOutput(self.run_id, f"its answer does not fit: {error}") from error

    def output_as(self, type_: type[T]) -> T:
        """`output`, typed for type checkers.

        Raises:
            NoOutput: there is no output.
            TypeError: it is of another type.
        """
        output = self.output
        if not isinstance(output, type_):
            raise TypeError(f"the output is a {type(output).__name__}, no {type_.__name__}")
        return output

    @property
    def suspended(self) -> bool:
        """Whether the run waits for answers to its `tickets`."""
        return isinstance(self.termination, Suspended)

    @classmethod
    def of(cls, thread_id: str, result: AgentRunResult, shapes: Shapes = NO_SHAPES) -> RunResult:
        return cls(
            thread_id=thread_id,
            run_id=result.run_id,
            response=result.response,
            termination=result.termination,
            steps=result.steps,
            usage=_usage(result),
            cost=result.cost,
            tickets=result.tickets,
            waiting=result.waits,
            spent=result.spent,
            shape=shapes.get(result.agent_id),
        )

    @classmethod
    def read(cls, record: RunRecord, shapes: Shapes = NO_SHAPES) -> RunResult:
        """The state of a run, from its record."""
        waiting, state = record.waiting, record.state
        kept = state.extensions.get(SPENDING.name) if state is not None else None
        return cls(
            thread_id=record.thread_id,
            run_id=record.run_id,
            response=record.final_output or "",
            termination=record.termination_reason or SUSPENDED_END,
            steps=record.steps,
            usage=_usage(record),
            cost=record.cost,
            tickets=waiting.tickets if waiting is not None else (),
            waiting=waiting is not None,
            spent=SPENDING.load(kept).spent if kept is not None else None,
            shape=shapes.get(record.agent_id),
        )


def _usage(took: AgentRunResult | RunRecord) -> TokenUsage:
    return TokenUsage(
        prompt_tokens=took.input_tokens,
        completion_tokens=took.output_tokens,
        total_tokens=took.input_tokens + took.output_tokens,
        cache_read_tokens=took.cache_read_tokens or None,
        cache_creation_tokens=took.cache_creation_tokens or None,
        thinking_tokens=took.thinking_tokens or None,
    )
