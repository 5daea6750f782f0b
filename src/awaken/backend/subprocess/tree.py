"""Filtering a child process's events: only those of its own run and of runs beneath it pass.

A process may be manipulated. Its events about other runs would reach the clients of those runs.
"""

from __future__ import annotations

import logging

import msgspec

from awaken.backend.subprocess.protocol import EventsWanted
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    InferenceComplete,
    RunEvent,
    RunFinish,
    RunStart,
)
from awaken.core.identity import RunIdentity

log = logging.getLogger("awaken.backend.subprocess")

MAX_RUNS = 10_000
"""The most runs for which a process may send events."""
_LATEST_MS = 2**53


class RunTree:
    """The runs for which a child process may send events.

    A run beneath its own names its parent run, and has its own thread with the same id as the run,
    like every delegate and task.
    """

    def __init__(self, identity: RunIdentity, wanted: EventsWanted) -> None:
        self._identity, self._wanted = identity, wanted
        self._threads = {identity.run_id: identity.thread_id}
        self._above = {identity.thread_id, identity.parent_run_id, identity.parent_thread_id}
        self._warned = False

    def admit(self, event: RunEvent) -> RunEvent | None:
        """The event as it may be passed on, or `None` if it may not."""
        if self._is_wanted(event) and self._is_ours(event):
            # Only events in our own store have a `seq`, which moves the cursors of readers.
            return event if event.seq is None else msgspec.structs.replace(event, seq=None)
        if not self._warned:
            self._warned = True
            log.warning(
                "agent %r: its process sent an event of run %.100r in thread %.100r, which is not "
                "its own: such events are dropped",
                self._identity.agent_id,
                event.run_id,
                event.thread_id,
            )
        return None

    def _is_wanted(self, event: RunEvent) -> bool:
        if self._wanted is EventsWanted.ALL:
            return True
        return event.run_id == self._identity.run_id and isinstance(
            event.event, ActivitySnapshot | ActivityDelta
        )

    def _is_ours(self, event: RunEvent) -> bool:
        if not 0 <= event.at_ms < _LATEST_MS or not self._names_itself(event):
            return False
        if isinstance(event.event, InferenceComplete) and _is_less_than_nothing(event.event):
            return False
        known = self._threads.get(event.run_id)
        if known is not None:
            return known == event.thread_id
        is_new = (
            event.parent_run_id in self._threads
            and event.thread_id == event.run_id
            and event.run_id not in self._above
            and len(self._threads) < MAX_RUNS
        )
        if is_new:
            self._threads[event.run_id] = event.thread_id
        return is_new

    def _names_itself(self, event: RunEvent) -> bool:
        """Whether an event that contains run ids contains those of its own run."""
        told = event.event
        if not isinstance(told, RunStart | RunFinish):
            return True
        names = [told, told.identity] if told.identity is not None else [told]
        return all((n.thread_id, n.run_id) == (event.thread_id, event.run_id) for n in names)


def _is_less_than_nothing(told: InferenceComplete) -> bool:
    used = () if told.usage is None else msgspec.structs.astuple(told.usage)
    return any(count is not None and count < 0 for count in (told.duration_ms, told.cost, *used))
