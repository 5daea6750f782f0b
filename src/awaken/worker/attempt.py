"""One attempt to carry out a request, and the outcomes that it can have.

Most requests take one attempt. More are made if another run of the thread has to end first, and if
a command arrives for a run that has just paused. An attempt that fails raises its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from awaken.core.event import EventSink
from awaken.core.run import AgentRunResult
from awaken.errors import InvalidResume, ThreadAlreadyRunning
from awaken.worker.request import RunRequest, continuation

_OWN_CODE = str(Path(__file__).parents[1])


class Attempt(NamedTuple):
    """The request to carry out, and the sink of its run."""

    request: RunRequest
    sink: EventSink

    def continue_run(self, run_id: str, sink: EventSink) -> Attempt:
        """The attempt to continue the run `run_id` for this one, without new input."""
        return Attempt(continuation(self.request, run_id), sink)


class AttemptEnded(NamedTuple):
    """The run has ended or paused. With `has_command`, a command for the paused run is stored."""

    result: AgentRunResult
    has_command: bool = False


class MustEndFirst(NamedTuple):
    """Before the request can start its run, the thread's open run `run_id` has to be ended."""

    run_id: str


class StartOver(NamedTuple):
    """The thread's open run has been ended. The request can now start its own."""


class AttemptRefused(NamedTuple):
    """The run cannot be continued, or it is live elsewhere."""

    error: InvalidResume | ThreadAlreadyRunning


AttemptOutcome = AttemptEnded | MustEndFirst | StartOver | AttemptRefused


def clear_frames(error: BaseException) -> None:
    """Clear the local variables of our own frames in the tracebacks of a run's error.

    These frames hold the run, whose task holds the error: without this, a failed run would wait for
    the garbage collector. The frames of users' code stay as they are, for their debuggers.
    """
    for frame in _frames_of(error, set()):
        if frame.f_code.co_filename.startswith(_OWN_CODE):
            try:
                frame.clear()
            except RuntimeError:
                continue  # it is still executing


def _frames_of(error: BaseException | None, seen: set[int]) -> Iterator[FrameType]:
    """The frames of an error and of the errors that led to it."""
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback = error.__traceback__
        while traceback is not None:
            yield traceback.tb_frame
            traceback = traceback.tb_next
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _frames_of(each, seen)
        yield from _frames_of(error.__context__, seen)
        error = error.__cause__
