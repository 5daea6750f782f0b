"""What cancelling a run came to."""

from __future__ import annotations

from enum import StrEnum

from awaken.domain.value import Value


class CancelOutcome(StrEnum):
    """It was stopped, it had finished, or nobody can tell whether it still goes on."""

    STOPPED = "stopped"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class CancelItem(Value, frozen=True, kw_only=True):
    """A run, a task or a call of what was cancelled, and what became of it.

    `kind` is `run`, `task` or `call`; `run_id` is the run itself, or the one whose call it is.
    `note` says what the outcome leaves open.
    """

    kind: str
    id: str
    name: str
    run_id: str
    outcome: CancelOutcome
    note: str | None = None


class CancelReceipt(Value, frozen=True, kw_only=True):
    """Everything a cancel reached; true if there was something to cancel."""

    accepted: bool
    items: tuple[CancelItem, ...] = ()

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def complete(self) -> bool:
        """Whether nothing is left that may still go on."""
        return all(item.outcome is not CancelOutcome.UNKNOWN for item in self.items)

    def of(self, outcome: CancelOutcome) -> tuple[CancelItem, ...]:
        return tuple(item for item in self.items if item.outcome is outcome)
