"""The built-in plugins and their configuration; no plugin imports another.

Re-exports only; each name is loaded on first use.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.contract.background import BackgroundTaskError, TaskMessageError, TaskStatus
    from awaken.domain.overlay import AgentOverlay
    from awaken.domain.spec import (
        ConsecutiveErrors,
        ContentMatch,
        LoopDetection,
        MaxRounds,
        StopConditionSpec,
        StopOnTool,
        Timeout,
        TokenBudget,
    )
    from awaken.ext.background import (
        BackgroundLimits,
        BackgroundTaskManager,
        BackgroundTaskPlugin,
        MessagePolicy,
        TaskContext,
        TaskOptions,
        TaskResult,
        TaskSummary,
    )
    from awaken.ext.compaction import COMPACTION, CompactionConfig, CompactionState
    from awaken.ext.handoff import Handoff, InputFilter

__all__ = [
    "COMPACTION",
    "AgentOverlay",
    "BackgroundLimits",
    "BackgroundTaskError",
    "BackgroundTaskManager",
    "BackgroundTaskPlugin",
    "CompactionConfig",
    "CompactionState",
    "ConsecutiveErrors",
    "ContentMatch",
    "Handoff",
    "InputFilter",
    "LoopDetection",
    "MaxRounds",
    "MessagePolicy",
    "StopConditionSpec",
    "StopOnTool",
    "TaskContext",
    "TaskMessageError",
    "TaskOptions",
    "TaskResult",
    "TaskStatus",
    "TaskSummary",
    "Timeout",
    "TokenBudget",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "awaken.contract.background": "BackgroundTaskError TaskMessageError TaskStatus",
        "awaken.domain.overlay": "AgentOverlay",
        "awaken.domain.spec": (
            "ConsecutiveErrors ContentMatch LoopDetection MaxRounds StopConditionSpec "
            "StopOnTool Timeout TokenBudget"
        ),
        ".background": (
            "BackgroundLimits BackgroundTaskManager BackgroundTaskPlugin MessagePolicy "
            "TaskContext TaskOptions TaskResult TaskSummary"
        ),
        ".compaction": "COMPACTION CompactionConfig CompactionState",
        ".handoff": "Handoff InputFilter",
    },
)
