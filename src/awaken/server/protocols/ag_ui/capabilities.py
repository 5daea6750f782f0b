"""What an agent can do, as AG-UI clients ask for it."""

from __future__ import annotations

from collections.abc import Iterable

from awaken.codec import Json
from awaken.core.spec import AgentSpec
from awaken.core.tool import ToolDescriptor


def capabilities(agent: AgentSpec, tools: Iterable[ToolDescriptor]) -> Json:
    """The capabilities of an agent with these tools of its own."""
    items = [_tool(tool) for tool in tools]
    identity = {"name": agent.id, "type": "awaken"}
    if agent.description:
        identity["description"] = agent.description
    return {
        "identity": identity,
        "transport": {"streaming": True, "resumable": True},
        "tools": {"supported": True, "items": items, "clientProvided": True},
        "output": {"structuredOutput": agent.output is not None},
        "state": {"snapshots": True, "deltas": True, "persistentState": True},
        "multiAgent": {"supported": bool(agent.delegates), "delegation": bool(agent.delegates)},
        "reasoning": {"supported": True, "streaming": True},
        "execution": {"maxIterations": agent.max_rounds},
        "humanInTheLoop": {
            "supported": True,
            "approvals": True,
            "interrupts": True,
            "approveWithEdits": True,
        },
    }


def _tool(tool: ToolDescriptor) -> Json:
    return {"name": tool.id, "description": tool.description, "parameters": tool.parameters}
