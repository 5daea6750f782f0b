"""What the worker and the tasks' resolver use of background tasks, loaded on first use.

So a run without background tasks does not load them.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.tasks.background_tool import BackgroundTool
    from awaken.ext.tasks.handles import TaskHandles
    from awaken.ext.tasks.manager import BackgroundTaskManager
    from awaken.ext.tasks.outbox import MessageDispatcher
    from awaken.ext.tasks.plugin import BackgroundTaskPlugin
    from awaken.ext.tasks.records import ATTEMPTS
    from awaken.ext.tasks.task_tools import CANCEL_TASK_TOOL_ID, CancelTaskTool

__all__ = [
    "ATTEMPTS",
    "CANCEL_TASK_TOOL_ID",
    "BackgroundTaskManager",
    "BackgroundTaskPlugin",
    "BackgroundTool",
    "CancelTaskTool",
    "MessageDispatcher",
    "TaskHandles",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "awaken.ext.tasks.background_tool": "BackgroundTool",
            "awaken.ext.tasks.handles": "TaskHandles",
            "awaken.ext.tasks.manager": "BackgroundTaskManager",
            "awaken.ext.tasks.outbox": "MessageDispatcher",
            "awaken.ext.tasks.plugin": "BackgroundTaskPlugin",
            "awaken.ext.tasks.records": "ATTEMPTS",
            "awaken.ext.tasks.task_tools": "CANCEL_TASK_TOOL_ID CancelTaskTool",
        },
    )
