"""Handing a conversation to another agent."""

from awaken.ext.handoff.plugin import HandoffPlugin
from awaken.ext.handoff.state import HANDOFF, Activate, Clear, HandoffState, Request

__all__ = ["HANDOFF", "Activate", "Clear", "HandoffPlugin", "HandoffState", "Request"]
