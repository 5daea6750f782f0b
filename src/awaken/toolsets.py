"""Tool sets: tools that are combined, filtered, renamed and guarded together, or made by run."""

from awaken.core.deps import RunInfo
from awaken.lazy import lazy_names
from awaken.tool.toolset import Toolset, toolset

__all__ = ["RunInfo", "Toolset", "toolset"]

lazy_names(__name__, {})  # an error about a name of another module says which
