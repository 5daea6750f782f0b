"""The result of cancelling a run."""

from __future__ import annotations

from enum import StrEnum

from awaken.core.value import Value


class CancelOutcome(StrEnum):
    """The item was stopped, had finished before, or may still be running."""

    STOPPED = "stopped"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class CancelItem(Value, frozen=True, kw_only=True):
    """A run, task or tool call that the cancel reached, and its outcome.

    `kind` is `run`, `task` or `call`; `run_id` is the run itself, or the run of the call. `note`
    explains an outcome that is not certain.
    """

    kind: str
    id: str
    name: str
    run_id: str
    outcome: CancelOutcome
    note: str | None = None


class CancelReceipt(Value, frozen=True, kw_only=True):
    """Everything that a cancel reached; true if there was something to cancel."""

    accepted: bool
    items: tuple[CancelItem, ...] = ()

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def complete(self) -> bool:
        """Whether it is certain that nothing is still running."""
        return all(item.outcome is not CancelOutcome.UNKNOWN for item in self.items)

    def of(self, outcome: CancelOutcome) -> tuple[CancelItem, ...]:
        return tuple(item for item in self.items if item.outcome is outcome)
