"""The runtime: starts runs, keeps track of live ones, resumes abandoned ones, finds runs by id.

Its names are loaded on first use: a program that only describes agents does not load the loop.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.core.defaults import CANCEL_GRACE, MAX_RUNS
    from awaken.worker.live_runs import ActiveRun, ActiveRuns
    from awaken.worker.request import RequestKind, RunRequest, WhenBusy
    from awaken.worker.worker import Worker

__all__ = [
    "CANCEL_GRACE",
    "MAX_RUNS",
    "ActiveRun",
    "ActiveRuns",
    "RequestKind",
    "RunRequest",
    "WhenBusy",
    "Worker",
]

lazy_names(
    __name__,
    {
        ".live_runs": "ActiveRun ActiveRuns",
        "awaken.core.defaults": "CANCEL_GRACE MAX_RUNS",
        ".request": "RequestKind RunRequest WhenBusy",
        ".worker": "Worker",
    },
)
