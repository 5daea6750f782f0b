"""Background tasks: work that outlives a tool call, and messages between agents."""

from typing import TYPE_CHECKING

from awaken.core.task import BackgroundTaskError, TaskMessageError, TaskStatus
from awaken.ext.tasks.state import TaskProgress, TaskSummary
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.tasks.admission import TaskOptions
    from awaken.ext.tasks.background_tool import BackgroundTool, background
    from awaken.ext.tasks.limits import BackgroundLimits
    from awaken.ext.tasks.manager import BackgroundTaskManager
    from awaken.ext.tasks.message_tools import MessagePolicy
    from awaken.ext.tasks.plugin import BackgroundTaskPlugin
    from awaken.ext.tasks.task import TaskContext, TaskResult

__all__ = [
    "BackgroundLimits",
    "BackgroundTaskError",
    "BackgroundTaskManager",
    "BackgroundTaskPlugin",
    "BackgroundTool",
    "MessagePolicy",
    "TaskContext",
    "TaskMessageError",
    "TaskOptions",
    "TaskProgress",
    "TaskResult",
    "TaskStatus",
    "TaskSummary",
    "background",
]

lazy_names(
    __name__,
    {
        ".admission": "TaskOptions",
        ".background_tool": "BackgroundTool background",
        ".limits": "BackgroundLimits",
        ".manager": "BackgroundTaskManager",
        ".message_tools": "MessagePolicy",
        ".plugin": "BackgroundTaskPlugin",
        ".task": "TaskContext TaskResult",
    },
)
