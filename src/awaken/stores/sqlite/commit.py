"""Writing a commit to the SQLite store, and claiming a thread.

All checks come before the first write, so that one commit of a transaction can fail alone.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from awaken.codec import dumps
from awaken.core.lifecycle import CancelledEnd, RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.commands import OUTBOX_KEY
from awaken.core.store.commits import Committed, Fence, ThreadCommit
from awaken.core.thread import NO_METADATA, metadata_of, project_run
from awaken.core.thread_ids import ThreadFamily, parse_family
from awaken.errors import InvalidRecord, StaleFence, ThreadOwned, VersionConflict
from awaken.stores.rules import set_canceller
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableCommit, readable_commands
from awaken.stores.sql.delta import Packed, pack, scalars
from awaken.stores.sql.fold import SNAPSHOT_EVERY
from awaken.stores.sqlite.commands import note_outbox, send_if_there, write_ticket
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.requests import add_texts
from awaken.stores.sqlite.rows import (
    commit_id,
    commits,
    delete_stream_log,
    find_run,
    write_metadata,
)
from awaken.stores.sqlite.state import save_snapshot, write_rewind

_DONE = RunStatus.DONE


class _Head(NamedTuple):
    """The row of `HEAD_AND_RUN`. A missing thread or run has `None` in all its fields."""

    pk: int | None
    parent: str | None
    created_at: int | None
    length: int | None
    events: int | None
    position: int | None
    snapshot: int | None
    epoch: int | None
    owner: str | None
    open_run: str | None
    active_run: str | None
    latest_run: str | None
    run: int | None
    run_thread: int | None
    run_status: str | None
    run_agent: str | None
    run_parent: str | None
    run_kind: str | None
    scope: str | None


def write_commit(db: sqlite3.Connection, packed: Packed) -> Committed:
    """Check a commit against the head of its thread, then write it."""
    commit, run = packed.commit, packed.commit.run
    names = (commit.thread_id, run.run_id if run else None)
    head = _Head._make(db.execute(queries.HEAD_AND_RUN, names).fetchone())
    adopted = _check(db, commit, head)
    thread = head.pk
    if thread is None:
        added = db.execute(queries.ADD_THREAD, (commit.thread_id, commit.at_ms, commit.at_ms))
        thread = added.lastrowid or 0
    position = (head.position or 0) + 1
    scope = head.scope or ""
    if position == 1:
        place = _find_scope(db, commit)
        scope = place.scope
        db.execute(queries.PLACE_THREAD, (adopted, *place, thread))
        if (said := metadata_of(run)) is not NO_METADATA:
            write_metadata(db, thread, said, dumps(said))
    elif adopted is not None:
        db.execute(queries.SET_PARENT, (adopted, thread))
    run_pk = _write_run(db, packed, run, head, thread, scope, position) if run else None
    length, events = head.length or 0, head.events or 0
    db.execute(
        queries.ADD_COMMIT,
        (
            commit_id(thread, position),
            length + 1,
            events + 1,
            commit.at_ms,
            run_pk,
            packed.delta,
        ),
    )
    snapshot = head.snapshot or 0
    if commit.rewinds_to is not None:
        snapshot = position
        write_rewind(db, thread, position, run_pk, commit.rewinds_to, length)
    elif position - snapshot >= SNAPSHOT_EVERY:
        try:
            save_snapshot(db, thread, position, run_pk)
            snapshot = position
        except UnreadableCommit:
            pass  # readers can do without; they say which commit it is
    _advance_head(db, commit, head, thread, position, snapshot)
    _write_tickets_and_commands(db, packed, thread, scope)
    if commit.ends_stream:
        delete_stream_log(db, thread)
    for blob in commit.blobs:
        db.execute(queries.ADD_BLOB_USE, (thread, blob, position))
    if commit.texts:
        add_texts(db, commit.texts, thread, position)
    if OUTBOX_KEY in commit.thread_state:
        note_outbox(db, thread, commit.thread_state[OUTBOX_KEY])
    return Committed(length + len(commit.messages), events + 1)


def _check(db: sqlite3.Connection, commit: ThreadCommit, head: _Head) -> str | None:
    """Raise if the commit cannot be written; returns the parent the thread gets, or `None`."""
    fence = commit.fence
    if fence is None:
        if head.owner is not None:
            raise StaleFence(commit.thread_id, epoch=0, current=head.epoch or 0)
    elif fence.thread_id != commit.thread_id or (fence.owner, fence.epoch) != (
        head.owner,
        head.epoch,
    ):
        raise StaleFence(commit.thread_id, epoch=fence.epoch, current=head.epoch or 0)
    actual = head.length or 0
    if commit.expected_length != actual:
        raise VersionConflict(commit.thread_id, expected=commit.expected_length, actual=actual)
    if head.run is not None and head.run_thread != head.pk:
        raise InvalidRecord(
            f"run {commit.run.run_id if commit.run else ''!r} belongs to another thread"
        )
    if commit.parent_thread_id is None or head.parent is not None:
        return None
    _check_parent(db, commit.thread_id, commit.parent_thread_id)
    return commit.parent_thread_id


def _check_parent(db: sqlite3.Connection, thread_id: str, parent: str) -> None:
    ancestor: str | None = parent
    passed = {thread_id}
    while ancestor is not None:
        if ancestor in passed:
            raise InvalidRecord(f"thread {ancestor!r} cannot descend from itself")
        passed.add(ancestor)
        row = db.execute(queries.PARENT, (ancestor,)).fetchone()
        if row is None and ancestor == parent:
            raise InvalidRecord(f"parent thread not found: {parent}")
        ancestor = row[0] if row else None


def _find_scope(db: sqlite3.Connection, commit: ThreadCommit) -> ThreadFamily:
    """The scope and family of a thread that this commit creates: those of its parent, if it has
    one."""
    if commit.parent_thread_id is None:
        return parse_family(commit.thread_id)
    return ThreadFamily(*db.execute(queries.PLACE_OF, (commit.parent_thread_id,)).fetchone())


def _write_run(
    db: sqlite3.Connection,
    packed: Packed,
    run: RunRecord,
    head: _Head,
    thread: int,
    scope: str,
    position: int,
) -> int:
    listed = (run.status.value, run.agent_id, run.parent_run_id, run.kind.value)
    written = (position, packed.record, run.updated_at_ms)
    if head.run is None:
        user = run.request.user if run.request is not None else None
        added = db.execute(
            queries.ADD_RUN, (run.run_id, thread, scope, user, position, *written, *listed)
        )
        return added.lastrowid or 0
    if (head.run_status, head.run_agent, head.run_parent, head.run_kind) == listed:
        db.execute(queries.ADVANCE_RUN, (*written, head.run))
    else:
        db.execute(queries.CHANGE_RUN, (*written, *listed, head.run))
    return head.run


def _advance_head(
    db: sqlite3.Connection,
    commit: ThreadCommit,
    head: _Head,
    thread: int,
    position: int,
    snapshot: int,
) -> None:
    """Update the thread's head row."""
    run, latest = commit.run, head.latest_run
    open_run, active_run = head.open_run, head.active_run
    if run is not None:
        latest = run.run_id
        open_run, active_run = project_run(run, open_run, active_run)
    values = (
        # A claim may have made the row; the thread is created by its first commit.
        head.created_at if head.position else commit.at_ms,
        commit.at_ms,
        (head.length or 0) + len(commit.messages),
        (head.events or 0) + len(commit.events),
        position,
        snapshot,
        None if commit.release else head.owner,
        latest,
        open_run,
        active_run,
    )
    # A new run has no row yet, so its status differs too.
    if position == 1 or (run is not None and head.run_status != run.status.value):
        db.execute(queries.MOVE_THREAD, (*values, commit.at_ms, thread))
    else:
        db.execute(queries.ADVANCE_THREAD, (*values, thread))


