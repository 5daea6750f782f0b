"""The front door: agents, the runtime, and what its methods return.

The engine is loaded with `Runtime`.
"""

from typing import TYPE_CHECKING

from awaken.front.agent import Agent
from awaken.front.remote import RemoteAgent
from awaken.front.result import RecoveredRun, RunResult
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.domain.principal import Principal
    from awaken.domain.receipt import CancelItem, CancelOutcome, CancelReceipt
    from awaken.front.runtime import Runtime
    from awaken.front.stream import RunStream
    from awaken.front.tasks import BackgroundTask
    from awaken.live.outline import StepOutcome, StepOutline

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "awaken.domain.principal": "Principal",
        "awaken.domain.receipt": "CancelItem CancelOutcome CancelReceipt",
        "awaken.live.outline": "StepOutcome StepOutline",
        ".runtime": "Runtime",
        ".stream": "RunStream",
        ".tasks": "BackgroundTask",
    },
)
