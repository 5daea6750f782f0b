"""What tests of agents, tools and stores need: models that follow a script, and a clock to turn."""

from awaken.testing.clock import FakeClock
from awaken.testing.models import (
    FunctionModel,
    ScriptedModel,
    stream_of,
    text_response,
    tool_call_response,
    tool_calls_response,
    truncated_response,
)
from awaken.testing.tools import CustomCancelTool, EchoTool

__all__ = [
    "CustomCancelTool",
    "EchoTool",
    "FakeClock",
    "FunctionModel",
    "ScriptedModel",
    "stream_of",
    "text_response",
    "tool_call_response",
    "tool_calls_response",
    "truncated_response",
]
