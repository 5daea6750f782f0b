"""The real command, as its users start it: on pipes, or on a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import forked
from forked import Forked

COMMAND = ("-m", "awaken.cli")
DEADLINE = 100.0

_STYLING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

APP = '''
import asyncio
import time
from pathlib import Path

from awaken import Agent, FrontEndTool, Runtime, ToolCallContext, ToolDescriptor, tool
from awaken.testing import FunctionModel, tool_calls_response


def model(text, *calls):
    """Makes the calls once, then tells what they answered."""

    def answer(request):
        told = [message.text() for message in request.messages if message.role == "tool"]
        said = [message.text() for message in request.messages if message.role == "user"]
        also = f" And you said: {said[-1]}" if len(said) > 1 else ""
        return f"I heard: {'; '.join(told)}.{also}" if told else tool_calls_response(text, *calls)

    return FunctionModel(answer)


def listen(request):
    """Goes on listening until somebody says something more."""
    said = [message.text() for message in request.messages if message.role == "user"]
    return f"You said: {said[-1]}" if len(said) > 1 else tool_calls_response("", ("tick", "c", {}))


@tool(effect="read")
async def tick() -> None:
    """Let a moment pass."""
    await asyncio.sleep(0.02)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    print("a tool may print")
    return a + b


@tool(needs_approval=True, approval_expires_in=7_200)
async def refund(euros: int) -> str:
    """Pay back."""
    return f"paid {euros}"


@tool
async def slow(ctx: ToolCallContext) -> None:
    """Never ends."""
    await ctx.stream_output("slow has begun\\n")
    await asyncio.Event().wait()


@tool
async def gate(ctx: ToolCallContext) -> str:
    """Waits until somebody makes a file called `open`."""
    await ctx.stream_output("the gate is shut\\n")
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return "the gate is open"


@tool(recover="ask")
async def launch(ctx: ToolCallContext) -> None:
    """Cannot be asked whether it happened."""
    await ctx.stream_output("three, two, one\\n")
    await asyncio.Event().wait()


@tool
async def stubborn(ctx: ToolCallContext) -> None:
    """Does not let itself be cancelled."""
    while True:
        try:
            await ctx.stream_output("stubborn is here\\n")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


@tool
def stuck() -> None:
    """Blocks its thread."""
    print("stuck has begun", flush=True)
    time.sleep(60)


colour = FrontEndTool(ToolDescriptor(id="colour", name="colour", description="Ask for a colour."))

adder = Agent("adder", model=model("Let me add.", ("add", "c1", {"a": 2, "b": 3})), tools=[add])
payer = Agent(
    "payer", model=model("Let me pay.", ("refund", "c1", {"euros": 7})), tools=[refund]
)
sleeper = Agent(
    "sleeper",
    model=model("Wait.", ("add", "c1", {"a": 1, "b": 1}), ("slow", "c2", {})),
    tools=[add, slow],
)
listener = Agent("listener", model=FunctionModel(listen), tools=[tick], max_rounds=0)
guard = Agent("guard", model=model("Halt.", ("gate", "c1", {})), tools=[gate])
pilot = Agent("pilot", model=model("Go.", ("launch", "c1", {})), tools=[launch])
mule = Agent("mule", model=model("No.", ("stubborn", "c1", {})), tools=[stubborn])
blocker = Agent("blocker", model=model("Hm.", ("stuck", "c1", {})), tools=[stuck])
painter = Agent("painter", model=model("Which?", ("colour", "c1", {})), tools=[colour])
host = Agent(
    "host", model=model("Over to you.", ("handoff", "c1", {"agent": "demo"})), handoffs=["demo"]
)
team = [host, Agent("demo", model="demo")]
just_text = "hello"


def runtime():
    return Runtime(team)


def recovering():
    return Runtime([guard], store="sqlite:///awaken.db")


def broken():
    raise RuntimeError("no such thing")
'''


class Ran(NamedTuple):
    """What the command answered and printed."""

    code: int
    out: str
    err: str


Here = Callable[..., Ran]
"""Runs the command in this process."""

Printed = Callable[..., str]
"""The same where it must work, or must be refused: what it prints, or says."""


def write_app(directory: Path) -> Path:
    """Put `app.py`, with agents of every kind, into a directory."""
    (directory / "app.py").write_text(APP)
    return directory


def environment() -> dict[str, str]:
    """Ours, without what makes colours appear or vanish."""
    unwanted = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "AWAKEN_STORE")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"TERM": "xterm-256color", "COLUMNS": "110"}


def awaken(
    *args: str, cwd: Path, stdin: str = "", store: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, without a terminal; `store` is what the environment says."""
    named = {"AWAKEN_STORE": store} if store else {}
    return forked.run([*COMMAND, *args], cwd, environment() | named, stdin)


def only_key(shown: str) -> str:
    """The key of the one ticket in what `awaken show --json` printed."""
    (ticket,) = json.loads(shown)["tickets"]
    return str(ticket["key"])


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Look again and again until something is so, though not for ever."""
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline, f"it never came to be that {what}"
        time.sleep(0.01)


class Process:
    """A command that runs, and what it has printed so far, without styling."""

    def __init__(self, process: Forked, fd: int) -> None:
        self._process = process
        self._fd = fd
        self._raw = b""
        self._seen = 0

    @property
    def raw(self) -> str:
        return self._raw.decode(errors="replace")

    @property
    def printed(self) -> str:
        return _STYLING.sub("", self.raw).replace("\r", "")

    def read_until(self, expected: str) -> None:
        """Read until `expected` comes, after what was expected before."""
        deadline = time.monotonic() + DEADLINE
        while (found := self.printed.find(expected, self._seen)) < 0:
            assert self._read(deadline), f"{expected!r} never came:\n{self.printed}"
        self._seen = found + len(expected)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does: it reaches all processes of a command."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """What a crash does."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE)

    def exit_code(self) -> int:
        """Read to the end, and say how it ended."""
        deadline = time.monotonic() + DEADLINE
        while self._read(deadline):
            pass
        return self._process.wait(DEADLINE)

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._fd], [], [], left)[0]:
            raise AssertionError(f"nothing came any more:\n{self.printed}")
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:  # how a pseudo-terminal says that the other side is closed
            return False
        self._raw += piece
        return bool(piece)


@contextmanager
def on_terminal(*args: str, cwd: Path) -> Iterator[Process]:
    """The command on a terminal of its own."""
    ours, theirs = pty.openpty()
    with _started(args, cwd, (theirs, theirs, theirs), ours) as process:
        yield process


@contextmanager
def on_pipe(*args: str, cwd: Path) -> Iterator[Process]:
    """The command without a terminal, while it runs; both its outputs in one."""
    ours, theirs = os.pipe()
    with (
        open(os.devnull) as nothing,
        _started(args, cwd, (nothing.fileno(), theirs, theirs), ours) as process,
    ):
        yield process


@contextmanager
def _started(
    args: tuple[str, ...], cwd: Path, files: tuple[int, int, int], ours: int
) -> Iterator[Process]:
    process = forked.start([*COMMAND, *args], cwd, environment(), files)
    os.close(files[1])
    try:
        yield Process(process, ours)
    finally:
        _end(process)
        os.close(ours)


def _end(process: Forked) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(DEADLINE)
