"""What goes between a worker process and its owner: one request, one answer, in turn.

Requests are pickled, so that the function gets the very values the arguments were read as. Answers
are JSON: nothing a worker says can make its owner run code.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, NamedTuple, cast

from awaken.codec import loads
from awaken.contract.tool import ToolCallContext
from awaken.domain.tool import ToolErrorKind, ToolResult
from awaken.domain.value import Value
from awaken.tool.worker.target import Target

_LENGTH = struct.Struct("!Q")
# Programs that let SIGPIPE kill them are not to die of a worker that did.
_QUIETLY = getattr(socket, "MSG_NOSIGNAL", 0)


class Setup(NamedTuple):
    """The first thing a worker is told; `context` is the parameter that takes one, if any does."""

    tool: str
    target: Target
    context: str | None
    argv: tuple[str, ...]


class Request(NamedTuple):
    """One call: the arguments, and what of its context the function may see if it asks for one."""

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
    """What of a call's context is plain data, and can go elsewhere."""
    return {name: getattr(ctx, name) for name in _TRAVELS}


class Returned(Value, frozen=True, kw_only=True, tag="returned"):
    """The function answered."""

    result: ToolResult


class Raised(Value, frozen=True, kw_only=True, tag="raised"):
    """The function raised; the trace is for the log, and only if it was no `ToolError`."""

    kind: ToolErrorKind
    message: str
    trace: str | None = None


Answer = Returned | Raised

READY = b"ready"
"""What a worker says when it has found its function; anything else is why it has not."""


def read_answer(frame: bytes) -> Answer:
    answer: Answer = loads(frame, cast("Any", Answer))
    return answer


def send(channel: socket.socket, frame: bytes) -> None:
    """Write one frame.

    Raises:
        OSError: nobody reads any more.
    """
    channel.sendall(_LENGTH.pack(len(frame)) + frame, _QUIETLY)


def receive(channel: socket.socket) -> bytes | None:
    """The next frame, or `None` if there will be none.

    Raises:
        OSError: the other side broke off.
    """
    head = _exactly(channel, _LENGTH.size)
    return None if head is None else _exactly(channel, *_LENGTH.unpack(head))


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = channel.recv_into(rest)
        if not count:
            return None
        rest = rest[count:]
    return bytes(data)
