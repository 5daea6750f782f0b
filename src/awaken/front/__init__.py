"""The front door: agents, a runtime, results and streams. A runtime brings the engine with it."""

from typing import TYPE_CHECKING

from awaken.front.agent import Agent
from awaken.front.remote import RemoteAgent
from awaken.front.result import RecoveredRun, RunResult
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.front.runtime import Runtime
    from awaken.front.stream import RunStream

__all__ = ["Agent", "RecoveredRun", "RemoteAgent", "RunResult", "RunStream", "Runtime"]

__getattr__, __dir__ = lazy_names(__name__, {".runtime": "Runtime", ".stream": "RunStream"})
