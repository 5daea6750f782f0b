"""Stop conditions: policies over one set of statistics that end long runs."""

from awaken.ext.stop.plugin import StopConditionPlugin
from awaken.ext.stop.policy import StopDecision, evaluate

__all__ = ["StopConditionPlugin", "StopDecision", "evaluate"]
