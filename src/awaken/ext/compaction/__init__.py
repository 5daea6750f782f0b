"""Compaction: summaries, made while runs go on, replace the old messages of long conversations."""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.compaction.config import CompactionConfig, summary_model
    from awaken.ext.compaction.plugin import (
        COMPACTED,
        COMPACTION_PLUGIN_ID,
        FAILED,
        SKIPPED,
        STARTED,
        CompactionPlugin,
    )
    from awaken.ext.compaction.state import COMPACTION, CompactionState

__all__ = [
    "COMPACTED",
    "COMPACTION",
    "COMPACTION_PLUGIN_ID",
    "FAILED",
    "SKIPPED",
    "STARTED",
    "CompactionConfig",
    "CompactionPlugin",
    "CompactionState",
    "summary_model",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".config": "CompactionConfig summary_model",
        ".plugin": "COMPACTED COMPACTION_PLUGIN_ID FAILED SKIPPED STARTED CompactionPlugin",
        ".state": "COMPACTION CompactionState",
    },
)
