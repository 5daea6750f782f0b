"""Threads: a thread is a conversation with one message log."""

from __future__ import annotations

from awaken.core.lifecycle import RunStatus
from awaken.core.metadata import NO_METADATA, ThreadMetadata
from awaken.core.run import RunRecord
from awaken.core.value import Value

# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_RUNNING = RunStatus.RUNNING
_DONE = RunStatus.DONE
_CREATED = RunStatus.CREATED


class Thread(Value, frozen=True, kw_only=True):
    """The head of a thread; timestamps are in milliseconds.

    `active_at` is when a run of it last started, paused or ended (without runs, when the thread
    was created), `updated_at` is the time of its last commit. `owner` is its live owner, if any;
    `forked_at` is the number of events it was forked with. `scope` is the tenant it belongs to and
    `family` the tree it is part of (see `domain.names`); `metadata` is what was said about it.
    """

    id: str
    parent_thread_id: str | None = None
    latest_run_id: str | None = None
    open_run_id: str | None = None
    active_run_id: str | None = None
    message_count: int = 0
    event_count: int = 0
    created_at: int = 0
    updated_at: int = 0
    active_at: int = 0
    forked_from: str | None = None
    forked_at: int | None = None
    owner: str | None = None
    scope: str = ""
    family: str = ""
    metadata: ThreadMetadata = NO_METADATA


def project_run(
    run: RunRecord, open_run_id: str | None, active_run_id: str | None
) -> tuple[str | None, str | None]:
    """The thread's open and active run ids after `run` was written."""
    mine, status = run.run_id, run.status
    if status is _RUNNING:
        return mine, mine
    if status is _DONE:
        return (
            None if open_run_id == mine else open_run_id,
            None if active_run_id == mine else active_run_id,
        )
    if status is _CREATED:
        return open_run_id, active_run_id
    return mine, None
