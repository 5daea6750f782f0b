"""Work that outlives a tool call, and messages between agents."""

from typing import TYPE_CHECKING

from awaken.contract.background import (
    BackgroundTaskError,
    DurableMessageRequest,
    DurableMessageSink,
    PersistedTaskMeta,
    TaskJournal,
    TaskMessageError,
    TaskParentContext,
    TaskStatus,
)
from awaken.ext.background.state import BACKGROUND_PLUGIN_ID, TaskProgress, TaskSummary
from awaken.ext.background.task import (
    AgentTaskContext,
    BackgroundTaskExecutionContext,
    TaskContext,
    TaskResult,
    cancel_tasks_of,
    current_background_task_context,
    current_background_task_id,
    find_live_task,
    leave_surroundings,
)
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.background.admit import TaskOptions
    from awaken.ext.background.book import ATTEMPTS
    from awaken.ext.background.handles import TaskHandles
    from awaken.ext.background.limits import BackgroundLimits
    from awaken.ext.background.manager import BackgroundTaskManager
    from awaken.ext.background.messages import (
        MessagePolicy,
        RecoverFailedMessagesTool,
        SendMessageTool,
    )
    from awaken.ext.background.outbox import MessageDispatcher
    from awaken.ext.background.plugin import BackgroundTaskPlugin
    from awaken.ext.background.supervise import describe
    from awaken.ext.background.tools import (
        CANCEL_TASK_TOOL_ID,
        CancelTaskTool,
        ListTasksTool,
        WaitTaskTool,
    )
    from awaken.ext.background.wrap import BackgroundTool, background

__all__ = [
    "ATTEMPTS",
    "BACKGROUND_PLUGIN_ID",
    "CANCEL_TASK_TOOL_ID",
    "AgentTaskContext",
    "BackgroundLimits",
    "BackgroundTaskError",
    "BackgroundTaskExecutionContext",
    "BackgroundTaskManager",
    "BackgroundTaskPlugin",
    "BackgroundTool",
    "CancelTaskTool",
    "DurableMessageRequest",
    "DurableMessageSink",
    "ListTasksTool",
    "MessageDispatcher",
    "MessagePolicy",
    "PersistedTaskMeta",
    "RecoverFailedMessagesTool",
    "SendMessageTool",
    "TaskContext",
    "TaskHandles",
    "TaskJournal",
    "TaskMessageError",
    "TaskOptions",
    "TaskParentContext",
    "TaskProgress",
    "TaskResult",
    "TaskStatus",
    "TaskSummary",
    "WaitTaskTool",
    "background",
    "cancel_tasks_of",
    "current_background_task_context",
    "current_background_task_id",
    "describe",
    "find_live_task",
    "leave_surroundings",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".admit": "TaskOptions",
        ".handles": "TaskHandles",
        ".book": "ATTEMPTS",
        ".limits": "BackgroundLimits",
        ".manager": "BackgroundTaskManager",
        ".messages": "MessagePolicy RecoverFailedMessagesTool SendMessageTool",
        ".outbox": "MessageDispatcher",
        ".plugin": "BackgroundTaskPlugin",
        ".supervise": "describe",
        ".tools": "CANCEL_TASK_TOOL_ID CancelTaskTool ListTasksTool WaitTaskTool",
        ".wrap": "BackgroundTool background",
    },
)
