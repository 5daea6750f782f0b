"""The runtime: starts runs, keeps track of live ones, resumes abandoned ones, finds runs by id.

Its names are loaded on first use: a program that only describes agents does not load the loop.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.runtime.active import ActiveRun, ActiveRuns
    from awaken.runtime.builder import AgentRuntimeBuilder
    from awaken.runtime.defaults import CANCEL_GRACE, MAX_RUNS
    from awaken.runtime.request import RunKind, RunRequest, WhenBusy
    from awaken.runtime.runtime import AgentRuntime

__all__ = [
    "CANCEL_GRACE",
    "MAX_RUNS",
    "ActiveRun",
    "ActiveRuns",
    "AgentRuntime",
    "AgentRuntimeBuilder",
    "RunKind",
    "RunRequest",
    "WhenBusy",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".active": "ActiveRun ActiveRuns",
        ".builder": "AgentRuntimeBuilder",
        ".defaults": "CANCEL_GRACE MAX_RUNS",
        ".request": "RunKind RunRequest WhenBusy",
        ".runtime": "AgentRuntime",
    },
)
