"""The built-in plugins and their configuration; no plugin imports another.

Re-exports only; each name is loaded on first use.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.core.spec import (
        AgentOverlay,
        ConsecutiveErrors,
        ContentMatch,
        LoopDetection,
        MaxRounds,
        StopConditionSpec,
        StopOnTool,
        Timeout,
        TokenBudget,
    )
    from awaken.core.task import BackgroundTaskError, TaskMessageError, TaskStatus
    from awaken.ext.compaction import COMPACTION, CompactionConfig, CompactionState
    from awaken.ext.handoff import Handoff, InputFilter
    from awaken.ext.tasks import (
        BackgroundLimits,
        BackgroundTaskManager,
        BackgroundTaskPlugin,
        MessagePolicy,
        TaskContext,
        TaskOptions,
        TaskResult,
        TaskSummary,
    )

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
        "awaken.core.task": "BackgroundTaskError TaskMessageError TaskStatus",
        "awaken.core.spec": (
            "AgentOverlay ConsecutiveErrors ContentMatch LoopDetection MaxRounds "
            "StopConditionSpec StopOnTool Timeout TokenBudget"
        ),
        ".tasks": (
            "BackgroundLimits BackgroundTaskManager BackgroundTaskPlugin MessagePolicy "
            "TaskContext TaskOptions TaskResult TaskSummary"
        ),
        ".compaction": "COMPACTION CompactionConfig CompactionState",
        ".handoff": "Handoff InputFilter",
    },
)
