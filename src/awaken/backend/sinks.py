"""Sinks that pass some of a child run's events on to its parent's listeners."""

from __future__ import annotations

from typing import Literal, get_args

from awaken.core.event import (
    ActivitySnapshot,
    Error,
    RunEvent,
    TextDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.core.events import EventSink
from awaken.core.progress import PROGRESS_ACTIVITY
from awaken.core.tool_context import ToolCallContext
from awaken.errors import ConfigError

ErrorMode = Literal["drop", "wrap", "forward"]
"""What happens to a child's errors: they are dropped, become text, or are forwarded as events."""


class _OneRun:
    """The run that a sink belongs to: the run of the first event.

    Runs that this run starts send their events to the same sink, with their own ids.
    """

    def __init__(self) -> None:
        self._run_id: str | None = None

    def has(self, event: RunEvent) -> bool:
        if self._run_id is None:
            self._run_id = event.run_id
        return event.run_id == self._run_id


class ProgressForwardingSink:
    """Passes on only the progress of a child's own calls, not of the runs it starts."""

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
        """Does nothing: the parent closes its own sink."""


class StreamingPassthroughSink:
    """Streams a child's text as the output of the tool call that runs it.

    Args:
        ctx: the call.
        errors: what happens to the child's errors. `wrap` streams them as text that is not part of
            `text`; `forward` passes the events on unchanged, if the call forwards events.

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
        """The child's text so far."""
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
        """Does nothing: the call's result ends its output."""
