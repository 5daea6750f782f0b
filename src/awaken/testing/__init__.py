"""Helpers for tests of agents, tools and stores: scripted models, a fake clock, and a store that
fails on demand. The checks that every store must pass are in `awaken.testing.conformance`."""

from awaken.core.answer_stream import stream_of
from awaken.lazy import lazy_names
from awaken.testing.failing_store import CommitFailure, FailingStore
from awaken.testing.fake_clock import FakeClock
from awaken.testing.models import (
    FunctionModel,
    ScriptedModel,
    max_tokens_response,
    text_response,
    tool_call_response,
    tool_calls_response,
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
    "max_tokens_response",
    "stream_of",
    "text_response",
    "tool_call_response",
    "tool_calls_response",
]

lazy_names(__name__, {})  # an error about a name of another module says which
