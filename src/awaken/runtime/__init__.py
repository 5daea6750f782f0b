"""The engine: starts runs, knows which are live, and steers them."""

from awaken.runtime.active import ActiveRun, ActiveRuns
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.runtime.request import RunKind, RunRequest
from awaken.runtime.runtime import AgentRuntime

__all__ = [
    "ActiveRun",
    "ActiveRuns",
    "AgentRuntime",
    "AgentRuntimeBuilder",
    "RunKind",
    "RunRequest",
]
