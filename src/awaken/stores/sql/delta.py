"""The delta of a commit, encoded for its row, and decoded in the parts that readers need.

Each part has its own type, so that reading messages does not decode events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import msgspec

from awaken.codec import dumps, loads
from awaken.core.event import AgentEvent, RunEvent
from awaken.core.message import Message, Role
from awaken.core.request_manifest import RequestManifest
from awaken.core.run import RunMessageOutput, RunRecord
from awaken.core.store.commits import MAX_COMMIT, CallEntry, ThreadCommit
from awaken.core.store.threads import CommitView
from awaken.core.unreadable import RowKind
from awaken.core.value import Value
from awaken.errors import InvalidRecord, Serialization, UnreadableValue, describe
from awaken.stores.rules import check_rewind, check_send, too_large
from awaken.stores.sql.cursors import UNREADABLE, UnreadableCommit

T = TypeVar("T")
_replace = msgspec.structs.replace


class StoredEvent(Value, frozen=True, kw_only=True):
    """An event without the values its row has: thread, `seq`, and the run if it is the same."""

    at_ms: int
    run_id: str | None = None
    parent_run_id: str | None = None
    event: AgentEvent


class Delta(Value, frozen=True, kw_only=True):
    """The content of a commit's row."""

    run: str | None = None
    parent_run: str | None = None
    messages: tuple[Message, ...] = ()
    run_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    thread_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    calls: tuple[CallEntry, ...] = ()
    events: tuple[StoredEvent, ...] = ()
    rewinds_to: int | None = None
    requests: tuple[RequestManifest, ...] = ()


class Packed(msgspec.Struct, frozen=True, gc=False):
    """A commit that passed the checks that need no database, with its rows encoded."""

    commit: ThreadCommit
    delta: bytes
    record: bytes | None
    tickets: tuple[bytes, ...]
    sends: tuple[bytes, ...]


def pack(commit: ThreadCommit) -> Packed:
    """Check and encode a commit.

    Raises:
        InvalidRecord: the commit breaks a rule that needs no database to check.
        CommitTooLarge: the delta would exceed `MAX_COMMIT`.
        Serialization: a value in it cannot be encoded.
        UnreadableValue: it could not be read back; whatever made it has passed all other checks.
    """
    run = commit.run
    what = f"commit to thread {commit.thread_id!r}"
    try:
        _check(commit, run)
    except (AttributeError, TypeError) as error:  # a part is not what its type says
        raise UnreadableValue(what, error) from error
    delta = Delta(
        run=run.run_id if run else None,
        parent_run=run.parent_run_id if run else None,
        messages=commit.messages,
        run_state=commit.run_state,
        thread_state=commit.thread_state,
        calls=commit.calls,
        events=tuple([_to_stored_event(event, run) for event in commit.events]),
        rewinds_to=commit.rewinds_to,
        requests=commit.requests,
    )
    with writable(what):
        row = dumps(delta)
    if len(row) > MAX_COMMIT:
        raise too_large(commit, len(row))
    _read_back(row, Delta, what)
    return Packed(
        commit,
        row,
        encode_row(scalars(run), what) if run else None,
        tuple([encode_row(ticket, what) for ticket in commit.tickets]),
        tuple([encode_row(command, what) for command in commit.sends]),
    )


def encode_row(value: object, what: str, type_: Any = None) -> bytes:
    """A value as a row has it. The row was read once, as `type_` or as the value's own type: one
    row that no reader can decode would spoil every list that it is in.

    Raises:
        Serialization: the value cannot be encoded.
        UnreadableValue: it could not be read back.
    """
    with writable(what):
        row = dumps(value)
    _read_back(row, type(value) if type_ is None else type_, what)
    return row


def _read_back(row: bytes, type_: Any, what: str) -> None:
    try:
        loads(row, type_)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableValue(what, error) from error


