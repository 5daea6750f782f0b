"""Agents for processes of their own. Some come on stage: they call the test that watches them.

Whoever has called is alive for as long as the connection lives: the system closes it with the
process, however that ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from awaken import Agent, ToolCallContext, tool
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel, tool_calls_response


def users(request: InferenceRequest) -> list[str]:
    return [message.text() for message in request.messages if message.role is Role.USER]


def calling(name: str) -> FunctionModel:
    """Calls a tool, then says what it answered."""

    def say(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return last.text()
        return tool_calls_response("", (name, "c1", {}))

    return FunctionModel(say)


def run_elsewhere(*command: str) -> None:
    subprocess.run(command, check=True)


def hold_everything_up() -> None:
    time.sleep(600)


def leave_behind(call: socket.socket) -> None:
    subprocess.Popen(["sleep", "600"], pass_fds=[call.fileno()])


def come_on_stage() -> socket.socket:
    """Call whoever watches, and tell our number."""
    call = socket.create_connection(("127.0.0.1", int(os.environ["STAGE"])))
    call.sendall(f"{os.getpid()}\n".encode())
    return call


# -- those that answer ------------------------------------------------------------------------

echo = Agent("echo", model=FunctionModel(lambda request: users(request)[-1]))
recalling = Agent("recalling", model=FunctionModel(lambda request: users(request)[0]))
reader = Agent(
    "reader",
    model=FunctionModel(
        lambda request: " | ".join(f"{m.role.value}: {m.text()}" for m in request.messages)
    ),
)
heat = Agent(
    "heat",
    model=FunctionModel(lambda r: json.dumps(r.overrides.temperature if r.overrides else None)),
)
silent = Agent("silent", model=FunctionModel(lambda request: ""))
several = [echo, recalling]


def made() -> Agent:
    return Agent("made", model=FunctionModel(lambda request: "made on the spot"))


@tool(effect="read")
async def surroundings() -> dict[str, Any]:
    """What the process has."""
    return {"env": dict(os.environ), "cwd": os.getcwd(), "python": sys.executable}


looking = Agent("looking", model=calling("surroundings"), tools=[surroundings])


@tool(effect="read")
async def identity(ctx: ToolCallContext) -> dict[str, Any]:
    """Who the run is."""
    who = ctx.run_identity
    return {"run": who.run_id, "thread": who.thread_id, "parent": who.parent_run_id}


somebody = Agent("somebody", model=calling("identity"), tools=[identity])


@tool
async def chatter(ctx: ToolCallContext) -> str:
    """Writes to wherever it can, and reads what it can."""
    print("printed ☃")
    os.write(1, b"written to the file itself\n")
    run_elsewhere("echo", "said by another process")
    print("to stderr", file=sys.stderr)
    await ctx.report_activity("thinking", "about what to say")
    await ctx.stream_output("a piece of output")
    return f"read {sys.stdin.read()!r}"


chatty = Agent("chatty", model=calling("chatter"), tools=[chatter])


@tool
async def errand() -> str:
    """Takes a moment."""
    for _ in range(20):
        await asyncio.sleep(0)
    return "the errand is run"


def starting(name: str) -> FunctionModel:
    """Starts a task, and says what it hears last: of the task, too, once that tells something."""

    def say(request: InferenceRequest) -> Any:
        if any(message.tool_calls for message in request.messages):
            return f"heard: {request.messages[-1].text()}"
        return tool_calls_response("", (name, "c1", {"prompt": "go"} if "agent" in name else {}))

    return FunctionModel(say)


sending = Agent("sending", model=starting("errand"), background=[errand])


# -- those that do not ------------------------------------------------------------------------


def refuse(request: InferenceRequest) -> str:
    raise RuntimeError("the model is out of order")


failing = Agent("failing", model=FunctionModel(refuse), sections={"retry": {"max_retries": 0}})


@tool(needs_approval=True)
async def pay() -> str:
    """Costs money."""
    return "paid"


asking = Agent("asking", model=calling("pay"), tools=[pay])
asking_later = [
    Agent("asking_later", model=starting("agent_run_asking"), background=[asking]),
    asking,
]


@tool
def leave() -> None:
    """Ends the process."""
    for number in range(30):
        print(f"line {number}", file=sys.stderr)
    os._exit(7)


leaving = Agent("leaving", model=calling("leave"), tools=[leave])


@tool
async def crash() -> None:
    """Takes the interpreter down."""
    ctypes.string_at(0)


crashing = Agent("crashing", model=calling("crash"), tools=[crash])


def broken() -> Agent:
    raise LookupError("no such thing")


async def later() -> Agent:
    return echo


nonsense = 42


# -- those that take their time ---------------------------------------------------------------


@tool
async def wait() -> None:
    """Waits for ever, and says good-bye when told to stop."""
    with come_on_stage() as call:
        try:
            await asyncio.Event().wait()
        finally:
            call.sendall(b"bye\n")


slow = Agent("slow", model=calling("wait"), tools=[wait])
slow_later = Agent("slow_later", model=starting("wait"), background=[wait])


@tool
async def block() -> None:
    """Does not let the loop run."""
    with come_on_stage():
        hold_everything_up()


blocking = Agent("blocking", model=calling("block"), tools=[block])


@tool
async def mind_signals() -> None:
    """Hears nothing but signals."""
    call = come_on_stage()

    def say_so(number: int, frame: object) -> None:
        call.sendall(signal.Signals(number).name.encode())
        os._exit(0)

    signal.signal(signal.SIGTERM, say_so)
    hold_everything_up()


polite = Agent("polite", model=calling("mind_signals"), tools=[mind_signals])


@tool
async def dig_in() -> None:
    """Does not listen to signals, either."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with come_on_stage():
        hold_everything_up()


deaf = Agent("deaf", model=calling("dig_in"), tools=[dig_in])


@tool
def linger() -> str:
    """Leaves a thread behind that does not end."""
    with come_on_stage():
        hold_everything_up()
    return "never"


lingering = Agent("lingering", model=calling("linger"), tools=[linger])


@tool
async def multiply() -> str:
    """Leaves a process behind that holds the line open, and stderr."""
    with come_on_stage() as call:
        leave_behind(call)
    return "multiplied"


fertile = Agent("fertile", model=calling("multiply"), tools=[multiply])
