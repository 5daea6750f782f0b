"""Errors of the runtime, and of runs that started and could not continue."""

from __future__ import annotations

from collections.abc import Iterable

from awaken.errors.base import AwakenError, describe


class RuntimeFault(AwakenError):
    """The runtime could not start or find a run."""


class ThreadAlreadyRunning(RuntimeFault):
    """The thread has an active run; a thread has one run at a time."""

    def __init__(self, thread_id: str, owner: str | None = None) -> None:
        where = f" (in {owner})" if owner else ""
        super().__init__(
            f"thread already has an active run{where}: {thread_id}: wait for it "
            "(when_busy='queue' does), cancel it, or send it a message"
        )
        self.thread_id, self.owner = thread_id, owner


class AgentNotFound(RuntimeFault):
    """No agent with that id is registered."""

    def __init__(self, agent_id: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(repr(name) for name in sorted(known))
        super().__init__(
            f"agent not found: {agent_id!r}; registered: {names}"
            if names
            else f"agent not found: {agent_id!r}; none is registered"
        )
        self.agent_id = agent_id


class ResolveFailed(RuntimeFault):
    """An agent is registered but cannot be made ready to run."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ToolsetFailed(ResolveFailed):
    """A toolset could not say which tools it has for a run; the run did not start."""

    def __init__(self, toolset: str, why: str) -> None:
        super().__init__(
            f"toolset {toolset!r} could not be asked for its tools: {why}; "
            "@toolset(required=False) lets runs start without them"
        )
        self.toolset = toolset


class BudgetExhausted(RuntimeFault):
    """Too little of a run's budget is left for its next call.

    `name` is the limit that was reached, `level` how many levels above the run it was set. `asks`
    means that an approver is to be asked for more; `may_come_back` means that calls under way may
    cost less than they have reserved.
    """

    def __init__(
        self,
        name: str,
        *,
        limit: float,
        left: float,
        wanted: float,
        level: int = 0,
        asks: bool = False,
        may_come_back: bool = False,
    ) -> None:
        needs = f", and the next call may take {wanted:g}" if wanted else ""
        super().__init__(f"the budget of {limit:g} {name} has {left:g} left{needs}")
        self.name = name
        self.limit = limit
        self.left = left
        self.wanted = wanted
        self.level = level
        self.asks = asks
        self.may_come_back = may_come_back


class RunLeft(RuntimeFault):
    """The run was left before it ended; another worker can recover it.

    Its runtime was closed or drained, or lost the claim on the thread. It stopped at the end of a
    step or, if that did not come in time, at its last commit.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} was left before it ended: recover it to continue")
        self.run_id = run_id


class RunAbandoned(RuntimeFault):
    """The caller waits for the end of a run that no worker will continue."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"no worker continues run {run_id!r}: {why}")
        self.run_id = run_id


# -- the loop ---------------------------------------------------------------------------------


class AgentLoopError(AwakenError):
    """A run started and could not continue; its record says so too."""

    prefix = "agent loop failed"

    def __init__(self, cause: object) -> None:
        super().__init__(f"{self.prefix}: {describe(cause)}")
        self.cause = cause


class InferenceFailed(AgentLoopError):
    """The model call failed."""

    prefix = "inference failed"


class StorageError(AgentLoopError):
    """The store refused or failed during the run."""

    prefix = "storage failed"


class PhaseError(AgentLoopError):
    """A hook, gate, reducer or handler failed."""

    prefix = "phase error"


class RuntimeFailed(AgentLoopError):
    """The runtime around the loop failed."""

    prefix = "runtime error"


class InvalidResume(AgentLoopError):
    """The run to continue, or the question to answer, does not exist or is finished."""

    prefix = "invalid resume"


class ArgumentsRefused(InvalidResume):
    """The tool of a ticket's call refuses the arguments of an answer; the ticket stays open."""

    def __init__(self, ticket: str, reason: str) -> None:
        super().__init__(f"the arguments for ticket {ticket!r} are refused: {reason}")
        self.ticket, self.reason = ticket, reason


class NoOutput(AwakenError):
    """A run has no output: no answer that fits its agent's output type."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"run {run_id!r} has no output: {why}")
        self.run_id = run_id


class RunNotOk(NoOutput):
    """A run has no output because it has not finished; `reason` says why, and what to do."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.reason = reason


class NoPreview(AwakenError):
    """A model cannot show what it would send to its provider."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"model {model!r} cannot show what it sends: its executor has no method preview"
        )
        self.model = model
