"""The code of a worker process: it loads one function, then calls it once for each request.

The worker ends when its owner closes the channel, and is killed when its owner dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import pickle
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable
from typing import Any

from awaken.codec import clean_text, dumps
from awaken.core.tool import ToolError, ToolErrorKind, ToolResult
from awaken.core.tool_context import ToolCallContext
from awaken.errors import ConfigError
from awaken.tool.isolation.frames import (
    MAX_FRAME,
    READY,
    Raised,
    Returned,
    Setup,
    WorkerRequest,
    receive_frame,
    send_frame,
)
from awaken.tool.isolation.target import load_function
from awaken.tool.output import to_output


def main(inherited: int) -> None:
    """Serve the process that started this one, over the socket inherited from it."""
    lifeline = os.dup(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    die_with_owner(lifeline)
    channel = socket.socket(fileno=inherited)
    # Processes that the function starts must not answer in its place, nor keep the channel open.
    channel.set_inheritable(False)
    os.register_at_fork(after_in_child=channel.close)
    received = receive_frame(channel)
    if received is None:
        return
    worker = FunctionServer(pickle.loads(received[1]))
    send_frame(channel, worker.get_ready(), received[0])
    while (received := receive_frame(channel)) is not None:
        number, frame = received
        send_frame(channel, worker.answer(frame), number)


def die_with_owner(lifeline: int) -> None:
    """Have this process and its group killed when the owner closes its end of the pipe, or dies."""
    try:
        # The kernel does it: a thread would never run while other code holds the interpreter's
        # lock.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    except (AttributeError, OSError):  # not Linux
        threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
    if select.select([lifeline], [], [], 0)[0]:  # it was closed before the kernel watched it
        os.killpg(0, signal.SIGKILL)


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


class FunctionServer:
    """One function, and its calls."""

    def __init__(self, setup: Setup) -> None:
        sys.argv[:] = setup.argv
        self._setup = setup

    def get_ready(self) -> bytes:
        """Import the function. Returns `READY`, or the reason why it cannot be imported."""
        try:
            self._function = load_function(self._setup.target)
        except BaseException as error:
            traceback.print_exc()
            return _describe(error).encode()
        return READY

    def answer(self, frame: bytes) -> bytes:
        """Execute one request. Returns the answer; an error becomes an answer, too."""
        try:
            value = self._function(**self._arguments(frame))
            answer = dumps(Returned(result=self._result(value)))
            if len(answer) <= MAX_FRAME:
                return answer
            raise ToolError.execution_failed(
                f"tool {self._setup.tool!r} returned {len(answer)} bytes, and its worker process "
                f"may send {MAX_FRAME}: return less, or write it to a file and return its name"
            )
        except ToolError as error:
            return dumps(Raised(kind=error.kind, message=clean_text(error.message)))
        except BaseException as error:  # sys.exit() ends a call, not the worker
            trace = clean_text(traceback.format_exc())
            kind = ToolErrorKind.EXECUTION_FAILED
            return dumps(Raised(kind=kind, message=_describe(error), trace=trace))

    def _arguments(self, frame: bytes) -> dict[str, Any]:
        request: WorkerRequest = pickle.loads(frame)
        if self._setup.context is not None and request.context is not None:
            request.values[self._setup.context] = self._context(request.context)
        return request.values

    def _context(self, fields: dict[str, Any]) -> ToolCallContext:
        state: Any = _Elsewhere(self._setup.tool, "the run's state")
        services: Any = _Elsewhere(self._setup.tool, "plugins' services")
        return ToolCallContext(**fields, snapshot=state, services=services)

    def _result(self, value: Any) -> ToolResult:
        if inspect.isawaitable(value):  # a plain wrapper around an async function
            value = asyncio.run(_await(value))
        output = to_output(self._setup.tool, value)
        if output.command:
            raise ToolError.execution_failed(
                f"tool {self._setup.tool!r} returned changes of state, which do not leave its "
                "worker process: leave out isolated=True"
            )
        result: ToolResult = output.result
        return result


class _Elsewhere:
    """Stands for an object that only the run's own process has; using it raises `ConfigError`."""

    def __init__(self, tool: str, what: str) -> None:
        self._why = (
            f"{what} cannot be had in the worker process of tool {tool!r}: take what it needs as "
            "an argument, or leave out isolated=True"
        )

    def __getattr__(self, name: str) -> Any:
        raise ConfigError(self._why)


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    return clean_text(f"{type(error).__name__}: {text}")
