"""Work that outlives a tool call, and messages between agents."""

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
from awaken.ext.background.admit import TaskOptions
from awaken.ext.background.handles import TaskHandles
from awaken.ext.background.limits import BackgroundLimits
from awaken.ext.background.manager import BackgroundTaskManager
from awaken.ext.background.messages import (
    MessagePolicy,
    RecoverFailedMessagesTool,
    SendMessageTool,
)
from awaken.ext.background.plugin import BACKGROUND_PLUGIN_ID, BackgroundTaskPlugin
from awaken.ext.background.state import TaskProgress, TaskSummary
from awaken.ext.background.task import (
    AgentTaskContext,
    BackgroundTaskExecutionContext,
    TaskContext,
    TaskResult,
    cancel_live_task,
    cancel_tasks_of,
    current_background_task_context,
    current_background_task_id,
    drop_live_task,
    find_live_task,
    leave_surroundings,
    live_task_end,
    when_task_waits,
)
from awaken.ext.background.tools import (
    CANCEL_TASK_TOOL_ID,
    CancelTaskTool,
    ListTasksTool,
    WaitTaskTool,
)
from awaken.ext.background.wrap import BackgroundTool, background

__all__ = [
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
    "cancel_live_task",
    "cancel_tasks_of",
    "current_background_task_context",
    "current_background_task_id",
    "drop_live_task",
    "find_live_task",
    "leave_surroundings",
    "live_task_end",
    "when_task_waits",
]
