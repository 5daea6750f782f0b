"""Tool sets: tools that are combined, filtered, renamed and guarded together, or made by run."""

from typing import TYPE_CHECKING

from awaken.core.deps import RunInfo
from awaken.lazy import lazy_names
from awaken.tool.toolset import Toolset, toolset

__all__ = ["RunInfo", "Toolset", "toolset"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {})
