"""A service on another machine, as the crash matrix has one: a file that outlives who asks.

It works on tasks whoever asks for them. Like real ones it does not know that a message it gets
twice is one message, but can be asked which tasks there are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from awaken.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
)
from awaken.codec import dumps, from_json, loads, to_json
from awaken.core.lifecycle import NATURAL_END, SUSPENDED_END, Failed, TerminationReason
from awaken.core.message import Message, Role
from awaken.core.run import PersistedState
from awaken.core.spec import RemoteEndpoint
from awaken.core.value import Value
from awaken.testing.chaos import KillSwitch

SERVICE = "service"
POLLS = 2
"""How often somebody has to look before the work is done."""

Kind = Literal["create", "answer", "poll", "cancel"]
State = Literal["working", "asks", "done", "failed", "cancelled"]


class Line(Value, frozen=True, kw_only=True):
    """What the service was asked to do."""

    kind: Kind
    task: str
    message: str = ""
    context: str = ""
    text: str = ""


class Task(msgspec.Struct, kw_only=True):
    """A task as it stands; its text says what becomes of it."""

    id: str
    context: str
    text: str
    messages: list[str]
    polls: int = 0
    answer: str | None = None
    cancelled: bool = False

    @property
    def run_id(self) -> str:
        """Whose it is: messages are named after the run they are sent for."""
        return self.messages[0].partition(">")[0]

    @property
    def state(self) -> State:
        if self.cancelled:
            return "cancelled"
        if self.polls < POLLS or self.is_endless:
            return "working"
        if "ask" in self.text and self.answer is None:
            return "asks"
        return "failed" if "fail" in self.text else "done"

    @property
    def is_endless(self) -> bool:
        return "for ever" in self.text

    @property
    def is_open(self) -> bool:
        return self.state in ("working", "asks")

    @property
    def words(self) -> str:
        return f"{self.text} {self.answer or ''}".rstrip()


class Service:
    """Tasks, in a file of what was asked for, each line on the disk before it is answered."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tasks(self) -> list[Task]:
        """All there ever were, the oldest first."""
        tasks: dict[str, Task] = {}
        for line in self._lines():
            if line.kind == "create":
                tasks[line.task] = Task(
                    id=line.task, context=line.context, text=line.text, messages=[line.message]
                )
                continue
            task = tasks[line.task]
            if line.kind == "poll":
                task.polls += 1
            elif line.kind == "cancel" and task.is_open:
                task.cancelled = True
            elif line.kind == "answer":
                task.messages.append(line.message)
                task.answer, task.polls = line.text, 0
        return list(tasks.values())

    def _lines(self) -> Iterator[Line]:
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                yield loads(line, Line)

    def find(self, context: str, message: str) -> Task | None:
        """The task of a context that has got a message."""
        known = (task for task in self.tasks() if task.context == context)
        return next((task for task in known if message in task.messages), None)

    def send(self, context: str, message: str, text: str, task: str | None) -> Task:
        """Give a task an answer, or make a new one."""
        kind: Kind = "create" if task is None else "answer"
        name = task or f"task-{len(self.tasks()) + 1}"
        return self._write(Line(kind=kind, task=name, message=message, context=context, text=text))

    def poll(self, task: str) -> Task:
        """Look how a task stands; looking makes it go on."""
        return self._write(Line(kind="poll", task=task))

    def cancel(self, task: str) -> Task:
        return self._write(Line(kind="cancel", task=task))

    def _write(self, line: Line) -> Task:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, dumps(line) + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        return next(task for task in self.tasks() if task.id == line.task)


# -- the backend ------------------------------------------------------------------------------


class Known(Value, frozen=True, kw_only=True):
    """What a run keeps of its task: that a message is about to be sent, then the task's name."""

    run_id: str
    sent: tuple[str, ...] = ()
    sending: str | None = None
    in_it: tuple[str, ...] = ()
    task: str | None = None


