"""Compaction: summaries, made while runs go on, replace the old messages of long conversations."""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.compaction.config import CompactionConfig
    from awaken.ext.compaction.plugin import CompactionPlugin
    from awaken.ext.compaction.state import COMPACTION, CompactionState

__all__ = ["COMPACTION", "CompactionConfig", "CompactionPlugin", "CompactionState"]

lazy_names(
    __name__,
    {
        ".config": "CompactionConfig",
        ".plugin": "CompactionPlugin",
        ".state": "COMPACTION CompactionState",
    },
)
