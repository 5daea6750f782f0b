"""The state that is stored about a remote agent, so that a crash loses no task."""

from __future__ import annotations

from typing import Any

import msgspec

from awaken.codec import Json, from_json, to_json
from awaken.core.backend import ExecutionFailed
from awaken.core.run import PersistedState
from awaken.core.value import Value

REMOTE_STATE_KEY = "__runtime_remote_backend"
DIRECT_MESSAGE = "DIRECT_MESSAGE"

TERMINAL = frozenset(
    {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
)
INTERRUPTED = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})

VERSION = 1


class Sending(Value, frozen=True, kw_only=True):
    """A message in flight: stored before it is sent, removed once its task is known.

    `task_id` is the task it answers, if it answers one; `input_ids` are our messages in it.
    """

    message_id: str
    context_id: str | None = None
    task_id: str | None = None
    input_ids: tuple[str, ...] = ()


class RemoteTask(Value, frozen=True, kw_only=True):
    """The latest task on one agent, and the run it belongs to.

    `sent_ids` are the ids of our messages that this run has delivered.
    """

    version: int
    run_id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    last_state: str | None = None
    updated_at_ms: int = 0
    sending: Sending | None = None
    sent_ids: tuple[str, ...] = ()

    @property
    def is_interrupted(self) -> bool:
        """Whether the task waits for input."""
        return self.task_id is not None and self.last_state in INTERRUPTED

    @property
    def name(self) -> str:
        """The remote task, in words."""
        if self.sending is not None and self.sending.task_id is None:
            return f"the task of message {self.sending.message_id!r}, if that arrived,"
        return f"task {self.task_id!r}"

    @property
    def may_run(self) -> bool:
        """Whether there may be a remote task that still runs or waits."""
        if self.sending is not None:
            return True
        return self.task_id is not None and self.last_state not in TERMINAL | {DIRECT_MESSAGE}


class _RemoteState(Value, frozen=True, kw_only=True):
    """The state of all agents; those of other targets are kept unchanged."""

    version: int
    targets: dict[str, Any]


def load_task(state: PersistedState | None, target: str) -> RemoteTask | None:
    """The stored task on `target`, or `None`.

    Raises:
        ExecutionFailed: the state cannot be read; it is never treated as missing.
    """
    remote = _load(state)
    if target not in remote.targets:
        return None
    try:
        task = from_json(remote.targets[target], RemoteTask)
    except msgspec.ValidationError as error:
        raise _corrupt(f"{target}: {error}") from error
    if task.version != VERSION:
        raise _corrupt(f"{target} is of version {task.version}, this one reads {VERSION}")
    return task


def remote_state(state: PersistedState | None, target: str, task: RemoteTask) -> dict[str, Json]:
    """The remote state with `task` on `target`, by its state key."""
    remote = _load(state)
    targets = {**remote.targets, target: to_json(task)}
    return {REMOTE_STATE_KEY: {"version": VERSION, "targets": targets}}


def merge_state(state: PersistedState | None, values: dict[str, Json]) -> PersistedState:
    """The state with `values` in it."""
    state = state or PersistedState()
    return msgspec.structs.replace(state, extensions={**state.extensions, **values})


def _load(state: PersistedState | None) -> _RemoteState:
    if state is None or REMOTE_STATE_KEY not in state.extensions:
        return _RemoteState(version=VERSION, targets={})
    try:
        remote = from_json(state.extensions[REMOTE_STATE_KEY], _RemoteState)
    except msgspec.ValidationError as error:
        raise _corrupt(str(error)) from error
    if remote.version != VERSION:
        raise _corrupt(f"it is of version {remote.version}, this one reads {VERSION}")
    return remote


def _corrupt(why: str) -> ExecutionFailed:
    return ExecutionFailed(
        f"the remote state of the run ({REMOTE_STATE_KEY!r}) cannot be read: {why}. "
        "Nothing was sent, because a task may be running: check at the agent, "
        "then start again in another thread"
    )
