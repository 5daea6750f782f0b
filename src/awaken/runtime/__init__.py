"""The runtime: starts runs, keeps track of live ones, resumes abandoned ones, finds runs by id."""

from awaken.runtime.active import ActiveRun, ActiveRuns
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.runtime.closing import CANCEL_GRACE
from awaken.runtime.request import RunKind, RunRequest, WhenBusy
from awaken.runtime.runtime import AgentRuntime

__all__ = [
    "CANCEL_GRACE",
    "ActiveRun",
    "ActiveRuns",
    "AgentRuntime",
    "AgentRuntimeBuilder",
    "RunKind",
    "RunRequest",
    "WhenBusy",
]
