"""Ending runs that go on too long: policies over one set of statistics."""

from awaken.ext.stop.plugin import StopConditionPlugin
from awaken.ext.stop.policy import StopDecision, evaluate

__all__ = ["StopConditionPlugin", "StopDecision", "evaluate"]
