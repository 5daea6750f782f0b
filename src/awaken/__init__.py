"""Awaken runs AI agents: typed state, nine phases, plugins, and a loop that loses nothing.

The names that agents, tools and plugins are written with are loaded at once; the engine is loaded
with `Runtime`.
"""

import typing

from awaken import lazy
from awaken.contract.deps import RunInfo
from awaken.contract.profile import ProfileKey
from awaken.contract.tool import RunContext, ToolCallContext, ToolOutput
from awaken.control.cancel import CancellationToken
from awaken.domain.budget import Budget, Price
from awaken.domain.context_message import ContextMessage
from awaken.domain.event import RunEvent
from awaken.domain.inference import InferenceOverride, ModelSettings
from awaken.domain.intercept import Block, SetResult, Suspend
from awaken.domain.message import Message, ToolCall
from awaken.domain.phase import Phase
from awaken.domain.secret import RedactedString
from awaken.domain.spec import AgentSpec
from awaken.domain.suspension import SuspendTicket, ToolCallResume
from awaken.domain.tool import Retry, ToolDescriptor, ToolError, ToolResult
from awaken.errors import AwakenError
from awaken.front import Agent, RemoteAgent, RunResult, hints
from awaken.plugin.context import PhaseContext
from awaken.plugin.hook import Plugin
from awaken.plugin.registrar import Registrar
from awaken.state.command import Command
from awaken.state.key import Merge, Scope, StateKey
from awaken.state.runtime_keys import RUN_LIFECYCLE, Done
from awaken.tool import FrontEndTool, TypedTool, tool

if typing.TYPE_CHECKING:
    from awaken._version import __version__
    from awaken.front import Runtime
    from awaken.runtime import RunRequest

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

__getattr__, __dir__ = lazy.lazy_names(
    __name__,
    {"._version": "__version__", ".front": "Runtime", ".runtime": "RunRequest"},
    hints.FOREIGN,
    beside=hints.BESIDE,
)
