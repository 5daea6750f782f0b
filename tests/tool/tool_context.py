"""A context for calling tools outside a run."""

from __future__ import annotations

from typing import Any

from awaken.core.identity import RunIdentity
from awaken.core.message import ToolCall
from awaken.core.spec import AgentSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool_context import Tool, ToolCallContext, ToolOutput
from awaken.tool import execute_tool


def make_context(**changes: Any) -> ToolCallContext:
    fields: dict[str, Any] = {
        "call_id": "call_1",
        "tool_name": "tool",
        "run_identity": RunIdentity(thread_id="thread", run_id="run", agent_id="agent"),
        "agent_spec": AgentSpec(id="agent", model_id="model", system_prompt=""),
        "snapshot": Snapshot(0, {}),
    }
    return ToolCallContext(**(fields | changes))


async def run_tool(tool: Tool, arguments: Any = None, **context: Any) -> ToolOutput:
    """One call of `tool`, as the loop makes it."""
    name = tool.descriptor().name
    call = ToolCall(id="call_1", name=name, arguments=arguments)
    return await execute_tool({name: tool}, call, make_context(**context))
