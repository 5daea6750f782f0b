"""The backends that are checked, each with a way to see its agents at work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import backend_agents
import msgspec
import pytest

from awaken import Runtime
from awaken.backend.local import LocalBackend, new_run_state
from awaken.backend.subprocess import SubprocessBackendFactory
from awaken.core.backend import (
    BackendLocalRootContext,
    BackendRootRunRequest,
    ExecutionBackend,
)
from awaken.core.spec import RemoteEndpoint
from awaken.core.state.call_keys import TOOL_CALL_STATES
from awaken.core.suspension import ToolCallResume, ToolCallStatus
from awaken.engine.phases import PhaseRuntime
from awaken.stores.memory import MemoryStore
from awaken.testing.conformance import BackendPart, BackendSubject

Opens = Callable[[pytest.MonkeyPatch], AbstractAsyncContextManager[BackendSubject]]


class Watcher:
    """Is called by agents that work; the system hangs up when one no longer does."""

    def __init__(self) -> None:
        self.port = 0
        self.pids: list[int] = []
        self._calls: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
        self._last: asyncio.StreamReader | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.pids.append(int(await reader.readline()))
        await self._calls.put(reader)

    async def until_working(self) -> None:
        self._last = await self._calls.get()

    async def until_stopped(self) -> None:
        assert self._last is not None, "nobody has called"
        try:
            await self._last.read()
        except ConnectionResetError:
            return

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Watcher]:
        watcher = cls()
        server = await asyncio.start_server(watcher._answer, "127.0.0.1", 0)
        watcher.port = server.sockets[0].getsockname()[1]
        try:
            yield watcher
        finally:
            server.close()
            for writer in watcher._writers:
                writer.close()
            await server.wait_closed()


class WatchedSubject(BackendSubject):
    """Its slow agent calls."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    async def until_working(self) -> None:
        await self.watcher.until_working()

    async def until_stopped(self) -> None:
        await self.watcher.until_stopped()


# -- here -------------------------------------------------------------------------------------


class LocalSubject(WatchedSubject):
    """Agents on this event loop."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(watcher)
        agents = [getattr(backend_agents, part.value) for part in BackendPart]
        self.resolver = Runtime(agents).engine.registry.snapshot()
        self._store = MemoryStore()
        self._phases: dict[str, PhaseRuntime] = {}

    def backend(self, part: BackendPart) -> ExecutionBackend:
        return LocalBackend()

    async def prepare(self, request: BackendRootRunRequest) -> BackendRootRunRequest:
        """A run that may go on later has its phases, and its log, from before."""
        env = self.resolver.resolve(request.agent_id).env
        phases = self._phases.get(request.run_identity.run_id) or PhaseRuntime(new_run_state(env))
        env.bind(phases.store, None)
        request = msgspec.structs.replace(request, local=BackendLocalRootContext(phases))
        if request.agent_id != BackendPart.ASKING:
            return request
        self._phases[request.run_identity.run_id] = phases
        request = msgspec.structs.replace(request, checkpoint_store=self._store)
        if not request.is_continuation:
            return request
        states = phases.store.read(TOOL_CALL_STATES)
        calls = states.calls.values() if states is not None else ()
        waiting = [call.call_id for call in calls if call.status is ToolCallStatus.SUSPENDED]
        return msgspec.structs.replace(
            request,
            messages=list(await self._store.load_messages(request.run_identity.thread_id)),
            new_messages=(),
            decisions=[(call_id, ToolCallResume.approve()) for call_id in waiting],
        )


@asynccontextmanager
async def local(patch: pytest.MonkeyPatch) -> AsyncIterator[BackendSubject]:
    async with Watcher.open() as watcher:
        patch.setenv("WATCHER", str(watcher.port))
        yield LocalSubject(watcher)


# -- in processes of their own ----------------------------------------------------------------


class SubprocessSubject(WatchedSubject):
    """Agents each in a process of its own."""

    def backend(self, part: BackendPart) -> ExecutionBackend:
        return SubprocessBackendFactory().build(
            RemoteEndpoint(
                backend="subprocess",
                base_url=f"python:backend_agents:{part.value}",
                options={
                    "cwd": str(Path(__file__).parent),
                    "env": {"WATCHER": str(self.watcher.port)},
                },
            )
        )

    def list_leaks(self) -> Sequence[str]:
        return [f"process {pid}" for pid in self.watcher.pids if _is_known(pid)]


def _is_known(pid: int) -> bool:
    """Whether the system knows a process, if only as one that nobody has waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def in_processes(patch: pytest.MonkeyPatch) -> AsyncIterator[BackendSubject]:
    async with Watcher.open() as watcher:
        yield SubprocessSubject(watcher)


SUBJECTS: dict[str, Opens] = {"local": local, "subprocess": in_processes}
"""How to open each; another backend is one more line."""
