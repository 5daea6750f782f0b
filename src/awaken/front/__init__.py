"""Kept until 1.0: the earlier path of `awaken.runtime`."""

from awaken.runtime import (
    Agent,
    BackgroundTask,
    CancelItem,
    CancelOutcome,
    CancelReceipt,
    Principal,
    RecoveredRun,
    RemoteAgent,
    RunResult,
    RunStream,
    Runtime,
    StepOutcome,
    StepOutline,
)

__all__ = [
    "Agent",
    "BackgroundTask",
    "CancelItem",
    "CancelOutcome",
    "CancelReceipt",
    "Principal",
    "RecoveredRun",
    "RemoteAgent",
    "RunResult",
    "RunStream",
    "Runtime",
    "StepOutcome",
    "StepOutline",
]
