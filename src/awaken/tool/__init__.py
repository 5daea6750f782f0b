"""Functions and types as tools, their schemas, and one call of one tool."""

from awaken.core.schema import validate_against_schema
from awaken.core.spec import ToolExecutorKind, ToolSelection
from awaken.core.suspension import ResumeAction, ToolCallResumeMode
from awaken.core.tool import Recover, ToolEffect, ToolKind
from awaken.core.tool_context import SupportsApproval, Tool, ToolTraits
from awaken.lazy import lazy_names
from awaken.tool.execute import execute_tool
from awaken.tool.frontend import FrontEndTool
from awaken.tool.function import FunctionTool, tool
from awaken.tool.schema import generate_tool_schema, sanitize_for_llm
from awaken.tool.typed import TypedTool

__all__ = [
    "FrontEndTool",
    "FunctionTool",
    "Recover",
    "ResumeAction",
    "SupportsApproval",
    "Tool",
    "ToolCallResumeMode",
    "ToolEffect",
    "ToolExecutorKind",
    "ToolKind",
    "ToolSelection",
    "ToolTraits",
    "TypedTool",
    "execute_tool",
    "generate_tool_schema",
    "sanitize_for_llm",
    "tool",
    "validate_against_schema",
]

lazy_names(__name__, {})  # an error about a name of another module says which
