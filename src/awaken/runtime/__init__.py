"""The front door: agents, the runtime, and what its methods return.

The engine is loaded with `Runtime`.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names
from awaken.runtime.agent import Agent
from awaken.runtime.remote_agent import RemoteAgent
from awaken.runtime.result import RecoveredRun, RunResult

if TYPE_CHECKING:
    from awaken.core.identity import Principal
    from awaken.core.run import CancelItem, CancelOutcome, CancelReceipt
    from awaken.ext.tasks.listing import BackgroundTask
    from awaken.runtime.live.outline import StepOutcome, StepOutline
    from awaken.runtime.runtime import Runtime
    from awaken.runtime.stream import RunStream

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

lazy_names(
    __name__,
    {
        "awaken.core.identity": "Principal",
        "awaken.core.run": "CancelItem CancelOutcome CancelReceipt",
        "awaken.runtime.live.outline": "StepOutcome StepOutline",
        ".runtime": "Runtime",
        ".stream": "RunStream",
        "awaken.ext.tasks.listing": "BackgroundTask",
    },
)
