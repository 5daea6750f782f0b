"""What the tests of the subprocess backend watch its processes with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from awaken.backend.subprocess import SubprocessBackend, SubprocessBackendFactory
from awaken.core.aio.cancel import CancellationToken
from awaken.core.backend import (
    BackendAbortRequest,
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRootRunRequest,
)
from awaken.core.event import CollectingSink
from awaken.core.identity import RunIdentity
from awaken.core.message import Message
from awaken.core.spec import RemoteEndpoint
from awaken.errors import AgentNotFound

HERE = Path(__file__).parent
PATIENCE = 100.0


class Nobody:
    """Knows no agents: what runs elsewhere is not looked up here."""

    def resolve(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> list[str]:
        return []


# -- asking -----------------------------------------------------------------------------------


def endpoint(agent: str, /, **fields: Any) -> RemoteEndpoint:
    """Where an agent of `process_agents` is."""
    options = {"cwd": str(HERE), **fields.pop("options", {})}
    return RemoteEndpoint(
        backend="subprocess", base_url=f"python:process_agents:{agent}", options=options, **fields
    )


def backend_for(agent: str, /, **fields: Any) -> SubprocessBackend:
    return SubprocessBackendFactory().build(endpoint(agent, **fields))


def root(
    text: str = "hello", token: CancellationToken | None = None, **changes: Any
) -> BackendRootRunRequest:
    message = Message.user(text, id="m-new")
    fields: dict[str, Any] = {
        "agent_id": "remote",
        "messages": [message],
        "new_messages": [message],
        "sink": CollectingSink(),
        "resolver": Nobody(),
        "run_identity": RunIdentity(thread_id="t", run_id="r", agent_id="remote"),
        "control": BackendControl(cancellation_token=token),
    }
    return BackendRootRunRequest(**(fields | changes))


def delegate(
    text: str = "hello", token: CancellationToken | None = None
) -> BackendDelegateRunRequest:
    message = Message.user(text, id="m-new")
    return BackendDelegateRunRequest(
        agent_id="remote",
        messages=[message],
        new_messages=[message],
        sink=CollectingSink(),
        resolver=Nobody(),
        parent=BackendParentContext(
            parent_run_id="parent", parent_thread_id="above", parent_tool_call_id="call"
        ),
        control=BackendControl(cancellation_token=token),
    )


def abort(run_id: str = "r") -> BackendAbortRequest:
    return BackendAbortRequest(
        agent_id="remote",
        run_identity=RunIdentity(thread_id="t", run_id=run_id, agent_id="remote"),
    )


# -- watching ---------------------------------------------------------------------------------


class Guest:
    """A process that is at work, as long as its call is not hung up."""

    def __init__(self, pid: int, reader: asyncio.StreamReader) -> None:
        self.pid = pid
        self._reader = reader

    async def last_words(self) -> str:
        """All it still says, once it is gone, and whatever it has left the line to."""
        async with asyncio.timeout(PATIENCE):
            try:
                return (await self._reader.read()).decode()
            except ConnectionResetError:
                return ""

    @property
    def is_there(self) -> bool:
        """Whether the system knows it, if only as one that nobody has waited for."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Stage:
    """Waits for processes to call."""

    def __init__(self) -> None:
        self.port = 0
        self.guests: list[Guest] = []
        self._calls: asyncio.Queue[Guest] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def options(self) -> dict[str, Any]:
        return {"env": {"STAGE": str(self.port)}}

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        guest = Guest(int(await reader.readline()), reader)
        self.guests.append(guest)
        await self._calls.put(guest)

    async def guest(self) -> Guest:
        """The next process that comes."""
        async with asyncio.timeout(PATIENCE):
            return await self._calls.get()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Stage]:
        stage = cls()
        server = await asyncio.start_server(stage._answer, "127.0.0.1", 0)
        stage.port = server.sockets[0].getsockname()[1]
        try:
            yield stage
        finally:
            server.close()
            for writer in stage._writers:
                writer.close()
            await server.wait_closed()
