"""One attempt to carry out a request, and the outcomes that it can have.

Most requests take one attempt. More are made if another run of the thread has to end first, and if
a command arrives for a run that has just paused. An attempt that fails raises its error.
"""

from __future__ import annotations

from typing import NamedTuple

from awaken.core.event import EventSink
from awaken.core.run import AgentRunResult
from awaken.errors import InvalidResume, ThreadAlreadyRunning
from awaken.worker.request import RunRequest, continuation


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
