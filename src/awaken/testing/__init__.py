"""What tests of agents, tools and stores need: models that follow a script, a clock to turn, and
a store that fails when told to. What every store must hold is in `awaken.testing.conformance`."""

from awaken.stream.split import stream_of
from awaken.testing.clock import FakeClock
from awaken.testing.failing import CommitFailure, FailingStore
from awaken.testing.models import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
    truncated_response,
)
from awaken.testing.tools import CustomCancelTool, EchoTool

__all__ = [
    "CommitFailure",
    "CustomCancelTool",
    "EchoTool",
    "FailingStore",
    "FakeClock",
    "FunctionModel",
    "ScriptedModel",
    "stream_of",
    "text_response",
    "tool_call_response",
    "tool_calls_response",
    "truncated_response",
]
