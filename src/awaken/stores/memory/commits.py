"""Commits and claims in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commands import OUTBOX_KEY, CommandKind, ThreadCommand
from awaken.core.store.commits import (
    NEVER_LOST,
    Committed,
    Fence,
    Lease,
    StreamLogEntry,
    ThreadCommit,
)
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import metadata_of, project_run
from awaken.core.thread_ids import parse_family
from awaken.errors import InvalidRecord, StaleFence, ThreadOwned, VersionConflict
from awaken.stores.memory.history import compute_rewind
from awaken.stores.memory.tables import CommitRow, Rewind, RunRow, State, ThreadRow
from awaken.stores.memory.threads import MemoryRequests
from awaken.stores.rules import check_rewind, check_send, has_pending, set_canceller

_replace = msgspec.structs.replace
# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_RUNNING = RunStatus.RUNNING
_DONE = RunStatus.DONE


class MemoryWrites(MemoryRequests):
    """The commits part of the memory store. No method ever waits."""

    immediate = True
    lease: Lease = NEVER_LOST

    # -- commits ------------------------------------------------------------------------------

    async def commit(self, commit: ThreadCommit) -> Committed:
        return MemoryWrites.commit_now(self, commit)

    def __init_subclass__(cls) -> None:
        # A class with a `commit` of its own, or of another base, has no way past it.
        if cls.commit is not MemoryWrites.commit and cls.commit_now is MemoryWrites.commit_now:
            cls.commit_now = None  # type: ignore[assignment]

    def commit_now(self, commit: ThreadCommit) -> Committed:
        """The same as `commit`, as a plain function; see `commits_at_once`."""
        (thread, run), record, at_ms = self._check_commit(commit), commit.run, commit.at_ms
        events, messages, lines = thread.events, thread.messages, thread.call_lines
        first_seq = len(events) + 1
        messages += commit.messages
        events += commit.events
        lines += commit.calls
        run_id = None if record is None else record.run_id
        thread.commits.append(CommitRow(len(messages), len(events), len(lines), at_ms, run_id))
        thread.updated_at = at_ms
        if commit.thread_state:
            self._change_state(thread, commit.thread_state)
        if record is not None:
            thread.latest_run_id = run_id
            if run is None:
                run = self._new_run(thread, record)
            run.record = record
            if commit.run_state:
                run.state.update(commit.run_state)
            if not (record.status is _RUNNING is run.status) or thread.active_run_id != run_id:
                self._update_head(thread, run, at_ms)
        if commit.release:
            self._owners.pop(thread.id, None)
        if commit.tickets or commit.acks or commit.sends:
            self._write_tickets_and_commands(thread, commit)
        if run is not None and run.status is _DONE and (thread.tickets or thread.commands):
            self._finish_run(thread, run)
        if commit.requests or commit.texts or commit.blobs:
            self._store_requests(thread, commit)
        if commit.ends_stream:
            thread.stream_log = ()
        if self._changes.waiting:
            self._changes.wake(thread.id)
        return Committed(len(messages), first_seq)

    def _rewind(self, thread: ThreadRow, to: int) -> None:
        """Take the messages behind position `to` out of view, with the next commit."""
        left, number = compute_rewind(thread, to), len(thread.commits) + 1
        rewind = Rewind(number, to, len(thread.messages), dict(left.state))
        thread.rewinds = (*thread.rewinds, rewind)
        thread.hidden, thread.turn, thread.state = left.hidden, left.turn, left.state
        thread.scanned = len(thread.messages)

    def _change_state(self, thread: ThreadRow, state: State) -> None:
        thread.state.update(state)
        thread.state_changes.append((len(thread.commits), state))
        if OUTBOX_KEY in state:
            is_full = has_pending(state[OUTBOX_KEY])
            (self._outboxes.add if is_full else self._outboxes.discard)(thread.id)

    def _check_commit(self, commit: ThreadCommit) -> tuple[ThreadRow, RunRow | None]:
        """The thread and the run to write, once the commit has passed every check: the thread is
        made, or rewound. The run is `None` if it is new."""
        thread_id, fence, record = commit.thread_id, commit.fence, commit.run
        held, thread = self._owners.get(thread_id), self._threads.get(thread_id)
        if fence is not held and fence != held:
            raise self._stale_fence(thread_id, fence, held)
        actual = len(thread.messages) if thread is not None else 0
        if commit.expected_length != actual:
            raise VersionConflict(thread_id, expected=commit.expected_length, actual=actual)
        run: RunRow | None = None
        if record is not None:
            run = self._runs.get(record.run_id)
            if record.thread_id != thread_id or (
                run is not None and run.record.thread_id != thread_id
            ):
                raise InvalidRecord(f"run {record.run_id!r} belongs to another thread")
        elif commit.run_state or commit.calls:
            raise InvalidRecord("a commit with run state or calls also needs the run's record")
        messages = commit.messages
        if messages and (len(messages) > 1 or not messages[0].id):
            _check_ids(messages)
        is_rewound = commit.rewinds_to is not None
        if commit.tickets or commit.sends or is_rewound:
            _check_parts(commit)
        if thread is None:
            thread = self._new_thread(commit)
        elif commit.parent_thread_id is not None and thread.parent_thread_id is None:
            self._set_parent(thread, self._check_parent(commit))
        if is_rewound:
            self._rewind(thread, commit.rewinds_to or 0)
        return thread, run

    def _new_thread(self, commit: ThreadCommit) -> ThreadRow:
        parent_id = self._check_parent(commit)
        place = (
            parse_family(commit.thread_id) if parent_id is None else self._threads[parent_id].place
        )
        thread = ThreadRow(commit.thread_id, place, commit.at_ms, self._first_version)
        thread.metadata = metadata_of(commit.run)
        self._add_thread(thread)
        self._set_parent(thread, parent_id)
        return thread

    def _check_parent(self, commit: ThreadCommit) -> str | None:
        """The new parent of a thread, checked: it exists, and is not a descendant of the thread."""
        ancestor = commit.parent_thread_id
        while ancestor is not None:
            if ancestor == commit.thread_id:
                raise InvalidRecord(f"thread {ancestor!r} cannot be its own ancestor")
            row = self._threads.get(ancestor)
            if row is None:
                raise InvalidRecord(f"parent thread not found: {ancestor}")
            ancestor = row.parent_thread_id
        return commit.parent_thread_id

    def _new_run(self, thread: ThreadRow, record: RunRecord) -> RunRow:
        self._runs_made += 1
        run = RunRow(record, self._runs_made, len(thread.commits))
        self._runs[record.run_id] = run
        return run

    def _update_head(self, thread: ThreadRow, run: RunRow, at_ms: int) -> None:
        """Update the thread's head when a run starts, pauses or ends."""
        record = run.record
        if run.status is not record.status:
            run.status = record.status
            self._move_thread(thread, at_ms)
        thread.open_run_id, thread.active_run_id = project_run(
            record, thread.open_run_id, thread.active_run_id
        )

    def _write_tickets_and_commands(self, thread: ThreadRow, commit: ThreadCommit) -> None:
        """Write tickets and commands: a command that is sent finds the run and the owner that the
        commit leaves."""
        self._write_tickets(thread, commit.tickets)
        self._drop_commands(thread, commit.acks)
        self._send(commit.sends)

    def _finish_run(self, thread: ThreadRow, run: RunRow) -> None:
        """Drop the pending cancels of a finished run, and close its open tickets."""
        run_id = run.record.run_id
        cancels = [
            command
            for command in thread.commands.values()
            if command.kind is CommandKind.CANCEL and command.run_id in (None, run_id)
        ]
        run.record = set_canceller(run.record, cancels)
        self._drop_commands(thread, [command.id for command in cancels])
        for key, ticket in thread.tickets.items():
            if ticket.run_id == run_id and ticket.status is TicketStatus.OPEN:
                thread.tickets[key] = _replace(ticket, status=TicketStatus.CLOSED)

    def _write_tickets(self, thread: ThreadRow, tickets: tuple[Ticket, ...]) -> None:
        if tickets:
            thread.tickets = thread.tickets or {}
        for ticket in tickets:
            known = thread.tickets.get(ticket.key)
            if known is None or known.status is not TicketStatus.ANSWERED:
                thread.tickets[ticket.key] = ticket

    def _send(self, commands: tuple[ThreadCommand, ...]) -> None:
        for command in commands:
            target = self._threads.get(command.thread_id)
            if target is not None:
                self._add_command(target, command)

    def _stale_fence(self, thread_id: str, fence: Fence | None, held: Fence | None) -> StaleFence:
        return StaleFence(
            thread_id,
            epoch=fence.epoch if fence else 0,
            current=held.epoch if held else self._epoch,
        )

    async def find_commit(self, commit: ThreadCommit) -> Committed | None:
        if commit.run is None:
            raise InvalidRecord("a commit without a run cannot be found again: read its thread")
        run = self._runs.get(commit.run.run_id)
        if run is None or run.record.revision != commit.run.revision:
            return None
        thread = self._threads[run.record.thread_id]
        return Committed(len(thread.messages), len(thread.events) - len(commit.events) + 1)

    # -- owners -------------------------------------------------------------------------------

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        held = self._owners.get(thread_id)
        if held is not None:
            raise ThreadOwned(thread_id, held.owner)
        self._epoch += 1
        dead = self._forsaken.pop(thread_id, None)
        fence = Fence(thread_id=thread_id, owner=self.owner, epoch=self._epoch, taken_from=dead)
        self._owners[thread_id] = fence
        return fence

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        held = self._owners.get(fence.thread_id)
        if fence != held:
            raise self._stale_fence(fence.thread_id, fence, held)
        thread = self._threads.get(fence.thread_id)
        if thread is None:
            return  # there is no thread before its first commit
        kept = () if entry.number == 1 else thread.stream_log
        thread.stream_log = (*kept, entry)

    async def release(self, fence: Fence) -> None:
        if self._owners.get(fence.thread_id) == fence:
            del self._owners[fence.thread_id]
            self._changes.wake(fence.thread_id)

    async def list_claims(self) -> Sequence[Fence]:
        return list(self._owners.values())

    async def wait_released(self, thread_id: str) -> None:
        while thread_id in self._owners:
            await self._changes.wait(thread_id)

    def forsake(self) -> None:
        """Simulate the death of all owners: their runs count as interrupted and can be claimed."""
        self._forsaken.update({thread_id: held.owner for thread_id, held in self._owners.items()})
        self._owners.clear()
        for thread_id in self._forsaken:
            self._changes.wake(thread_id)


def _check_ids(messages: tuple[Message, ...]) -> None:
    ids = {message.id for message in messages}
    if None in ids or "" in ids:
        raise InvalidRecord("a message has no id: give every message one")
    if len(ids) < len(messages):
        raise InvalidRecord(f"two messages of a commit have the same id: {sorted(map(str, ids))}")


def _check_parts(commit: ThreadCommit) -> None:
    for ticket in commit.tickets:
        if ticket.thread_id != commit.thread_id:
            raise InvalidRecord(f"ticket {ticket.key!r} belongs to another thread")
    for command in commit.sends:
        check_send(command)
    if commit.rewinds_to is not None:
        check_rewind(commit)