@contextmanager
def writable(what: str) -> Iterator[None]:
    """Name `what` in the error of a block that encodes values.

    Raises:
        Serialization: a value cannot be encoded as JSON.
    """
    try:
        yield
    except (TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise Serialization(f"{what}: {describe(error)}") from error


def _check(commit: ThreadCommit, run: RunRecord | None) -> None:
    ids = [message.id for message in commit.messages if message.id and message.id.strip()]
    if len(ids) != len(commit.messages):
        raise InvalidRecord("a message has no id: give every message one")
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise InvalidRecord(f"two messages of a commit have the same id: {twice!r}")
    if type(commit.at_ms) is not int:
        raise UnreadableValue(f"commit to thread {commit.thread_id!r}", f"its time {commit.at_ms}")
    if run is None and (commit.run_state or commit.calls):
        raise InvalidRecord("a commit with run state or calls also needs the run's record")
    if run is not None and run.thread_id != commit.thread_id:
        raise InvalidRecord(
            f"run {run.run_id!r} belongs to thread {run.thread_id!r}, not to {commit.thread_id!r}"
        )
    for ticket in commit.tickets:
        if ticket.thread_id != commit.thread_id:
            raise InvalidRecord(f"ticket {ticket.key!r} belongs to thread {ticket.thread_id!r}")
    for command in commit.sends:
        check_send(command)
    if commit.rewinds_to is not None:
        check_rewind(commit)


def scalars(run: RunRecord) -> RunRecord:
    """The record without the message ids and state, which are read from the commits."""
    output = run.output
    if output is not None and output.message_ids:
        output = RunMessageOutput(thread_id=output.thread_id, range=output.range)
    if run.state is None and output is run.output:
        return run
    return _replace(run, state=None, output=output)


def _to_stored_event(event: RunEvent, run: RunRecord | None) -> StoredEvent:
    if run is not None and (event.run_id, event.parent_run_id) == (run.run_id, run.parent_run_id):
        return StoredEvent(at_ms=event.at_ms, event=event.event)
    return StoredEvent(
        at_ms=event.at_ms,
        run_id=event.run_id,
        parent_run_id=event.parent_run_id,
        event=event.event,
    )


# -- parts ------------------------------------------------------------------------------------


class _MessagesPart(Value, frozen=True):
    messages: tuple[Message, ...] = ()


class _EventsPart(Value, frozen=True):
    run: str | None = None
    parent_run: str | None = None
    events: tuple[StoredEvent, ...] = ()


class _DetailsPart(Value, frozen=True):
    """The parts of a commit that a `CommitView` has besides messages and events."""

    run: str | None = None
    thread_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    rewinds_to: int | None = None
    calls: tuple[CallEntry, ...] = ()


class _CallsPart(Value, frozen=True):
    calls: tuple[CallEntry, ...] = ()


class _RequestsPart(Value, frozen=True):
    messages: tuple[Asking, ...] = ()
    requests: tuple[RequestManifest, ...] = ()


class Asking(Value, frozen=True):
    """The part of a message that shows whether it has tool calls."""

    id: str
    role: Role
    tool_calls: tuple[msgspec.Raw, ...] | None = None


class Changes(Value, frozen=True):
    """The state changes and ledger entries of a commit."""

    messages: tuple[Asking, ...] = ()
    run_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    thread_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    calls: tuple[CallEntry, ...] = ()


class StoredCommit(Protocol):
    """The row of a commit, as a store reads it. `thread` is the primary key of its thread."""

    @property
    def thread(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def first_seq(self) -> int: ...
    @property
    def first_event(self) -> int: ...
    @property
    def at_ms(self) -> int: ...
    @property
    def run(self) -> int | None: ...
    @property
    def delta(self) -> bytes: ...


def _part(row: StoredCommit, type_: type[T]) -> T:
    """
    Raises:
        UnreadableCommit: the row cannot be decoded.
    """
    try:
        return loads(row.delta, type_)
    except UNREADABLE as error:
        raise UnreadableCommit(RowKind.COMMIT, row.thread, row.position, error) from error


def messages_in(row: StoredCommit) -> tuple[Message, ...]:
    return _part(row, _MessagesPart).messages


def requests_in(row: StoredCommit) -> tuple[Sequence[str], tuple[RequestManifest, ...]]:
    """The ids of a row's messages, and the requests kept with them."""
    part = _part(row, _RequestsPart)
    return [message.id for message in part.messages], part.requests


def calls_in(row: StoredCommit) -> tuple[CallEntry, ...]:
    return _part(row, _CallsPart).calls


def changes_in(row: StoredCommit) -> Changes:
    return _part(row, Changes)


def messages_within(row: StoredCommit, after: int, stop: int) -> Sequence[Message]:
    """The messages of a row that have the numbers `after` + 1 to `stop` in the thread."""
    begin = row.first_seq - 1
    return messages_in(row)[max(after - begin, 0) : stop - begin]


def find_message(row: StoredCommit, message_id: str) -> Iterator[int]:
    """The numbers of the row's messages with this id, from the last to the first."""
    messages = messages_in(row)
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == message_id:
            yield row.first_seq + index


def events_within(row: StoredCommit, thread_id: str, after: int, stop: int) -> list[RunEvent]:
    """The events of a row that have the numbers `after` + 1 to `stop` in the thread."""
    begin = row.first_event - 1
    return events_in(row, thread_id)[max(after - begin, 0) : stop - begin]


def to_commit_view(row: StoredCommit, thread_id: str) -> CommitView:
    """The commit as readers see it."""
    details = _part(row, _DetailsPart)
    return CommitView(
        position=row.position,
        first_seq=row.first_seq,
        first_event=row.first_event,
        at_ms=row.at_ms,
        run_id=details.run if row.run is not None else None,
        messages=messages_in(row),
        events=tuple(events_in(row, thread_id)),
        rewinds_to=details.rewinds_to,
        changed_keys=tuple(sorted(details.thread_state)),
        calls=details.calls,
    )


def events_in(row: StoredCommit, thread_id: str) -> list[RunEvent]:
    """The events of a row, with thread, run and `seq`."""
    part = _part(row, _EventsPart)
    return [
        RunEvent(
            thread_id=thread_id,
            run_id=stored.run_id if stored.run_id is not None else part.run or "",
            parent_run_id=(stored.parent_run_id if stored.run_id is not None else part.parent_run),
            at_ms=stored.at_ms,
            seq=seq,
            event=stored.event,
        )
        for seq, stored in enumerate(part.events, start=row.first_event)
    ]