class ServiceBackend(ExecutionBackend):
    """Runs on the service: kept before it is sent, looked for before it is sent again.

    A careless one keeps only what it gets back.
    """

    def __init__(self, service: Service, switch: KillSwitch, *, careless: bool = False) -> None:
        self._service, self._switch, self._careless = service, switch, careless

    def capabilities(self) -> BackendCapabilities:
        return msgspec.structs.replace(
            BackendCapabilities.remote_stateless_text(),
            cancellation=BackendCancellationCapability.REMOTE_ABORT,
            continuation=BackendContinuationCapability.REMOTE_STATE,
            waits=BackendWaitCapability.INPUT,
            transcript=BackendTranscriptCapability.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE,
        )

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        run_id = request.run_identity.run_id
        known = _known(request.persisted_state, run_id) or Known(run_id=run_id)
        new = [m for m in request.new_messages if m.role is Role.USER and m.id not in known.sent]
        task: Task | None = None
        if known.sending is not None:
            task = self._service.find(request.run_identity.thread_id, known.sending)
            if task is None:
                said = [m for m in request.messages if m.id in known.in_it]
                task = self._send(request, known, said)
            known = await self._keep(request, known, sending=None, task=task.id)
        if known.task is not None:
            task = await self._follow(known.task)
        if task is None or (task.state == "asks" and new):
            in_it = tuple(message.id or "" for message in new)
            sent = (*known.sent, *in_it)
            sending = f"{run_id}>{len(sent)}"
            known = await self._keep(request, known, sent=sent, sending=sending, in_it=in_it)
            task = self._send(request, known, new)
            known = await self._keep(request, known, sending=None, task=task.id)
            task = await self._follow(task.id)
        return _result(request, task)

    async def abort(self, request: BackendAbortRequest) -> None:
        identity = request.run_identity
        known = _known(request.persisted_state, identity.run_id)
        if known is None:
            return
        task = known.task
        if known.sending is not None:
            found = self._service.find(identity.thread_id, known.sending)
            task = found.id if found is not None else known.task
        if task is not None:
            self._switch.reach("before a remote task is cancelled")
            self._service.cancel(task)
            self._switch.reach("after a remote task is cancelled")

    async def _keep(self, request: BackendRootRunRequest, known: Known, **changes: object) -> Known:
        self._switch.reach("before the state of a remote task is kept")
        known = msgspec.structs.replace(known, **changes)
        if self._careless and known.sending is not None:
            return known
        assert request.save_state is not None, "the runtime keeps what a run must not lose"
        await request.save_state({SERVICE: to_json(known)})
        self._switch.reach("after the state of a remote task is kept")
        return known

    def _send(self, request: BackendRootRunRequest, known: Known, said: Sequence[Message]) -> Task:
        assert known.sending is not None, "what is sent is on record"
        text = " / ".join(message.text() for message in said)
        task = self._service.send(request.run_identity.thread_id, known.sending, text, known.task)
        self._switch.reach("after a remote task is sent a message")
        return task

    async def _follow(self, task_id: str) -> Task:
        while True:
            task = self._service.poll(task_id)
            self._switch.reach("after a remote task was looked at")
            if task.state != "working":
                return task
            await asyncio.sleep(0.01 if task.is_endless else 0.001)


def _known(state: PersistedState | None, run_id: str) -> Known | None:
    """What is known of this very run, not of the one before it."""
    kept = state.extensions.get(SERVICE) if state is not None else None
    known = from_json(kept, Known) if kept is not None else None
    return known if known is not None and known.run_id == run_id else None


def _result(request: BackendRootRunRequest, task: Task) -> BackendRunResult:
    end: TerminationReason = NATURAL_END
    status, response = BackendRunStatus.completed(), f"did: {task.words}"
    if task.state == "asks":
        status, end, response = BackendRunStatus.waiting_input("which?"), SUSPENDED_END, "which?"
    elif task.state != "done":
        why = f"{task.state}: {task.words}"
        status, end, response = BackendRunStatus.failed(why), Failed(value=why), ""
    return BackendRunResult(
        agent_id=request.agent_id,
        status=status,
        termination=end,
        response=response or None,
        steps=1,
        run_id=request.run_identity.run_id,
    )


class ServiceFactory:
    """Makes the backend, whatever the endpoint says."""

    def __init__(self, service: Service, switch: KillSwitch, *, careless: bool = False) -> None:
        self._backend = ServiceBackend(service, switch, careless=careless)

    def backend(self) -> str:
        return SERVICE

    def validate(self, endpoint: RemoteEndpoint) -> None:
        return

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return self._backend
