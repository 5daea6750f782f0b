"""Submissions, and claiming the next runs, in the memory store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from awaken.core.identity import id_of
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.commands import (
    KEY_KEPT_MS,
    CommandKind,
    Submission,
    SubmitMode,
    Submitted,
    ThreadCommand,
)
from awaken.core.store.commits import Fence
from awaken.core.suspension import TicketStatus
from awaken.core.thread import metadata_of
from awaken.core.thread_ids import parse_family
from awaken.errors import AlreadyExists, ThreadBusy, ThreadDeleted, ThreadOwned
from awaken.stores.memory.commands import MemoryCommands
from awaken.stores.memory.commits import MemoryWrites
from awaken.stores.memory.history import find_rewind
from awaken.stores.memory.tables import CommitRow, RunRow, ThreadRow
from awaken.stores.rules import StoredKey, is_expired, needs_idle_thread, steering_command

_ANSWERS = (CommandKind.DECISIONS, CommandKind.CANCEL)


class MemorySubmissions(MemoryWrites, MemoryCommands):
    """The submissions part of the memory store."""

    async def submit(self, submission: Submission) -> Submitted:
        thread_id, key = submission.thread_id, submission.key
        kept = self._submitted.get(thread_id, {}).get(key) if key is not None else None
        answer = kept.answer(submission) if kept is not None else None
        if answer is not None:
            return answer
        thread = self._threads.get(thread_id)
        oldest = submission.at_ms - KEY_KEPT_MS
        if thread is None and self._deleted.get(thread_id, oldest - 1) >= oldest:
            raise ThreadDeleted(thread_id)
        if submission.run_id in self._runs:
            raise AlreadyExists("run", submission.run_id)
        run_id = await self._take(submission, thread)
        cursor = len(self._threads[thread_id].events)
        if key is not None:
            kept = StoredKey(submission.request_digest, run_id, cursor, submission.at_ms)
            self._submitted.setdefault(thread_id, {})[key] = kept
        return Submitted(thread_id=thread_id, run_id=run_id, cursor=cursor)

    async def _take(self, submission: Submission, thread: ThreadRow | None) -> str:
        """Carry a submission out in the store; returns the id of the run that it leads to."""
        mode, at_ms = submission.mode, submission.at_ms
        if submission.decisions:
            await self.decide(submission.thread_id, submission.decisions, at_ms=at_ms)
            thread = self._threads[submission.thread_id]
            if submission.messages:
                self._add_command(thread, steering_command(submission))
            return thread.open_run_id or thread.latest_run_id or ""
        rewinds_to = None
        if submission.rewind_to is not None:
            rewinds_to = find_rewind(thread, submission.thread_id, submission.rewind_to)
        if needs_idle_thread(submission):
            self._refuse_busy(submission.thread_id, thread)
        if mode is SubmitMode.STEER and thread is not None and thread.open_run_id is not None:
            self._add_command(thread, steering_command(submission))
            return thread.open_run_id
        if mode is SubmitMode.INTERRUPT and thread is not None:
            by = id_of(submission.principal)
            await self.cancel_tree(thread.id, at_ms=at_ms, by=by)
            for run_id in _list_queued(thread):
                self._add_command(
                    thread, ThreadCommand.cancel(thread.id, run_id, at_ms=at_ms, by=by)
                )
        if thread is None:
            place = parse_family(submission.thread_id)
            thread = ThreadRow(submission.thread_id, place, at_ms, self._first_version)
            thread.metadata = metadata_of(submission.record())
            # An empty commit: from now on, the thread exists for readers.
            thread.commits.append(CommitRow(0, 0, 0, at_ms, None))
            self._add_thread(thread)
        self._new_run(thread, submission.record())
        self._add_command(thread, ThreadCommand.run(submission, rewinds_to))
        return submission.run_id

    def _refuse_busy(self, thread_id: str, thread: ThreadRow | None) -> None:
        queued = _list_queued(thread) if thread is not None else []
        run_id = (thread.open_run_id if thread is not None else None) or next(iter(queued), None)
        if run_id is not None:
            raise ThreadBusy(thread_id, run_id)
        if thread_id in self._owners:
            raise ThreadOwned(thread_id, self._owners[thread_id].owner)

    # -- claims -------------------------------------------------------------------------------

    async def claim_next(
        self,
        agents: Collection[str],
        *,
        limit: int,
        at_ms: int,
        overdue_ms: int,
        skip: Collection[str] = (),
    ) -> Sequence[tuple[Fence, RunRecord]]:
        runs = [run for run in self._runs.values() if run.record.status is not RunStatus.DONE]
        claimed: list[tuple[Fence, RunRecord]] = []
        for run in runs:
            record = run.record
            if len(claimed) >= limit:
                break
            if (
                record.agent_id in agents
                and record.run_id not in skip
                and record.thread_id not in self._owners
                and not (record.is_task or record.is_delegated or record.takeovers is not None)
                and self._can_go_on(run, at_ms, overdue_ms)
            ):
                claimed.append((await self.claim(record.thread_id, at_ms=at_ms), record))
        return claimed

    def _can_go_on(self, run: RunRow, at_ms: int, overdue_ms: int) -> bool:
        record = run.record
        if record.status is RunStatus.RUNNING:
            return True
        thread = self._threads[record.thread_id]
        if record.status is RunStatus.CREATED:
            due = next(_due(thread, at_ms), None)
            return thread.open_run_id is None and due == record.run_id
        return any(
            command.kind in _ANSWERS and command.run_id in (None, record.run_id)
            for command in thread.commands.values()
        ) or any(
            ticket.run_id == record.run_id
            and ticket.status is TicketStatus.OPEN
            and is_expired(ticket, overdue_ms)
            for ticket in thread.tickets.values()
        )


def _list_queued(thread: ThreadRow) -> list[str]:
    """The ids of the submitted runs that have not started."""
    return [
        command.submission.run_id
        for command in thread.commands.values()
        if command.submission is not None
    ]


def _due(thread: ThreadRow, at_ms: int) -> Iterator[str | None]:
    return (
        command.run_id
        for command in thread.commands.values()
        if command.submission is not None and command.is_due(at_ms)
    )
