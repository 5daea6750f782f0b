"""What the runtime, backends and other tasks use of background tasks, loaded on first use.

So a run without background tasks does not load them.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.tasks.background_tool import background
    from awaken.ext.tasks.handles import TaskHandles
    from awaken.ext.tasks.manager import BackgroundTaskManager
    from awaken.ext.tasks.plugin import BackgroundTaskPlugin
    from awaken.ext.tasks.resolver import BackgroundControlResolver
    from awaken.ext.tasks.store_journal import StoreTaskJournal
    from awaken.ext.tasks.task import (
        cancel_tasks_of,
        current_background_task_context,
        find_live_task,
    )
    from awaken.ext.tasks.task_tools import CANCEL_TASK_TOOL_ID, CancelTaskTool

__all__ = [
    "CANCEL_TASK_TOOL_ID",
    "BackgroundControlResolver",
    "BackgroundTaskManager",
    "BackgroundTaskPlugin",
    "CancelTaskTool",
    "StoreTaskJournal",
    "TaskHandles",
    "background",
    "cancel_tasks_of",
    "current_background_task_context",
    "find_live_task",
]

lazy_names(
    __name__,
    {
        "awaken.ext.tasks.background_tool": "background",
        "awaken.ext.tasks.handles": "TaskHandles",
        "awaken.ext.tasks.manager": "BackgroundTaskManager",
        "awaken.ext.tasks.plugin": "BackgroundTaskPlugin",
        "awaken.ext.tasks.resolver": "BackgroundControlResolver",
        "awaken.ext.tasks.store_journal": "StoreTaskJournal",
        "awaken.ext.tasks.task": ("cancel_tasks_of current_background_task_context find_live_task"),
        "awaken.ext.tasks.task_tools": "CANCEL_TASK_TOOL_ID CancelTaskTool",
    },
)
