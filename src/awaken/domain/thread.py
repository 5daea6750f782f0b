"""A conversation: the owner of one message log."""

from __future__ import annotations

from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord
from awaken.domain.value import Value


class Thread(Value, frozen=True, kw_only=True):
    """The head of a thread; timestamps are milliseconds."""

    id: str
    parent_thread_id: str | None = None
    latest_run_id: str | None = None
    open_run_id: str | None = None
    active_run_id: str | None = None
    message_count: int = 0
    created_at: int = 0
    updated_at: int = 0


def project_run(run: RunRecord, thread: Thread) -> dict[str, str | None]:
    """The fields of `thread` that follow from `run` being written."""
    latest = {"latest_run_id": run.run_id}
    match run.status:
        case RunStatus.RUNNING:
            return {**latest, "open_run_id": run.run_id, "active_run_id": run.run_id}
        case RunStatus.DONE:
            mine = run.run_id
            return {
                **latest,
                "open_run_id": None if thread.open_run_id == mine else thread.open_run_id,
                "active_run_id": None if thread.active_run_id == mine else thread.active_run_id,
            }
        case _:
            return {**latest, "open_run_id": run.run_id, "active_run_id": None}
