"""The data of the memory store: append-only logs, small heads, state by changed key."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from operator import attrgetter
from typing import NamedTuple

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import loads
from awaken.core.event import RunEvent
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.request_manifest import RequestManifest
from awaken.core.rewind import Hidden
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallEntry, Fence, StreamLogEntry
from awaken.core.suspension import Ticket
from awaken.core.thread import NO_METADATA
from awaken.core.thread_ids import ThreadFamily
from awaken.core.value import EMPTY
from awaken.stores.memory.paging import Ordered
from awaken.stores.memory.profiles import MemoryProfiles
from awaken.stores.rules import StoredKey, can_withdraw, cancel_submitted_run
from awaken.stores.waiting import Waiters

State = dict[str, msgspec.Raw]
_DONE = RunStatus.DONE
ANY_THREAD = "any thread"
"""The key for tasks that wait for a command to any thread."""


class Rewind(NamedTuple):
    """A rewind: the number of its commit, the span it took out of view, and the state that it left
    before the commit's own changes."""

    commit: int
    after: int
    until: int
    state: State


class CommitRow(msgspec.Struct, frozen=True, gc=False):
    """One commit: how many messages, events and lines of the call ledger its thread has after it,
    its time, and its run."""

    messages: int
    events: int
    call_lines: int
    at_ms: int
    run_id: str | None


_messages_after, _events_after = attrgetter("messages"), attrgetter("events")


class ThreadRow:
    """One thread.

    Commits are numbered from 1. `state_changes` hold the number of a commit and what it brought.
    `hidden` are the spans of messages that `rewinds` have taken out of view. `call_lines` are the
    lines of the call ledger. `turn` is the last message with tool calls, and its commit, among the
    first `scanned` messages. `touches` counts writes other than commits. `blobs` are those in use,
    each with the first commit that uses it, and `texts` likewise. `requests` are kept by the id of
    their answer.
    """

    __slots__ = (
        "active_at",
        "active_run_id",
        "blobs",
        "call_lines",
        "commands",
        "commits",
        "created_at",
        "events",
        "forked_at",
        "forked_from",
        "hidden",
        "id",
        "latest_run_id",
        "messages",
        "metadata",
        "open_run_id",
        "parent_thread_id",
        "place",
        "requests",
        "rewinds",
        "scanned",
        "state",
        "state_changes",
        "stream_log",
        "texts",
        "tickets",
        "touches",
        "turn",
        "updated_at",
    )

    def __init__(self, thread_id: str, place: ThreadFamily, created_at: int, touches: int) -> None:
        self.id = thread_id
        self.place = place
        self.metadata = NO_METADATA
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
        self.commits: list[CommitRow] = []
        self.state_changes: list[tuple[int, State]] = []
        self.rewinds: tuple[Rewind, ...] = ()
        self.hidden: Hidden = ()
        self.call_lines: list[CallEntry] = []
        self.turn: tuple[Message, int] | None = None
        self.scanned = 0
        self.tickets: dict[str, Ticket] = EMPTY
        self.commands: dict[int, ThreadCommand] = EMPTY
        self.touches = touches
        self.blobs: dict[str, int] = EMPTY
        self.requests: dict[str, RequestManifest] = {}
        self.texts: dict[str, int] = {}

    @property
    def version(self) -> int:
        """A number that grows with every write."""
        return len(self.commits) + self.touches

    def commit_of_message(self, seq: int) -> int:
        """The number of the commit that brought a message, or would if it was the next one."""
        return bisect_left(self.commits, seq, key=_messages_after) + 1

    def commit_of_event(self, seq: int) -> int:
        """The number of the commit that brought an event, or would if it was the next one."""
        return bisect_left(self.commits, seq, key=_events_after) + 1

    def use_blobs(self, ids: Iterable[str]) -> None:
        """Note that the latest commit uses blobs."""
        self.blobs = self.blobs or {}
        for id in ids:
            self.blobs.setdefault(id, len(self.commits))


class RunRow:
    """One run: its record, its number among all runs, its first commit, and its state.

    `status` is the status at the last change of the thread's `active_at`.
    """

    __slots__ = ("first_commit", "number", "record", "state", "status")

    def __init__(self, record: RunRecord, number: int, first_commit: int) -> None:
        self.record = record
        self.number = number
        self.first_commit = first_commit
        self.state: State = {}
        self.status: RunStatus | None = None


_numbers = count(1)
"""Each memory store of a process owns its threads under a name of its own, as files do."""


