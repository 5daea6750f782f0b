"""The scheduled actions that every agent handles; a hook, a handler or a tool may schedule them."""

from __future__ import annotations

from awaken.core.context_message import ContextMessage
from awaken.core.inference import InferenceOverride
from awaken.core.phase import Phase
from awaken.core.state.command import ScheduledActionSpec

ADD_CONTEXT_MESSAGE: ScheduledActionSpec[ContextMessage] = ScheduledActionSpec(
    "runtime.add_context_message", Phase.BEFORE_INFERENCE, ContextMessage
)
"""Add a context message to the next request."""

SET_INFERENCE_OVERRIDE: ScheduledActionSpec[InferenceOverride] = ScheduledActionSpec(
    "runtime.set_inference_override", Phase.BEFORE_INFERENCE, InferenceOverride
)
"""Change parameters of the next request; of several overrides, the last wins field by field."""

EXCLUDE_TOOL: ScheduledActionSpec[str] = ScheduledActionSpec(
    "runtime.exclude_tool", Phase.BEFORE_INFERENCE, str
)
"""Do not offer a tool in the next request."""

INCLUDE_ONLY_TOOLS: ScheduledActionSpec[tuple[str, ...]] = ScheduledActionSpec(
    "runtime.include_only_tools", Phase.BEFORE_INFERENCE, tuple[str, ...]
)
"""Offer only these tools in the next request; several such lists are joined."""
