"""Agents in processes of their own, and requests to them."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from awaken.backend.a2a import A2aBackendFactory
from awaken.backend.a2a.state import REMOTE_STATE_KEY
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.backend import (
    BackendAbortRequest,
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRootRunRequest,
    BackendRunResult,
    ExecutionBackend,
)
from awaken.core.event import ActivitySnapshot, RunEvent
from awaken.core.identity import RunIdentity
from awaken.core.message import Message
from awaken.core.run import PersistedState
from awaken.core.spec import RemoteEndpoint
from awaken.errors import AgentNotFound

TOKEN = "s3cret-t0ken"
Asked = dict[str, Any]


class RunningAgent:
    """An agent in another process."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.base = f"http://127.0.0.1:{port}"

    def log(self, **wanted: str) -> list[Asked]:
        """What arrived; with `text` or `context`, the messages that say so."""
        with urllib.request.urlopen(f"{self.base}/control/log") as answer:
            entries: list[Asked] = json.load(answer)
        return [entry for entry in entries if _fits(entry, **wanted)]

    def sends(self, text: str) -> list[Asked]:
        """The messages that hold `text`, as they arrived."""
        return [entry["body"]["message"] for entry in self.log(path="/message:send", text=text)]

    def state_of_only_task(self, thread: str) -> str:
        (task,) = self.tasks(thread)
        return str(task["status"]["state"])

    def go(self, key: str) -> None:
        """Let a held task go on."""
        request = urllib.request.Request(f"{self.base}/control/go?key={key}", method="POST")
        urllib.request.urlopen(request).close()

    def task(self, task_id: str) -> Asked:
        headers = {"A2A-Version": "1.0"}
        request = urllib.request.Request(f"{self.base}/tasks/{task_id}", headers=headers)
        with urllib.request.urlopen(request) as answer:
            task: Asked = json.load(answer)
        return task

    def tasks(self, context_id: str) -> list[Asked]:
        request = urllib.request.Request(
            f"{self.base}/tasks?contextId={context_id}", headers={"A2A-Version": "1.0"}
        )
        with urllib.request.urlopen(request) as answer:
            tasks: list[Asked] = json.load(answer)["tasks"]
        return tasks


def _fits(entry: Asked, path: str | None = None, text: str | None = None) -> bool:
    if path is not None and entry["path"] != path:
        return False
    return text is None or text in json.dumps(entry["body"], ensure_ascii=False)


@contextmanager
def running_agent() -> Iterator[RunningAgent]:
    program = Path(__file__).with_name("a2a_agent.py")
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.strip(), "the agent did not start"
        try:
            yield RunningAgent(process, int(line))
        finally:
            process.kill()


def endpoint(base_url: str, **fields: Any) -> RemoteEndpoint:
    """An endpoint on this machine; what is no field of it is one of its options."""
    known = {name: fields.pop(name) for name in ("auth", "target", "timeout_ms") if name in fields}
    options = {"allow_private": True, "poll_interval_ms": 5, **fields}
    return RemoteEndpoint(base_url=base_url, options=options, **known)


def backend_for(base_url: str, *, clock: Clock = SYSTEM_CLOCK, **fields: Any) -> ExecutionBackend:
    return A2aBackendFactory(clock=clock).build(endpoint(base_url, **fields))


