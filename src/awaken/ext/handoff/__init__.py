"""Handing a conversation to another agent."""

from typing import TYPE_CHECKING

from awaken.core.spec import AgentOverlay
from awaken.ext.handoff.config import MAX_HANDOFFS, Handoff, InputFilter
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.handoff.input import HandoffInputPlugin
    from awaken.ext.handoff.plugin import HANDOFF_TOOL, HandoffPlugin
    from awaken.ext.handoff.state import (
        HANDOFF,
        HANDOFF_COUNT,
        Activate,
        Clear,
        HandoffRequest,
        HandoffState,
        Handover,
    )

__all__ = [
    "HANDOFF",
    "HANDOFF_COUNT",
    "HANDOFF_TOOL",
    "MAX_HANDOFFS",
    "Activate",
    "AgentOverlay",
    "Clear",
    "Handoff",
    "HandoffInputPlugin",
    "HandoffPlugin",
    "HandoffRequest",
    "HandoffState",
    "Handover",
    "InputFilter",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".input": "HandoffInputPlugin",
        ".plugin": "HANDOFF_TOOL HandoffPlugin",
        ".state": "HANDOFF HANDOFF_COUNT Activate Clear HandoffState Handover HandoffRequest",
    },
)
