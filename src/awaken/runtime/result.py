"""The results that `Runtime` returns."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Never, cast

from awaken.core.budget import Amount
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import (
    NATURAL_END,
    SUSPENDED_END,
    Suspended,
    TerminationReason,
    explain_unfinished,
)
from awaken.core.run import RunRecord, RunWaitingTicket
from awaken.core.state.run_keys import EMPTY_TWICE, SPENDING
from awaken.core.value import Value
from awaken.errors import NoOutput, RunNotOk, type_of
from awaken.runtime.hints import OF_RESULT, unknown_attribute
from awaken.runtime.output import OutputShape

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from awaken.core.run import AgentRunResult
    from awaken.worker.recovery import ResumedRun

    Out = TypeVar("Out", default=Any)
else:
    from typing import TypeVar

    Out = TypeVar("Out")

T = TypeVar("T")

Shapes = Mapping[str, OutputShape]
"""The output types, by agent id."""
NO_SHAPES: Shapes = MappingProxyType({})
_EMPTY_TWICE = "the model's answer was empty, also when it was asked once more"


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

    def __await__(self) -> Generator[None, None, RunResult[Any]]:
        result = yield from self._task.__await__()
        return RunResult.of(self.thread_id, result, self._shapes)

    def __repr__(self) -> str:
        return f"RecoveredRun({self.run_id!r}, thread_id={self.thread_id!r})"


class RunResult(Value, Generic[Out], frozen=True, kw_only=True):
    """How a run ended, or what it waits for.

    `ok` says whether the run has finished. `response` is the text of its last answer in any case;
    `unwrap` returns the answer only if the run is `ok`.

    A `waiting` run is not over. It goes on when its `tickets` are answered, or, if it has none,
    when a background task it started reports to it. `usage` is the tokens used by the run's own
    model calls, and `cost` their price as far as prices are known. `spent` is what the run and
    everything it started have used of the budget; `None` without a budget. `empty_twice` says that
    the model's last answer was empty, also when it was asked once more.
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
    shape: OutputShape | None = None
    empty_twice: bool = False

    @property
    def ok(self) -> bool:
        """Whether the run has finished: it is over, and was not stopped, blocked or cancelled, and
        did not fail; and the model has answered."""
        return self.reason is None

    @property
    def reason(self) -> str | None:
        """Why the run has not finished, or has no answer, and what to do; `None` if it is `ok`."""
        if self.waiting and not self.suspended:
            return "it waits for its background tasks: await runtime.wait(run_id)"
        if self.termination == NATURAL_END and self.shape is None and not self.response.strip():
            return _EMPTY_TWICE if self.empty_twice else "the answer has no text"
        return explain_unfinished(self.termination)

    def unwrap(self) -> Out:
        """The answer: a value of the agent's `output` type, or the text if it has none.

        Raises:
            RunNotOk: the run has not finished; the text says why, and what to do.
            NoOutput: the answer does not fit the output type.
        """
        reason = self.reason
        if reason is not None:
            raise RunNotOk(self.run_id, reason)
        if self.shape is None:
            return cast("Out", self.response)
        try:
            return cast("Out", self.shape.read(self.response))
        except ValueError as error:
            raise NoOutput(self.run_id, f"its answer does not fit: {error}") from error

    @property
    def output(self) -> Out:
        """What `unwrap` returns; raises as it does."""
        return self.unwrap()

    def output_as(self, type_: type[T]) -> T:
        """`output`, typed for type checkers.

        Raises:
            NoOutput: there is no output.
            TypeError: it is of another type.
        """
        output = self.output
        if not isinstance(output, type_):
            raise TypeError(f"the output is {type_of(output)}, no {type_.__name__}")
        return output

    if not TYPE_CHECKING:  # a type checker knows the names; this is for people without one

        def __getattr__(self, name: str) -> Never:
            raise unknown_attribute(self, name, OF_RESULT, "read")

    @property
    def suspended(self) -> bool:
        """Whether the run waits for answers to its `tickets`."""
        return isinstance(self.termination, Suspended)

    @classmethod
    def of(
        cls, thread_id: str, result: AgentRunResult, shapes: Shapes = NO_SHAPES
    ) -> RunResult[Any]:
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
            empty_twice=result.empty_twice,
            shape=shapes.get(result.agent_id),
        )

    @classmethod
    def read(cls, record: RunRecord, shapes: Shapes = NO_SHAPES) -> RunResult[Any]:
        """The state of a run, from its record."""
        waiting, state = record.waiting, record.state
        stored = state.extensions if state is not None else {}
        kept, empty = stored.get(SPENDING.name), stored.get(EMPTY_TWICE.name)
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
            empty_twice=empty is not None and EMPTY_TWICE.load(empty) == record.steps,
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