def _write_tickets_and_commands(
    db: sqlite3.Connection, packed: Packed, thread: int, scope: str
) -> None:
    """Write the commit's tickets and commands; a finished run's cancels and tickets end."""
    commit = packed.commit
    for ticket, record in zip(commit.tickets, packed.tickets, strict=True):
        write_ticket(db, thread, scope, ticket, record)
    for command in commit.acks:
        db.execute(queries.ACKNOWLEDGE, (command, thread))
    for sent, body in zip(commit.sends, packed.sends, strict=True):
        send_if_there(db, sent, body)
    run = commit.run
    if run is not None and run.status is _DONE:
        _write_canceller(db, run, thread)
        db.execute(queries.DROP_CANCELS, (thread, run.run_id))
        db.execute(queries.CLOSE_TICKETS, (thread, run.run_id))


def _write_canceller(db: sqlite3.Connection, run: RunRecord, thread: int) -> None:
    """Write the canceller into the record of a cancelled run."""
    if not isinstance(run.termination_reason, CancelledEnd):
        return
    rows = db.execute(queries.CANCELS, (thread, run.run_id))
    written = set_canceller(run, readable_commands(body for (body,) in rows))
    if written is not run:
        db.execute(queries.SET_RECORD, (dumps(scalars(written)), run.run_id))


def find_committed(db: sqlite3.Connection, commit: ThreadCommit) -> Committed | None:
    """The result of a commit, found by its run's revision, or `None` if it was not written."""
    if commit.run is None:
        raise InvalidRecord("a commit without a run cannot be found again: read its thread")
    run = find_run(db, commit.run.run_id)
    if run is None or run.record().revision != commit.run.revision:
        return None
    (row,) = commits(db, run.thread, run.last_position, run.last_position)
    # Another owner may have written the same revision with other content.
    if row.delta != pack(commit).delta:
        return None
    return Committed(commit.expected_length + len(commit.messages), row.first_event)


# -- ownership --------------------------------------------------------------------------------


def write_claim(db: sqlite3.Connection, owners: Owners, thread_id: str, at_ms: int) -> Fence:
    """Make this store the owner of the thread.

    Raises:
        ThreadOwned: the thread has a live owner, which may be this store itself.
    """
    row = db.execute(queries.OWNER, (thread_id,)).fetchone()
    if row is not None and row[1] is not None and owners.is_alive(row[1]):
        raise ThreadOwned(thread_id, row[1])
    owners.lock()
    if row is None:
        db.execute(queries.ADD_THREAD, (thread_id, at_ms, at_ms))
        row = db.execute(queries.OWNER, (thread_id,)).fetchone()
    pk, dead, epoch, _ = row
    db.execute(queries.TAKE, (owners.me, epoch + 1, pk))
    return Fence(thread_id=thread_id, owner=owners.me, epoch=epoch + 1, taken_from=dead)
