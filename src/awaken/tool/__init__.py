"""Functions and types as tools, their schemas, and one call of one tool."""

from awaken.domain.schema import validate_against_schema
from awaken.tool.execute import execute_tool
from awaken.tool.frontend import FrontEndTool
from awaken.tool.function import FunctionTool, tool
from awaken.tool.schema import generate_tool_schema, sanitize_for_llm
from awaken.tool.typed import TypedTool

__all__ = [
    "FrontEndTool",
    "FunctionTool",
    "TypedTool",
    "execute_tool",
    "generate_tool_schema",
    "sanitize_for_llm",
    "tool",
    "validate_against_schema",
]
