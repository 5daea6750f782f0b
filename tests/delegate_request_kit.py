"""Requests to a backend for a delegate, and the registry that they are resolved by."""

from __future__ import annotations

from collections.abc import Sequence

from awaken.backend import BackendControl, BackendDelegateRunRequest, BackendParentContext
from awaken.core.event import EventSink, NullEventSink
from awaken.core.message import Message
from awaken.core.registry import ExecutionResolver
from awaken.engine import build_agent_env
from awaken.plugin.hook import Plugin
from awaken.plugin.resolved_agent import ResolvedAgent


class FixedResolver:
    """Knows one agent; each time it is asked, the agent's environment is made anew."""

    def __init__(self, agent: ResolvedAgent, plugins: Sequence[Plugin] = ()) -> None:
        self.agent = agent
        self.plugins = list(plugins)

    def resolve(self, agent_id: str) -> ResolvedAgent:
        return self.agent.with_env(build_agent_env(self.plugins, self.agent))

    def resolve_execution(self, agent_id: str) -> ResolvedAgent:
        return self.resolve(agent_id)

    def agent_ids(self) -> list[str]:
        return [self.agent.spec.id]


def delegate_request(
    resolver: ExecutionResolver,
    text: str,
    control: BackendControl | None = None,
    sink: EventSink | None = None,
) -> BackendDelegateRunRequest:
    return BackendDelegateRunRequest(
        agent_id="delegate",
        messages=[Message.user(text)],
        new_messages=[Message.user(text)],
        sink=sink or NullEventSink(),
        resolver=resolver,
        parent=BackendParentContext(
            parent_run_id="parent-run",
            parent_thread_id="parent-thread",
            parent_tool_call_id="tool-1",
        ),
        control=control or BackendControl(),
    )
