"""Functions for worker processes, and the desk where their processes report.

A process at the desk is known to have begun, can be told to go on, and is seen to be gone.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import dataclasses
import datetime
import enum
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from awaken import Command, ToolCallContext, ToolOutput, ToolResult, tool
from awaken.core.state.key import StateKey
from awaken.core.tool import ToolError
from awaken.tool import FunctionTool
from awaken.tool.isolation.frames import Setup, WorkerRequest
from awaken.tool.isolation.pool import WorkerPool
from awaken.tool.isolation.target import target_of

DEADLINE = 100.0


# -- the desk ---------------------------------------------------------------------------------


class Visitor:
    """One process that reported."""

    def __init__(
        self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = pid
        self._reader = reader
        self._writer = writer

    def let_go(self) -> None:
        self._writer.write(b"!")

    async def said(self) -> str:
        """Its next line."""
        async with asyncio.timeout(DEADLINE):
            return (await self._reader.readline()).decode()

    async def gone(self) -> str:
        """Wait until it, and everybody it gave its place to, is dead: its last words."""
        async with asyncio.timeout(DEADLINE):
            return (await self._reader.read()).decode()


class Desk:
    """Where processes report."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._visitors: asyncio.Queue[Visitor] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def visitor(self) -> Visitor:
        async with asyncio.timeout(DEADLINE):
            return await self._visitors.get()

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._visitors.put_nowait(Visitor(int(await reader.readline()), reader, writer))

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def open_desk(directory: Path) -> AsyncIterator[Desk]:
    desk = Desk(directory / "desk")
    async with await asyncio.start_unix_server(desk.receive, desk.path):
        try:
            yield desk
        finally:
            await desk.close()


def pool_for(
    made: FunctionTool[..., Any], pass_env: tuple[str, ...] = (), **options: Any
) -> WorkerPool:
    """A pool of one's own for an isolated tool."""
    target = target_of(made.__wrapped__, made.name)  # type: ignore[attr-defined]
    return WorkerPool(Setup(made.name, target, None, (), pass_env), **options)


def request(**values: Any) -> bytes:
    return pickle.dumps(WorkerRequest(values, None))


def assert_dead(pid: int) -> None:
    """The process is not only dying: somebody waited for its end."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return
    raise AssertionError(f"process {pid} is still there")


def report(desk: str) -> socket.socket:
    """Say which process this is; it stays at the desk while the socket is open."""
    place = socket.socket(socket.AF_UNIX)
    place.connect(desk)
    place.sendall(f"{os.getpid()}\n".encode())
    return place


# -- functions that stay ----------------------------------------------------------------------


@tool(isolated=True)
def whoami() -> int:
    return os.getpid()


@tool(isolated=True)
def hang(desk: str) -> str:
    """Never ends."""
    with report(desk):
        time.sleep(1000)
    return "never"


@tool(isolated=True, timeout=0.1)
def spin(for_ever: bool) -> int:
    """Has little time."""
    while for_ever:
        pass
    return os.getpid()


@tool(isolated=True)
def breed(desk: str) -> str:
    """Never ends, nor do its children: one by exec, one by fork."""
    place = report(desk)
    subprocess.Popen(["sleep", "1000"], pass_fds=[place.fileno()])
    if os.fork() == 0:
        time.sleep(1000)
    place.sendall(b"bred\n")
    time.sleep(1000)
    return "never"


@tool(isolated=True)
def clutch(desk: str) -> str:
    """Never ends, nor lets anything else of its process run."""
    place = report(desk)
    subprocess.Popen(["sleep", "1000"], pass_fds=[place.fileno()])
    place.sendall(b"clutched\n")
    re.match(r"(a+)+$", "a" * 64 + "b")
    return "never"


@tool(isolated=True)
def die_before_child(desk: str) -> None:
    """Dies, though a child that left the group goes on until it is let go."""
    place = report(desk)
    away, got_away = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(got_away, b"!")
        place.recv(1)
        os._exit(0)
    os.read(away, 1)
    os._exit(7)


@tool(isolated=True)
def wait(desk: str) -> int:
    """Ends when it is let go."""
    with report(desk) as place:
        place.recv(1)
    return os.getpid()


_KEPT: list[socket.socket] = []


@tool(isolated=True)
def linger(desk: str) -> int:
    """Ends at once; its process stays at the desk, and says so when it ends properly."""
    place = report(desk)
    _KEPT.append(place)
    atexit.register(place.sendall, b"bye")
    return os.getpid()


# -- functions that end -----------------------------------------------------------------------

MISSING: Any = object()
COUNTER: StateKey[int, int] = StateKey(name="kit.counter", initial=int, apply=lambda a, b: a + b)


class Colour(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Doubled:
    """Reads differently when read twice."""

    n: int
    colour: Colour = Colour.RED

    def __post_init__(self) -> None:
        self.n *= 2


ANSWERS: dict[str, Any] = {
    "text": "Grüße, 世界 \U0001f600",
    "half": "name \udcff",
    "nothing": None,
    "list": [1, (2, 3.5), {"a": None}],
    "date": datetime.date(2024, 1, 2),
    "object": Doubled(2),
    "module": re,
    "result": ToolResult.error_with_code("other", "E1", "no"),
    "output": ToolOutput({"a": 1}, Command()),
    "odd result": ToolResult.success("other", object()),
    "change": ToolOutput("done", Command().update(COUNTER, 1)),
}
HUGE = 10_000_000


def give(which: str) -> Any:
    """One of the answers."""
    # The huge one is made when it is asked for, not in each process that imports this.
    return "ü" * HUGE if which == "huge" else ANSWERS[which]


isolated_give = tool(give, isolated=True)


@tool(isolated=True)
def take(
    doubled: Doubled,
    when: datetime.date,
    anything: Any,
    missing: str = MISSING,
    *,
    tags: frozenset[str] = frozenset(),
) -> list[Any]:
    assert isinstance(when, datetime.date)
    assert doubled.colour is Colour.RED
    return [doubled.n, when.year, anything, missing is MISSING, sorted(tags)]


@tool(isolated=True)
def measure(text: str) -> int:
    return len(text)


@tool(isolated=True)
def fail(how: str) -> None:
    """Goes wrong."""
    match how:
        case "error":
            raise KeyError("kéy \udcff")
        case "denied":
            raise ToolError.denied("not you \udcff")
        case "exit":
            sys.exit(3)
        case "os_exit":
            os._exit(7)
        case "segfault":
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def perish() -> None:
    """Does something, perhaps, and takes its process along."""
    os._exit(7)


@tool(isolated=True)
def talk() -> str:
    """Says much, and listens."""
    print("printed")
    os.write(1, b"written\n")
    subprocess.run(["echo", "echoed"], check=True)
    return input()


@tool(isolated=True)
def look(city: str, ctx: ToolCallContext | None = None) -> list[Any]:
    """Looks at the call it belongs to."""
    assert ctx is not None
    spec, identity = ctx.agent_spec, ctx.run_identity
    return [city, ctx.call_id, ctx.idempotency_key, ctx.arguments, spec.id, identity.thread_id]


@tool(isolated=True)
def reach(what: str, ctx: ToolCallContext) -> Any:
    """Reaches for what is not there."""
    return ctx.state(COUNTER) if what == "state" else ctx.service(Desk)


async def _later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


@tool(isolated=True)
def promise(n: int) -> Any:
    return _later(n)


def same_name() -> int:
    return 1


first_of_two = tool(same_name, isolated=True, name="first_of_two")


def same_name() -> int:  # type: ignore[no-redef]
    return 2
