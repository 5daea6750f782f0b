"""Requests to backends, as plain as they can be."""

from __future__ import annotations

from typing import Any

from awaken.backend import BackendControl, BackendDelegateRunRequest, BackendRootRunRequest
from awaken.core.event import NullEventSink
from awaken.core.identity import RunIdentity
from awaken.core.inbox import DecisionQueue
from awaken.core.inference import InferenceOverride
from awaken.core.message import Message
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolDescriptor
from awaken.errors import AgentNotFound
from awaken.plugin.resolved_agent import ResolvedAgent

DECISIONS = [("call-1", ToolCallResume.approve())]
FRONTEND_TOOLS = [ToolDescriptor(id="ui", name="ui", description="")]

ASKS: dict[str, dict[str, Any]] = {
    "decisions": {"decisions": DECISIONS},
    "overrides": {"overrides": InferenceOverride()},
    "frontend_tools": {"frontend_tools": FRONTEND_TOOLS},
    "continuation": {"is_continuation": True},
}
"""The four features a root request can ask for, each asked for alone; in the order of §2.3."""


class NoAgents:
    """A resolver for requests nobody gets to run."""

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> list[str]:
        return []


def root_request(**asked: Any) -> BackendRootRunRequest:
    message = Message.user("hello")
    return BackendRootRunRequest(
        agent_id="remote",
        messages=[message],
        new_messages=[message],
        sink=NullEventSink(),
        resolver=NoAgents(),
        run_identity=RunIdentity(thread_id="thread", run_id="run", agent_id="remote"),
        **asked,
    )


def delegate_request(**asked: Any) -> BackendDelegateRunRequest:
    message = Message.user("hello")
    return BackendDelegateRunRequest(
        agent_id="remote",
        messages=[message],
        new_messages=[message],
        sink=NullEventSink(),
        resolver=NoAgents(),
        **asked,
    )


def asks_for_everything() -> BackendRootRunRequest:
    asked = {name: value for ask in ASKS.values() for name, value in ask.items()}
    return root_request(**asked)


def live_channel() -> BackendControl:
    return BackendControl(decision_rx=DecisionQueue())
