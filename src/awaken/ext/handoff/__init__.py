"""Handing a conversation to another agent."""

from typing import TYPE_CHECKING

from awaken.core.spec import AgentOverlay
from awaken.ext.handoff.config import MAX_HANDOFFS, Handoff, InputFilter
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.handoff.input import HandoffInputPlugin
    from awaken.ext.handoff.plugin import HandoffPlugin

__all__ = [
    "MAX_HANDOFFS",
    "AgentOverlay",
    "Handoff",
    "HandoffInputPlugin",
    "HandoffPlugin",
    "InputFilter",
]

lazy_names(__name__, {".input": "HandoffInputPlugin", ".plugin": "HandoffPlugin"})
