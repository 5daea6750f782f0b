"""The present state of a remote task, and the outcome of a run that its end means."""

from __future__ import annotations

from a2a.types.a2a_pb2 import Message as A2aMessage
from a2a.types.a2a_pb2 import Role, StreamResponse, Task, TaskState

from awaken.backend.a2a.messages import Artifacts, message_artifacts, message_text
from awaken.backend.a2a.state import INTERRUPTED, TERMINAL
from awaken.codec import Json, to_json
from awaken.core.backend import (
    BackendOutputArtifact,
    BackendRunOutput,
    BackendRunStatus,
)
from awaken.core.event import ActivitySnapshot
from awaken.core.lifecycle import (
    CANCELLED,
    NATURAL_END,
    SUSPENDED_END,
    Failed,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.value import Value

ACTIVITY = "a2a-task-progress"
SCHEMA = "a2a-task-progress.v1"
_NO_SUCCESS = INTERRUPTED | (TERMINAL - {"TASK_STATE_COMPLETED"})


class TaskSnapshot:
    """A task, updated by the events of its stream.

    `made` are its present artifacts; those in `task` are as they were when it was read.
    """

    def __init__(self, task: Task) -> None:
        self.replace(task)

    def replace(self, task: Task) -> None:
        """Replace everything by a task that was read as a whole.

        Raises:
            TooLarge: the task has too many pieces.
        """
        self.task = task
        self.made = Artifacts(task.artifacts)
        newest = (m for m in reversed(task.history) if m.role == Role.ROLE_AGENT)
        self._newest = next((text for m in newest if (text := message_text(m))), "")

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def context_id(self) -> str | None:
        return self.task.context_id or None

    @property
    def state(self) -> str:
        return state_name(self.task)

    @property
    def is_done(self) -> bool:
        """Whether the task has ended, or waits for input."""
        return self.state in TERMINAL or self.is_interrupted

    @property
    def is_interrupted(self) -> bool:
        return self.state in INTERRUPTED

    # -- what the stream tells ----------------------------------------------------------------

    def apply(self, event: StreamResponse) -> None:
        """
        Raises:
            TooLarge: the task has too many pieces.
        """
        kind = event.WhichOneof("payload")
        if kind == "task":
            if event.task.id == self.id:
                self.replace(event.task)
        elif kind == "message":
            self._note(event.message)
        elif kind == "status_update":
            if event.status_update.task_id in ("", self.id):
                if self._has_message:
                    self._note(self.task.status.message)
                self.task.status.CopyFrom(event.status_update.status)
        elif kind == "artifact_update":
            update = event.artifact_update
            if update.task_id in ("", self.id):
                self.made.update(update.artifact, append=update.append)

    def _note(self, message: A2aMessage) -> None:
        if message.role == Role.ROLE_AGENT and (text := message_text(message)):
            self._newest = text

    # -- what it says -------------------------------------------------------------------------

    @property
    def status_text(self) -> str:
        """The text of the task's status message."""
        return message_text(self.task.status.message) if self._has_message else ""

    @property
    def _has_message(self) -> bool:
        return self.task.HasField("status") and self.task.status.HasField("message")

    @property
    def text(self) -> str:
        """The task's result: the text of its artifacts, else its status message, else the agent's
        newest message.

        An error message, or a question of the agent, is not a result.
        """
        made = self.made.text
        if made or self.state in _NO_SUCCESS:
            return made
        if self.status_text or self.state != "TASK_STATE_COMPLETED":
            return self.status_text
        return self._newest

    @property
    def failure(self) -> str | None:
        """The agent's message about a failure, or about what it waits for; else `None`."""
        return (self.status_text or None) if self.state in _NO_SUCCESS else None

    @property
    def artifacts(self) -> tuple[BackendOutputArtifact, ...]:
        return self.made.outputs()

    def progress(self, *, unreachable: str | None = None) -> ActivitySnapshot:
        """The task's progress as an event; `unreachable` says why the agent cannot be reached."""
        content: dict[str, Json] = {
            "schema": SCHEMA,
            "task_id": self.id,
            "context_id": self.context_id,
            "state": self.state,
            "text": self.text or None,
            "artifacts": to_json(self.artifacts),
            "failure_message": self.failure,
        }
        if unreachable is not None:
            content["unreachable"] = unreachable
        return ActivitySnapshot(
            message_id=self.id, activity_type=ACTIVITY, content=content, replace=True
        )


def state_name(task: Task) -> str:
    """The state's name; a state that this version does not know counts as unspecified."""
    state = task.status.state
    return TaskState.Name(state) if state in TaskState.values() else "TASK_STATE_UNSPECIFIED"


# -- what it means ----------------------------------------------------------------------------


class ExchangeOutcome(Value, frozen=True, kw_only=True):
    """The end of an activation, in the terms of a run's backend."""

    status: BackendRunStatus
    termination: TerminationReason
    status_reason: str | None = None
    output: BackendRunOutput = BackendRunOutput()


TIMED_OUT = Stopped(value=StoppedReason(code="timeout"))


def outcome_of(snapshot: TaskSnapshot) -> ExchangeOutcome:
    """The outcome for a task that is done."""
    text, said = snapshot.text, snapshot.failure
    output = BackendRunOutput(text=text or None, artifacts=snapshot.artifacts)
    match snapshot.state:
        case "TASK_STATE_COMPLETED":
            return ExchangeOutcome(
                status=BackendRunStatus.completed(), termination=NATURAL_END, output=output
            )
        case "TASK_STATE_CANCELED":
            return ExchangeOutcome(
                status=BackendRunStatus.cancelled(), termination=CANCELLED, output=output
            )
        case "TASK_STATE_INPUT_REQUIRED":
            return ExchangeOutcome(
                status=BackendRunStatus.waiting_input(said),
                termination=SUSPENDED_END,
                status_reason="input_required",
                output=_with_question(output, said),
            )
        case "TASK_STATE_AUTH_REQUIRED":
            return ExchangeOutcome(
                status=BackendRunStatus.waiting_auth(said),
                termination=SUSPENDED_END,
                status_reason="auth_required",
                output=_with_question(output, said),
            )
    why = said or f"the agent ended task {snapshot.id!r} as {snapshot.state} without saying why"
    return ExchangeOutcome(
        status=BackendRunStatus.failed(why), termination=Failed(value=why), output=output
    )


def outcome_of_message(message: A2aMessage) -> ExchangeOutcome:
    """The outcome for an answer without a task."""
    return ExchangeOutcome(
        status=BackendRunStatus.completed(),
        termination=NATURAL_END,
        output=BackendRunOutput(
            text=message_text(message) or None, artifacts=tuple(message_artifacts(message))
        ),
    )


def timeout_outcome(snapshot: TaskSnapshot | None) -> ExchangeOutcome:
    """The outcome for a timeout, with the output so far."""
    output = BackendRunOutput()
    if snapshot is not None:
        output = BackendRunOutput(text=snapshot.made.text or None, artifacts=snapshot.artifacts)
    return ExchangeOutcome(status=BackendRunStatus.timeout(), termination=TIMED_OUT, output=output)


def _with_question(output: BackendRunOutput, question: str | None) -> BackendRunOutput:
    """The output so far followed by the agent's question, so that the reader sees both."""
    text = "\n\n".join(piece for piece in (output.text, question) if piece)
    return BackendRunOutput(text=text or None, artifacts=output.artifacts)
