"""Awaken runs AI agents: typed state, nine phases, plugins, and a loop that loses nothing.

The names that agents, tools and plugins are written with are loaded at once; the engine is loaded
with `Runtime`.
"""

import typing

from awaken import lazy
from awaken.core.aio.cancel import CancellationToken
from awaken.core.budget import Budget, Price
from awaken.core.context_message import ContextMessage
from awaken.core.deps import RunInfo
from awaken.core.event import RunEvent
from awaken.core.inference import InferenceOverride, ModelSettings
from awaken.core.intercept import Block, SetResult, Suspend
from awaken.core.lifecycle import Phase
from awaken.core.message import Message, ToolCall
from awaken.core.profile import ProfileKey
from awaken.core.secret import RedactedString
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command
from awaken.core.state.key import Merge, Scope, StateKey
from awaken.core.state.run_keys import RUN_LIFECYCLE, Done
from awaken.core.suspension import SuspendTicket, ToolCallResume
from awaken.core.tool import Retry, ToolDescriptor, ToolError, ToolResult
from awaken.core.tool_context import RunContext, ToolCallContext, ToolOutput
from awaken.errors import AwakenError
from awaken.plugin.context import PhaseContext
from awaken.plugin.hook import Plugin
from awaken.plugin.registrar import Registrar
from awaken.runtime import Agent, RemoteAgent, RunResult
from awaken.tool import FrontEndTool, TypedTool, tool

if typing.TYPE_CHECKING:
    from awaken._version import __version__
    from awaken.runtime import Runtime
    from awaken.worker import RunRequest

__all__ = [
    "RUN_LIFECYCLE",
    "Agent",
    "AgentSpec",
    "AwakenError",
    "Block",
    "Budget",
    "CancellationToken",
    "Command",
    "ContextMessage",
    "Done",
    "FrontEndTool",
    "InferenceOverride",
    "Merge",
    "Message",
    "ModelSettings",
    "Phase",
    "PhaseContext",
    "Plugin",
    "Price",
    "ProfileKey",
    "RedactedString",
    "Registrar",
    "RemoteAgent",
    "Retry",
    "RunContext",
    "RunEvent",
    "RunInfo",
    "RunRequest",
    "RunResult",
    "Runtime",
    "Scope",
    "SetResult",
    "StateKey",
    "Suspend",
    "SuspendTicket",
    "ToolCall",
    "ToolCallContext",
    "ToolCallResume",
    "ToolDescriptor",
    "ToolError",
    "ToolOutput",
    "ToolResult",
    "TypedTool",
    "__version__",
    "tool",
]

lazy.lazy_names(
    __name__,
    {"._version": "__version__", ".runtime": "Runtime", ".worker": "RunRequest"},
)
