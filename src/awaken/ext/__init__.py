"""The built-in plugins, one folder each; no plugin imports another.

A folder is a plugin's public path (`awaken.ext.compaction`). Its classes are here as well; each is
loaded on first use.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.compaction import (
        COMPACTION,
        CompactionConfig,
        CompactionPlugin,
        CompactionState,
    )
    from awaken.ext.handoff import (
        AgentOverlay,
        Handoff,
        HandoffInputPlugin,
        HandoffPlugin,
        InputFilter,
    )
    from awaken.ext.stop import (
        ConsecutiveErrors,
        ContentMatch,
        LoopDetection,
        MaxRounds,
        StopConditionPlugin,
        StopConditionSpec,
        StopOnTool,
        Timeout,
        TokenBudget,
    )
    from awaken.ext.tasks import (
        BackgroundLimits,
        BackgroundTaskError,
        BackgroundTaskManager,
        BackgroundTaskPlugin,
        BackgroundTool,
        MessagePolicy,
        TaskContext,
        TaskMessageError,
        TaskOptions,
        TaskProgress,
        TaskResult,
        TaskStatus,
        TaskSummary,
    )

__all__ = [
    "COMPACTION",
    "AgentOverlay",
    "BackgroundLimits",
    "BackgroundTaskError",
    "BackgroundTaskManager",
    "BackgroundTaskPlugin",
    "BackgroundTool",
    "CompactionConfig",
    "CompactionPlugin",
    "CompactionState",
    "ConsecutiveErrors",
    "ContentMatch",
    "Handoff",
    "HandoffInputPlugin",
    "HandoffPlugin",
    "InputFilter",
    "LoopDetection",
    "MaxRounds",
    "MessagePolicy",
    "StopConditionPlugin",
    "StopConditionSpec",
    "StopOnTool",
    "TaskContext",
    "TaskMessageError",
    "TaskOptions",
    "TaskProgress",
    "TaskResult",
    "TaskStatus",
    "TaskSummary",
    "Timeout",
    "TokenBudget",
]

lazy_names(
    __name__,
    {
        ".compaction": "COMPACTION CompactionConfig CompactionPlugin CompactionState",
        ".handoff": "AgentOverlay Handoff HandoffInputPlugin HandoffPlugin InputFilter",
        ".stop": (
            "ConsecutiveErrors ContentMatch LoopDetection MaxRounds StopConditionPlugin "
            "StopConditionSpec StopOnTool Timeout TokenBudget"
        ),
        ".tasks": (
            "BackgroundLimits BackgroundTaskError BackgroundTaskManager BackgroundTaskPlugin "
            "BackgroundTool MessagePolicy TaskContext TaskMessageError TaskOptions "
            "TaskProgress TaskResult TaskStatus TaskSummary"
        ),
    },
)
