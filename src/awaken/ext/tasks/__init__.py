"""Work that outlives a tool call, and messages between agents."""

from typing import TYPE_CHECKING

from awaken.core.task import (
    BackgroundTaskError,
    DurableMessageRequest,
    DurableMessageSink,
    PersistedTaskMeta,
    TaskJournal,
    TaskMessageError,
    TaskParentContext,
    TaskStatus,
)
from awaken.ext.tasks.state import BACKGROUND_PLUGIN_ID, TaskProgress, TaskSummary
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.ext.tasks.admission import TaskOptions
    from awaken.ext.tasks.background_tool import BackgroundTool, background
    from awaken.ext.tasks.handles import TaskHandles
    from awaken.ext.tasks.limits import BackgroundLimits
    from awaken.ext.tasks.manager import BackgroundTaskManager
    from awaken.ext.tasks.message_tools import (
        MessagePolicy,
        RecoverFailedMessagesTool,
        SendMessageTool,
    )
    from awaken.ext.tasks.outbox import MessageDispatcher
    from awaken.ext.tasks.plugin import BackgroundTaskPlugin
    from awaken.ext.tasks.records import ATTEMPTS
    from awaken.ext.tasks.resolver import BackgroundControlResolver, ensure_background_cancel_tool
    from awaken.ext.tasks.store_journal import StoreTaskJournal
    from awaken.ext.tasks.task import (
        AgentTaskContext,
        BackgroundTaskExecutionContext,
        TaskContext,
        TaskResult,
        cancel_tasks_of,
        current_background_task_context,
        current_background_task_id,
        describe,
        find_live_task,
    )
    from awaken.ext.tasks.task_tools import (
        CANCEL_TASK_TOOL_ID,
        CancelTaskTool,
        ListTasksTool,
        WaitTaskTool,
    )

__all__ = [
    "ATTEMPTS",
    "BACKGROUND_PLUGIN_ID",
    "CANCEL_TASK_TOOL_ID",
    "AgentTaskContext",
    "BackgroundControlResolver",
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
    "StoreTaskJournal",
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
    "ensure_background_cancel_tool",
    "find_live_task",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".admission": "TaskOptions",
        ".handles": "TaskHandles",
        ".records": "ATTEMPTS",
        ".limits": "BackgroundLimits",
        ".manager": "BackgroundTaskManager",
        ".message_tools": "MessagePolicy RecoverFailedMessagesTool SendMessageTool",
        ".outbox": "MessageDispatcher",
        ".resolver": "BackgroundControlResolver ensure_background_cancel_tool",
        ".store_journal": "StoreTaskJournal",
        ".task": (
            "AgentTaskContext BackgroundTaskExecutionContext TaskContext TaskResult "
            "cancel_tasks_of current_background_task_context current_background_task_id describe "
            "find_live_task"
        ),
        ".plugin": "BackgroundTaskPlugin",
        ".task_tools": "CANCEL_TASK_TOOL_ID CancelTaskTool ListTasksTool WaitTaskTool",
        ".background_tool": "BackgroundTool background",
    },
)
