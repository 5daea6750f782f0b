"""Keeping long conversations short: summaries, made beside runs, in the place of old messages."""

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
