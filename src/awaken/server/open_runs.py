"""The run of a thread that a client can follow, and where its events begin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.submissions import Submission
from awaken.core.store.threads import RunQuery
from awaken.core.thread import Thread

_LOOK_BACK = 200
_WAKES = (CommandKind.DECISIONS, CommandKind.CANCEL)


class OpenRun(NamedTuple):
    """A run that works, or will without a client's doing.

    `before` is the number of the thread's last event before the run's first. `event_count` is the
    number of the thread's last event at a moment when the run was open: an end of the run up to
    there was a pause. `asked` is what was submitted, if the run had not begun with it.
    """

    run: RunRecord
    before: int
    event_count: int
    asked: Submission | None = None

    def in_view(self, log: Sequence[Message]) -> list[Message]:
        """The messages of the thread, read later than the run, as they are when it has begun."""
        if self.asked is None:
            return list(log)
        known, rewound = {message.id for message in log}, self.asked.rewind_to
        kept = log
        if rewound is not None:
            kept = list(takewhile(lambda message: message.id != rewound, log))
        return [*kept, *(message for message in self.asked.messages if message.id not in known)]


async def find_open_run(store: Store, thread_id: str) -> OpenRun | None:
    """The thread's run that works, has an answer to go on with, or has not started yet; `None` if
    there is none, or if it waits for an answer."""
    # The order of these reads matters: a command is dropped by the commit that changes the record.
    thread = await store.load_thread(thread_id)
    if thread is None:
        return None
    commands = await store.load_commands(thread_id)
    run = await _open_run(store, thread, commands)
    if run is None:
        return None
    asked = [command.submission for command in commands if command.run_id == run.run_id]
    before = await event_before(store, thread, run)
    return OpenRun(run, before, thread.event_count, next(filter(None, asked), None))


async def _open_run(
    store: Store, thread: Thread, commands: Sequence[ThreadCommand]
) -> RunRecord | None:
    now = await store.load_thread(thread.id)
    if now is None:
        return None
    if now.open_run_id is None:
        submitted = RunQuery(thread_id=thread.id, status=RunStatus.CREATED, limit=1)
        return next(iter(await store.list_runs(submitted)), None)
    run = await store.load_run(now.open_run_id)
    if run is not None and run.status is RunStatus.WAITING:
        return run if can_go_on(run, commands) else None
    return run


def can_go_on(run: RunRecord, commands: Sequence[ThreadCommand]) -> bool:
    """Whether a waiting run has an answer or a cancel to go on with, in whichever process.

    Args:
        commands: those of its thread, read before the record: the commit that drops a command
            changes the record, too.
    """
    return any(one.kind in _WAKES and one.run_id in (None, run.run_id) for one in commands)


async def event_before(store: Store, thread: Thread, run: RunRecord) -> int:
    """The number of the event before the run's first one. Its events are the thread's last, so
    they are looked for from the end."""
    back = _LOOK_BACK
    while True:
        after = max(0, thread.event_count - back)
        events = await store.load_events(thread.id, after=after, limit=back)
        mine = [index for index, told in enumerate(events) if told.run_id == run.run_id]
        if not mine:
            return thread.event_count
        if mine[0] > 0 or after == 0:
            return after + mine[0]
        back *= 2
