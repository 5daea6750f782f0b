"""What a caller gets back."""

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
"""What answers are read into, by agent."""
NO_SHAPES: Shapes = MappingProxyType({})


class RecoveredRun:
    """A run that was resumed after its process was gone; await it for its result.

    Raises:
        ThreadAlreadyRunning, InvalidResume: another process has resumed it first.
        AgentLoopError: it broke off.
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

    A `waiting` one is not over: it goes on when somebody has answered its `tickets`, or, if there
    are none, by itself when a task it has started in the background tells it something. `usage` is
    what the run's own models took, `cost` what that costs, as far as their prices are known.
    `spent` is what the run and all it started have used up of their budget; nothing if it has none.
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
        """The answer as the type its agent has for `output`.

        Raises:
            NoOutput: the agent has none, or the run did not come to an answer; says why.
        """
        if self.shape is None:
            raise NoOutput(self.run_id, "its agent answers with text: give it an output type")
        if self.waiting or self.suspended:
            raise NoOutput(self.run_id, "it waits, and has not answered yet")
        if self.termination != NATURAL_END:
            raise NoOutput(self.run_id, f"it ended otherwise: {self.termination!r}")
        try:
            return self.shape.read(self.response)
        except ValueError as error:
            raise NoOutput(self.run_id, f"its answer does not fit: {error}") from error

    def output_as(self, type_: type[T]) -> T:
        """The same, for type checkers.

        Raises:
            NoOutput: there is none.
            TypeError: it is of another type.
        """
        output = self.output
        if not isinstance(output, type_):
            raise TypeError(f"the output is a {type(output).__name__}, no {type_.__name__}")
        return output

    @property
    def suspended(self) -> bool:
        """Whether the run waits for somebody to answer its `tickets`."""
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
        """How a run stands, from its record."""
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
