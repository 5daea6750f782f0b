"""Progress reports of running tools, in a published format."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from awaken.core.identity import RunIdentity
from awaken.core.value import Value

PROGRESS_ACTIVITY = "tool-call-progress"
PROGRESS_SCHEMA = "tool-call-progress.v1"


class ProgressStatus(StrEnum):
    """The status of the work that a report is about."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ToolCallProgress(Value, frozen=True, kw_only=True):
    """One progress report; `progress` goes from 0 to 1."""

    schema: str = msgspec.field(default_factory=lambda: PROGRESS_SCHEMA)
    node_id: str
    call_id: str
    tool_name: str
    status: ProgressStatus
    progress: float | None = None
    loaded: int | None = None
    total: int | None = None
    message: str | None = None
    parent_node_id: str | None = None
    parent_call_id: str | None = None
    run_id: str | None = None
    parent_run_id: str | None = None
    thread_id: str | None = None

    @classmethod
    def of(
        cls,
        call_id: str,
        tool_name: str,
        status: ProgressStatus,
        identity: RunIdentity,
        *,
        message: str | None = None,
        progress: float | None = None,
    ) -> ToolCallProgress:
        parent_call = identity.parent_tool_call_id_opt()
        return cls(
            node_id=f"tool_call:{call_id}",
            call_id=call_id,
            tool_name=tool_name,
            status=status,
            progress=progress,
            message=message,
            parent_node_id=f"tool_call:{parent_call}" if parent_call else f"run:{identity.run_id}",
            parent_call_id=parent_call,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id_opt(),
            thread_id=identity.thread_id,
        )
