"""What of a child run's events its parent's listeners get to see."""

from __future__ import annotations

from typing import Literal, get_args

from awaken.contract.events import EventSink
from awaken.contract.tool import ToolCallContext
from awaken.domain.event import (
    ActivitySnapshot,
    Error,
    RunEvent,
    TextDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.domain.progress import PROGRESS_ACTIVITY
from awaken.errors import ConfigError

ErrorMode = Literal["drop", "wrap", "forward"]
"""What becomes of a child's errors: nothing, words among its text, or the events themselves."""


class _OneRun:
    """The run whose events a sink is for: the one that speaks first.

    What it starts itself speaks through the same sink, under names of its own.
    """

    def __init__(self) -> None:
        self._run_id: str | None = None

    def has(self, event: RunEvent) -> bool:
        if self._run_id is None:
            self._run_id = event.run_id
        return event.run_id == self._run_id


class ProgressForwardingSink:
    """Passes on how far the calls of a child are, and nothing else; not those of its children."""

    def __init__(self, parent: EventSink) -> None:
        self._parent = parent
        self._child = _OneRun()
        self._calls: set[str] = set()

    async def emit(self, event: RunEvent) -> None:
        if not self._child.has(event):
            return
        match event.event:
            case ToolCallStart(id=call_id) | ToolCallReady(id=call_id):
                self._calls.add(call_id)
            case ActivitySnapshot(activity_type=kind, content={"call_id": str(call_id)}) if (
                kind == PROGRESS_ACTIVITY and call_id in self._calls
            ):
                await self._parent.emit(event)

    async def close(self) -> None:
        """The parent's sink is the parent's to close."""


class StreamingPassthroughSink:
    """A child's text, as it comes, as the output of the call that runs it.

    Args:
        ctx: the call.
        errors: what becomes of the child's errors. `wrap` says them in words, which are not part
            of `text`; `forward` passes the events on as they are, if anybody takes them.

    Raises:
        ConfigError: there is no such mode.
    """

    def __init__(self, ctx: ToolCallContext, errors: ErrorMode = "wrap") -> None:
        if errors not in get_args(ErrorMode):
            raise ConfigError(f"errors is drop, wrap or forward, not {errors!r}")
        self._ctx = ctx
        self._errors = errors
        self._child = _OneRun()
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What the child has said so far."""
        return "".join(self._pieces)

    async def emit(self, event: RunEvent) -> None:
        if not self._child.has(event):
            return
        match event.event:
            case TextDelta(delta=delta):
                self._pieces.append(delta)
                await self._ctx.stream_output(delta)
            case Error() as error:
                await self._tell(event, error)

    async def _tell(self, event: RunEvent, error: Error) -> None:
        if self._errors == "wrap":
            code = f" {error.code}" if error.code else ""
            await self._ctx.stream_output(f"[child error{code}: {error.message}]")
        elif self._errors == "forward" and self._ctx.forward is not None:
            await self._ctx.forward(event)

    async def close(self) -> None:
        """The call ends by its result."""
