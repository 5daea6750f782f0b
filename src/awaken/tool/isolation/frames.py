"""The protocol between a worker process and its owner: a request, its answer, the next request.

Requests are pickled, so that the function gets the decoded arguments. Answers are JSON, so that a
worker cannot make its owner run code.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, NamedTuple, cast

from awaken.codec import loads
from awaken.core.tool import ToolErrorKind, ToolResult
from awaken.core.tool_context import ToolCallContext
from awaken.core.value import Value
from awaken.tool.isolation.target import FunctionTarget

_HEAD = struct.Struct("!QQ")
MAX_FRAME = 64 * 1024 * 1024
"""The longest request or answer, in bytes."""

# A program that lets SIGPIPE kill it must not die because a worker did.
_QUIETLY = getattr(socket, "MSG_NOSIGNAL", 0)


class Setup(NamedTuple):
    """The first message to a worker; `context` is the parameter that takes the call's context."""

    tool: str
    target: FunctionTarget
    context: str | None
    argv: tuple[str, ...]
    pass_env: tuple[str, ...] = ()


class WorkerRequest(NamedTuple):
    """One call: its arguments, and the fields of its context if the function takes one."""

    values: dict[str, Any]
    context: dict[str, Any] | None


_TRAVELS = (
    "call_id",
    "tool_name",
    "run_identity",
    "agent_spec",
    "idempotency_key",
    "arguments",
    "resume_input",
    "suspension_id",
    "suspension_reason",
    "depth",
)


def context_fields(ctx: ToolCallContext) -> dict[str, Any]:
    """The fields of a call's context that are plain data, and can go to another process."""
    return {name: getattr(ctx, name) for name in _TRAVELS}


class Returned(Value, frozen=True, kw_only=True, tag="returned"):
    """The function returned."""

    result: ToolResult


class Raised(Value, frozen=True, kw_only=True, tag="raised"):
    """The function raised; `trace` is for the log, and `None` for a `ToolError`."""

    kind: ToolErrorKind
    message: str
    trace: str | None = None


WorkerAnswer = Returned | Raised

READY = b"ready"
"""The first answer of a worker that has imported its function; any other text is the error
of the import."""


def read_answer(frame: bytes) -> WorkerAnswer:
    answer: WorkerAnswer = loads(frame, cast("Any", WorkerAnswer))
    return answer


class BadFrame(OSError):
    """The received bytes are not a frame of this protocol, or not the expected one."""


def send_frame(channel: socket.socket, frame: bytes, number: int) -> None:
    """Write one frame; an answer has the number of its request.

    Raises:
        OSError: the other side has closed the channel.
    """
    channel.sendall(_HEAD.pack(number, len(frame)) + frame, _QUIETLY)


def receive_frame(channel: socket.socket) -> tuple[int, bytes] | None:
    """The next frame with its number; `None` if the other side has closed the channel.

    Raises:
        BadFrame: it is too long.
        OSError: the connection broke.
    """
    head = _exactly(channel, _HEAD.size)
    if head is None:
        return None
    number, length = _HEAD.unpack(head)
    if length > MAX_FRAME:
        raise BadFrame(f"a frame of {length} bytes; {MAX_FRAME} are the most")
    frame = _exactly(channel, length)
    return None if frame is None else (number, frame)


def receive_answer(channel: socket.socket, number: int) -> bytes | None:
    """The answer to a request; `None` if the other side has closed the channel.

    Raises:
        BadFrame: the frame answers another request.
        OSError: the connection broke.
    """
    received = receive_frame(channel)
    if received is not None and received[0] != number:
        raise BadFrame(f"frame {received[0]} came in the place of {number}")
    return None if received is None else received[1]


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = channel.recv_into(rest)
        if not count:
            return None
        rest = rest[count:]
    return bytes(data)