class Tables:
    """All data of the store; the operations are in the modules beside this one.

    - `_activity`: by scope, the threads in the order of lists; `_names`: all their ids, sorted.
    - `_children`: the child threads by parent.
    - `_owners`: the fence of each owned thread; `_forsaken`: the dead last owner of a thread.
    - `_keys`: by thread, the keys of commands that are accepted once.
    - `_outboxes`: the threads with unsent messages.
    - `_submitted`: by thread, the keys of submissions; `_deleted`: when a thread was deleted.
    - `_texts`: the texts of kept requests; `_text_uses`: how many threads use each.

    Epochs, command ids and versions are never used twice, even if a thread is deleted and created
    again: the first two are counted for the whole store, versions continue at `_first_version`.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.owner = f"memory-{next(_numbers)}"
        self.profiles = MemoryProfiles(clock)
        self._clock = clock
        self._threads: dict[str, ThreadRow] = {}
        self._activity: defaultdict[str, Ordered[tuple[int, str]]] = defaultdict(Ordered)
        self._names: Ordered[str] = Ordered()
        self._children: dict[str, dict[str, ThreadRow]] = {}
        self._runs: dict[str, RunRow] = {}
        self._commands: dict[int, ThreadCommand] = {}
        self._keys: dict[str, dict[str, int]] = {}
        self._outboxes: set[str] = set()
        self._submitted: dict[str, dict[str, StoredKey]] = {}
        self._deleted: dict[str, int] = {}
        self._texts: dict[str, bytes] = {}
        self._text_uses: Counter[str] = Counter()
        self._owners: dict[str, Fence] = {}
        self._forsaken: dict[str, str] = {}
        self._runs_made = self._commands_sent = self._epoch = 0
        self._first_version = 0
        self._changes = Waiters()
        self._sent = Waiters()

    def _add_thread(self, thread: ThreadRow) -> None:
        self._threads[thread.id] = thread
        self._names.add(thread.id)
        self._activity[thread.place.scope].add((-thread.active_at, thread.id))

    def _remove_thread(self, thread: ThreadRow) -> None:
        self._set_parent(thread, None)
        self._activity[thread.place.scope].remove((-thread.active_at, thread.id))
        self._names.remove(thread.id)
        del self._threads[thread.id]

    def _move_thread(self, thread: ThreadRow, at_ms: int) -> None:
        """Set `active_at`, which orders lists: a run started, paused or ended."""
        if thread.active_at != at_ms:
            listed = self._activity[thread.place.scope]
            listed.remove((-thread.active_at, thread.id))
            thread.active_at = at_ms
            listed.add((-at_ms, thread.id))

    def _set_parent(self, thread: ThreadRow, parent_id: str | None) -> None:
        if thread.parent_thread_id is not None:
            siblings = self._children.get(thread.parent_thread_id, {})
            siblings.pop(thread.id, None)
            if not siblings:
                self._children.pop(thread.parent_thread_id, None)
        thread.parent_thread_id = parent_id
        if parent_id is not None:
            self._children.setdefault(parent_id, {})[thread.id] = thread

    def _descendants(self, thread_id: str) -> list[ThreadRow]:
        """All threads beneath one, on every level."""
        found = list(self._children.get(thread_id, {}).values())
        for row in found:  # the list grows while it is walked
            found.extend(self._children.get(row.id, {}).values())
        return found

    def _ancestors(self, thread: ThreadRow) -> Iterator[ThreadRow]:
        """A thread, its parent, and so on."""
        above: ThreadRow | None = thread
        while above is not None:
            yield above
            above = self._threads.get(above.parent_thread_id or "")

    def _touch(self, thread: ThreadRow) -> None:
        """Count a write that is no commit, and wake the tasks that wait for one."""
        thread.touches += 1
        self._changes.wake(thread.id)

    def _add_command(self, thread: ThreadRow, command: ThreadCommand) -> int:
        """Store a command, wake the tasks that wait for one, and return its id.

        Returns 0 if the command cancels a run that is finished, or if its key was used by a command
        that is done; for a key that is still pending, the id of that command.
        """
        if command.kind is CommandKind.CANCEL and command.run_id is not None:
            run = self._runs.get(command.run_id)
            record = run.record if run is not None else None
            if record is not None and (record.thread_id, record.status) == (thread.id, _DONE):
                return 0
            self._withdraw(thread, command.run_id, command.at_ms)
        if command.key is not None:
            known = self._keys.setdefault(thread.id, {}).setdefault(
                command.key, self._commands_sent + 1
            )
            if known <= self._commands_sent:
                return known if known in self._commands else 0
        self._commands_sent += 1
        number = self._commands_sent
        kept = msgspec.structs.replace(command, id=number)
        thread.commands = thread.commands or {}
        thread.commands[number] = self._commands[number] = kept
        self._touch(thread)
        self._sent.wake(ANY_THREAD)
        return number

    def _withdraw(self, thread: ThreadRow, run_id: str, at_ms: int) -> None:
        """End a submitted run that has not started, unless the thread's owner may be starting
        it. The cancel stays until the run's events are in the log."""
        run = self._runs.get(run_id)
        asked = [c.id for c in thread.commands.values() if c.submission and c.run_id == run_id]
        if run is None or not asked:
            return
        if not can_withdraw(self._owners.get(thread.id), thread.open_run_id):
            return
        run.record = cancel_submitted_run(run.record, at_ms)
        self._drop_commands(thread, asked)
        self._touch(thread)

    def _drop_commands(self, thread: ThreadRow, ids: Iterable[int]) -> None:
        for number in ids:
            if number in thread.commands:
                del thread.commands[number], self._commands[number]


def to_persisted_state(raw: State) -> PersistedState:
    return PersistedState(extensions={name: loads(value) for name, value in sorted(raw.items())})