class Sink:
    """Keeps what it is told, and says when something is."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self._news = asyncio.Event()

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)
        self._news.set()

    async def close(self) -> None:
        return

    @property
    def progress(self) -> list[dict[str, Any]]:
        return [
            event.event.content
            for event in self.events
            if isinstance(event.event, ActivitySnapshot)
        ]

    async def until_state(self, state: str) -> dict[str, Any]:
        """The first progress that is in `state`."""
        while True:
            for content in self.progress:
                if content["state"] == state:
                    return content
            await self.news()

    async def news(self) -> None:
        """Wait for the next event."""
        self._news.clear()
        await self._news.wait()


class Crash(BaseException):
    """The process ends here."""


class Kept:
    """What a run's store holds of its state; may end the process at one of the saves."""

    def __init__(self, *, crash_before: int = 0, crash_after: int = 0) -> None:
        self.saves: list[dict[str, Any]] = []
        self._before, self._after = crash_before, crash_after
        self._count = 0

    async def save(self, values: Mapping[str, Json]) -> None:
        self._count += 1
        if self._count == self._before:
            raise Crash
        self.saves.append(dict(values))
        if self._count == self._after:
            raise Crash

    @property
    def state(self) -> PersistedState | None:
        return PersistedState(extensions=self.saves[-1]) if self.saves else None

    def entries(self) -> list[dict[str, Any]]:
        """The task of each save."""
        found: list[dict[str, Any]] = []
        for values in self.saves:
            (entry,) = values[REMOTE_STATE_KEY]["targets"].values()
            found.append(entry)
        return found


class NoAgents:
    """A resolver that knows nobody."""

    def resolve(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id, ())

    def resolve_execution(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id, ())

    def agent_ids(self) -> Sequence[str]:
        return ()


def identity(thread: str, run: str | None = None) -> RunIdentity:
    return RunIdentity(thread_id=thread, run_id=run or f"run-{thread}", agent_id="remote")


def root(
    thread: str,
    *texts: str | Message,
    run: str | None = None,
    sink: Sink | None = None,
    kept: Kept | None = None,
    state: PersistedState | None = None,
    before: Sequence[Message] = (),
    continued: bool = False,
) -> BackendRootRunRequest:
    """A run of `thread` with these new messages behind those that were there `before`."""
    new = [
        text if isinstance(text, Message) else Message.user(text, id=f"{thread}-{text}")
        for text in texts
    ]
    return BackendRootRunRequest(
        agent_id="remote",
        messages=[*before, *new],
        new_messages=new,
        sink=sink or Sink(),
        resolver=NoAgents(),
        run_identity=identity(thread, run),
        is_continuation=continued,
        persisted_state=state,
        save_state=kept.save if kept is not None else None,
    )


def delegate(
    text: str, *, sink: Sink | None = None, token: CancellationToken | None = None
) -> BackendDelegateRunRequest:
    message = Message.user(text)
    return BackendDelegateRunRequest(
        agent_id="remote",
        messages=[message],
        new_messages=[message],
        sink=sink or Sink(),
        resolver=NoAgents(),
        parent=BackendParentContext(parent_run_id="p-run", parent_thread_id="p-thread"),
        control=BackendControl(cancellation_token=token),
    )


def abort(
    thread: str, state: PersistedState | None = None, run: str | None = None
) -> BackendAbortRequest:
    return BackendAbortRequest(
        agent_id="remote", run_identity=identity(thread, run), persisted_state=state
    )


def remote_entry(state: PersistedState | None) -> dict[str, Any]:
    """What is kept of the only agent in a state."""
    assert state is not None
    (entry,) = state.extensions[REMOTE_STATE_KEY]["targets"].values()
    found: dict[str, Any] = entry
    return found


def state_with(base: str, **entry: str) -> PersistedState:
    """The state of a thread with this entry about the agent at `base`."""
    targets = {f"a2a:{base}": {"version": 1, **entry}}
    return PersistedState(extensions={REMOTE_STATE_KEY: {"version": 1, "targets": targets}})


async def let_go_when_working(
    agent: RunningAgent, backend: ExecutionBackend, thread: str, text: str
) -> tuple[BackendRunResult, Sink]:
    """A run whose task waits until it is let go, which happens once the run knows that it works."""
    sink = Sink()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(backend.execute_root(root(thread, text, sink=sink)))
        await sink.until_state("TASK_STATE_WORKING")
        agent.go(thread)
    return running.result(), sink


async def cut_short(
    backend: ExecutionBackend, thread: str, text: str, kept: Kept | None = None
) -> None:
    """A run that is cancelled while its task works."""
    sink = Sink()
    running = asyncio.ensure_future(backend.execute_root(root(thread, text, sink=sink, kept=kept)))
    await sink.until_state("TASK_STATE_WORKING")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert running.cancelled()


def nowhere() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"
