"""The front door: agents, a runtime, results and streams."""

from awaken.front.agent import Agent
from awaken.front.remote import RemoteAgent
from awaken.front.result import RecoveredRun, RunResult
from awaken.front.runtime import Runtime
from awaken.front.stream import RunStream

__all__ = ["Agent", "RecoveredRun", "RemoteAgent", "RunResult", "RunStream", "Runtime"]
