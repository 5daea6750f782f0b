"""What the store in memory holds: append-only logs, small heads, state by changed key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import loads
from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.commits import CallEntry, Fence
from awaken.contract.stream_log import StreamLogEntry
from awaken.domain.event import RunEvent
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message
from awaken.domain.run import PersistedState, RunRecord
from awaken.domain.ticket import Ticket
from awaken.stores.changes import Waiters
from awaken.stores.memory.order import Ordered
from awaken.stores.memory.profile import MemoryProfiles

State = dict[str, msgspec.Raw]
_DONE = RunStatus.DONE
ANY = "any thread"
"""What those wait for who wait for commands."""


class ThreadRow:
    """One thread.

    `event_ends` and `message_ends` say how many there were after each commit, `state_changes` and
    `call_lines` what came in which commit, counted from 1. `turn` is the last message with calls
    among those `scanned`, and its commit. `touches` counts writes that were no commits.
    """

    __slots__ = (
        "active_at",
        "active_run_id",
        "call_lines",
        "commands",
        "created_at",
        "event_ends",
        "events",
        "forked_at",
        "forked_from",
        "id",
        "latest_run_id",
        "message_ends",
        "messages",
        "open_run_id",
        "parent_thread_id",
        "scanned",
        "state",
        "state_changes",
        "stream_log",
        "tickets",
        "touches",
        "turn",
        "updated_at",
    )

    def __init__(self, thread_id: str, created_at: int, touches: int) -> None:
        self.id = thread_id
        self.created_at = self.updated_at = self.active_at = created_at
        self.parent_thread_id: str | None = None
        self.latest_run_id: str | None = None
        self.open_run_id: str | None = None
        self.active_run_id: str | None = None
        self.forked_from: str | None = None
        self.forked_at: int | None = None
        self.messages: list[Message] = []
        self.events: list[RunEvent] = []
        self.state: State = {}
        self.stream_log: tuple[StreamLogEntry, ...] = ()
        self.message_ends: list[int] = []
        self.event_ends: list[int] = []
        self.state_changes: list[tuple[int, State]] = []
        self.call_lines: list[tuple[int, tuple[CallEntry, ...]]] = []
        self.turn: tuple[Message, int] | None = None
        self.scanned = 0
        self.tickets: dict[str, Ticket] = {}
        self.commands: dict[int, ThreadCommand] = {}
        self.touches = touches

    @property
    def version(self) -> int:
        """A number that grows with every write."""
        return len(self.event_ends) + self.touches


class RunRow:
    """One run: its record, its place among all runs, the commit it came with, its state.

    `status` is the one its thread has its place in the lists for.
    """

    __slots__ = ("first_commit", "number", "record", "state", "status")

    def __init__(self, record: RunRecord, number: int, first_commit: int) -> None:
        self.record = record
        self.number = number
        self.first_commit = first_commit
        self.state: State = {}
        self.status: RunStatus | None = None


class Tables:
    """All there is; what is done with it stands in the modules beside this one.

    `_activity` has the threads in the order they are listed in, `_names` their ids in order, and
    `_children` those of each parent. `_owners` has the threads that have an owner, `_forsaken` by
    thread the owners that died with one, `_keys` by thread the commands that are kept once, and
    `_outboxes` the threads that have something to send. Epochs, command ids and versions do not
    come back when a thread is deleted and made again: the first two are counted for the whole
    store, the last goes on from `_first_version`.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.profiles = MemoryProfiles(clock)
        self._threads: dict[str, ThreadRow] = {}
        self._activity: Ordered[tuple[int, str]] = Ordered()
        self._names: Ordered[str] = Ordered()
        self._children: dict[str, dict[str, ThreadRow]] = {}
        self._runs: dict[str, RunRow] = {}
        self._commands: dict[int, ThreadCommand] = {}
        self._keys: dict[str, dict[str, int]] = {}
        self._outboxes: set[str] = set()
        self._owners: dict[str, Fence] = {}
        self._forsaken: dict[str, str] = {}
        self._runs_made = self._commands_sent = self._epoch = 0
        self._first_version = 0
        self._changes = Waiters()
        self._sent = Waiters()

    def _add_thread(self, thread: ThreadRow) -> None:
        self._threads[thread.id] = thread
        self._names.add(thread.id)
        self._activity.add((-thread.active_at, thread.id))

    def _remove_thread(self, thread: ThreadRow) -> None:
        self._set_parent(thread, None)
        self._activity.remove((-thread.active_at, thread.id))
        self._names.remove(thread.id)
        del self._threads[thread.id]

    def _move_thread(self, thread: ThreadRow, at_ms: int) -> None:
        """Note that a run began, paused or ended: the thread has another place in the lists."""
        if thread.active_at != at_ms:
            self._activity.remove((-thread.active_at, thread.id))
            thread.active_at = at_ms
            self._activity.add((-at_ms, thread.id))

    def _set_parent(self, thread: ThreadRow, parent_id: str | None) -> None:
        if thread.parent_thread_id is not None:
            siblings = self._children.get(thread.parent_thread_id, {})
            siblings.pop(thread.id, None)
            if not siblings:
                self._children.pop(thread.parent_thread_id, None)
        thread.parent_thread_id = parent_id
        if parent_id is not None:
            self._children.setdefault(parent_id, {})[thread.id] = thread

    def _beneath(self, thread_id: str) -> list[ThreadRow]:
        """All threads beneath one, on every level."""
        found = list(self._children.get(thread_id, {}).values())
        for row in found:  # grows as it goes
            found.extend(self._children.get(row.id, {}).values())
        return found

    def _upwards(self, thread: ThreadRow) -> Iterator[ThreadRow]:
        """A thread, its parent, and so on."""
        above: ThreadRow | None = thread
        while above is not None:
            yield above
            above = self._threads.get(above.parent_thread_id or "")

    def _touch(self, thread: ThreadRow) -> None:
        """Note that the thread was written, and tell whoever waits for that."""
        thread.touches += 1
        self._changes.tell(thread.id)

    def _keep(self, thread: ThreadRow, command: ThreadCommand) -> int:
        """Give a command its number, and wake those that wait for one; 0 if it was done before, or
        cancels a run that is over."""
        if command.kind is CommandKind.CANCEL and command.run_id is not None:
            run = self._runs.get(command.run_id)
            record = run.record if run is not None else None
            if record is not None and (record.thread_id, record.status) == (thread.id, _DONE):
                return 0
        if command.key is not None:
            known = self._keys.setdefault(thread.id, {}).setdefault(
                command.key, self._commands_sent + 1
            )
            if known <= self._commands_sent:
                return known if known in self._commands else 0
        self._commands_sent += 1
        number = self._commands_sent
        kept = msgspec.structs.replace(command, id=number)
        thread.commands[number] = self._commands[number] = kept
        self._touch(thread)
        self._sent.tell(ANY)
        return number

    def _drop_commands(self, thread: ThreadRow, ids: Iterable[int]) -> None:
        for number in ids:
            if thread.commands.pop(number, None) is not None:
                del self._commands[number]


def persisted(raw: State) -> PersistedState:
    return PersistedState(extensions={name: loads(value) for name, value in sorted(raw.items())})
