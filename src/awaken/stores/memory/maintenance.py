"""Forking, deleting and pruning threads in the memory store."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import msgspec

from awaken.core.run import PersistedState
from awaken.core.store.commands import KEY_KEPT_MS
from awaken.core.store.threads import ChildStrategy, DeleteResult
from awaken.core.thread import Thread, ThreadPatch, fork_metadata
from awaken.core.thread_ids import parse_family
from awaken.errors import AlreadyExists, InvalidRecord, NotFound, RunOpen, ThreadOwned
from awaken.stores.memory.history import compute_hidden, last_turn, state_after
from awaken.stores.memory.tables import ThreadRow, to_persisted_state
from awaken.stores.memory.threads import MemoryReads
from awaken.stores.rules import change_metadata


class MemoryMaintenance(MemoryReads):
    """The upkeep part of the memory store."""

    async def fork(
        self,
        thread_id: str,
        new_id: str,
        *,
        at: int | None = None,
        at_ms: int,
        by: str | None = None,
    ) -> Thread:
        origin = self._get_thread(thread_id)
        commits = len(origin.commits) if at is None else _commits_until(origin, at)
        if new_id in self._threads or new_id in self._owners:
            raise AlreadyExists("thread", new_id)
        copy = ThreadRow(new_id, parse_family(new_id), at_ms, self._first_version)
        copied = origin.commits[:commits]
        copy.commits = [msgspec.structs.replace(row, run_id=None) for row in copied]
        last = copy.commits[-1]
        copy.state_changes = [change for change in origin.state_changes if change[0] <= commits]
        copy.call_lines = origin.call_lines[: last.call_lines]
        copy.blobs = {blob: first for blob, first in origin.blobs.items() if first <= commits}
        copy.events = origin.events[: last.events]
        copy.messages = origin.messages[: last.messages]
        copy.texts = {text: first for text, first in origin.texts.items() if first <= commits}
        self._text_uses.update(copy.texts.keys())
        answers = (message.id or "" for message in copy.messages)
        copy.requests = {id: origin.requests[id] for id in answers if id in origin.requests}
        copy.rewinds = tuple([rewind for rewind in origin.rewinds if rewind.commit <= commits])
        copy.hidden = compute_hidden(copy, commits)
        copy.turn, copy.scanned = last_turn(copy, commits), len(copy.messages)
        copy.state = state_after(copy, commits)
        copy.metadata = fork_metadata(origin.metadata, by)
        copy.forked_from, copy.forked_at = thread_id, len(copy.events)
        self._add_thread(copy)
        self._touch(copy)
        return self._head(copy)

    async def state_at(self, thread_id: str, seq: int) -> PersistedState:
        thread = self._get_thread(thread_id)
        return to_persisted_state(state_after(thread, _commits_until(thread, seq)))

    async def update_thread(
        self, thread_id: str, patch: ThreadPatch, *, expected_revision: int | None = None
    ) -> Thread:
        thread = self._get_thread(thread_id)
        thread.metadata, _ = change_metadata(thread_id, thread.metadata, patch, expected_revision)
        self._touch(thread)
        return self._head(thread)

    async def delete_thread(
        self,
        thread_id: str,
        *,
        children: ChildStrategy = ChildStrategy.REJECT,
        force: bool = False,
        at_ms: int,
    ) -> DeleteResult:
        thread = self._get_thread(thread_id)
        mine = list(self._children.get(thread_id, {}).values())
        if mine and children is ChildStrategy.REJECT:
            raise InvalidRecord(
                f"thread {thread_id!r} has {len(mine)} child threads: "
                "delete it with children='detach' or 'cascade'"
            )
        doomed = [thread]
        if children is ChildStrategy.CASCADE:
            doomed += self._descendants(thread_id)
        for row in doomed:
            if row.id in self._owners:
                raise ThreadOwned(row.id, self._owners[row.id].owner)
        _, *above = self._ancestors(thread)
        for row in above if force else (*doomed, *above):
            if row.open_run_id is not None:
                raise RunOpen(thread_id, row.open_run_id, of=row.id)
        if children is ChildStrategy.DETACH:
            for child in mine:
                self._set_parent(child, None)
                child.updated_at = at_ms
                self._touch(child)
        return self._delete(doomed, at_ms)

    async def prune(self, *, before_ms: int) -> DeleteResult:
        doomed = {
            thread.id
            for thread in self._threads.values()
            if thread.updated_at < before_ms
            and all(row.open_run_id is None for row in self._ancestors(thread))
            and thread.id not in self._owners
            and not any(command.submission for command in thread.commands.values())
        }
        while kept := [
            name for name in doomed if not self._children.get(name, {}).keys() <= doomed
        ]:
            doomed.difference_update(kept)
        now = self._clock.now_ms()
        freed = self._delete([self._threads[name] for name in doomed], now)
        for name, keys in list(self._submitted.items()):
            young = {key: kept for key, kept in keys.items() if kept.at_ms >= now - KEY_KEPT_MS}
            self._submitted[name] = young
        return freed

    async def forget_scope(self, scope: str, *, at_ms: int) -> DeleteResult:
        doomed = [
            thread
            for thread in self._threads.values()
            if thread.place.scope == scope and thread.id not in self._owners
        ]
        return self._delete(doomed, at_ms)

    async def filter_used_blobs(
        self, ids: Collection[str], *, thread_id: str | None = None
    ) -> frozenset[str]:
        if thread_id is not None:
            thread = self._threads.get(thread_id)
            return frozenset(ids) & thread.blobs.keys() if thread else frozenset()
        used = (thread.blobs.keys() for thread in self._threads.values() if thread.blobs)
        return frozenset(ids).intersection(chain.from_iterable(used))

    def _get_thread(self, thread_id: str) -> ThreadRow:
        thread = self._threads.get(thread_id)
        if thread is None:
            raise NotFound("thread", thread_id)
        return thread

    def _delete(self, threads: Iterable[ThreadRow], at_ms: int) -> DeleteResult:
        """Delete threads and everything that belongs to them; sizes in bytes are not known."""
        doomed = {thread.id: thread for thread in threads}
        oldest = at_ms - KEY_KEPT_MS
        self._deleted = {name: at for name, at in self._deleted.items() if at >= oldest}
        runs = [name for name, run in self._runs.items() if run.record.thread_id in doomed]
        for name in runs:
            del self._runs[name]
            self.profiles.drop_budgets(name)
        for thread in doomed.values():
            self._drop_commands(thread, list(thread.commands))
            self._remove_thread(thread)
            self._keys.pop(thread.id, None)
            self._submitted.pop(thread.id, None)
            self._deleted[thread.id] = at_ms
            self._outboxes.discard(thread.id)
            self._first_version = max(self._first_version, thread.version + 1)
            self._changes.wake(thread.id)
            self._delete_unused_texts(thread)
        return DeleteResult(
            threads=len(doomed),
            runs=len(runs),
            commits=sum(len(thread.commits) for thread in doomed.values()),
        )

    def _delete_unused_texts(self, deleted: ThreadRow) -> None:
        """Delete the texts of a deleted thread that no other thread uses."""
        self._text_uses.subtract(deleted.texts.keys())
        for digest in deleted.texts:
            if not self._text_uses[digest]:
                del self._text_uses[digest], self._texts[digest]


def _commits_until(thread: ThreadRow, at: int) -> int:
    """The number of commits up to the one that holds event `at`."""
    if not 0 < at <= len(thread.events):
        raise NotFound("event", f"{at} of thread {thread.id}")
    return thread.commit_of_event(at)
