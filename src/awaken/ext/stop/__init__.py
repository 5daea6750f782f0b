"""Stop conditions: policies over one set of statistics that end long runs."""

from typing import TYPE_CHECKING

from awaken.core.spec import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopConditionSpec,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.stop.plugin import StopConditionPlugin

__all__ = [
    "ConsecutiveErrors",
    "ContentMatch",
    "LoopDetection",
    "MaxRounds",
    "StopConditionPlugin",
    "StopConditionSpec",
    "StopOnTool",
    "Timeout",
    "TokenBudget",
]

lazy_names(__name__, {".plugin": "StopConditionPlugin"})
