"""A commit as an element of a batch, and the answers of the batch."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from awaken.codec import Json, dumps, dumps_text
from awaken.core.lifecycle import CancelledEnd
from awaken.core.run import RunRecord
from awaken.core.store.commands import OUTBOX_KEY, CommandKind, ThreadCommand
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.thread import NO_METADATA, metadata_of
from awaken.core.thread_ids import ThreadFamily, parse_family
from awaken.errors import InvalidRecord, StaleFence, StoreError, VersionConflict
from awaken.stores.postgres.rows import label_bytes, node_of, user_bytes
from awaken.stores.rules import has_pending
from awaken.stores.sql.delta import Packed

COMMIT = f"SELECT * FROM @commit_v1({', '.join('?' * 27)})"


class Element(NamedTuple):
    """One commit of a batch: its place in each of the arrays that `commit_v1` takes."""

    thread_id: str
    owner: int | None
    epoch: int | None
    length: int
    messages: int
    events: int
    at_ms: int
    delta: bytes
    is_released: bool
    ends_stream: bool
    run_id: str | None
    record: bytes | None
    status: str | None
    agent: str | None
    parent_run: str | None
    kind: str | None
    user: bytes | None
    is_delegated: bool | None
    is_suspect: bool | None
    updated_at_ms: int | None
    is_cancelled: bool
    parent: str | None
    scope: str | None
    family: str | None
    extras: str | None
    rewinds_to: int | None


class CommitAnswer(NamedTuple):
    """A row of the answer of `commit_v1`."""

    outcome: str
    number: int | None
    who: str | None
    first_event: int | None
    thread: int | None
    position: int | None
    since_snapshot: int | None
    has_sent: bool


def element_of(packed: Packed, sends: Sequence[tuple[ThreadCommand, bytes]]) -> Element:
    """`sends` are the commands that the function itself sends."""
    commit, run = packed.commit, packed.commit.run
    fence = commit.fence
    owner = None
    if fence is not None:
        owner = node_of(fence.owner) if fence.thread_id == commit.thread_id else -1
    # Only a thread's first commit needs to know where the thread belongs.
    is_first = commit.expected_length == 0
    place = parse_family(commit.thread_id) if is_first else ThreadFamily("", "")
    return Element(
        *(commit.thread_id, owner, fence.epoch if fence is not None else None),
        *(commit.expected_length, len(commit.messages), len(commit.events), commit.at_ms),
        *(packed.delta, commit.release, commit.ends_stream),
        *_run_columns(run, packed.record),  # type: ignore[call-arg]
        *(commit.parent_thread_id, *place, _extras(packed, sends), commit.rewinds_to),
    )


def _run_columns(run: RunRecord | None, record: bytes | None) -> tuple[Any, ...]:
    if run is None:
        return (None,) * 10 + (False,)
    return (
        *(run.run_id, record, run.status.value, run.agent_id, run.parent_run_id, run.kind.value),
        user_bytes(run.request.user) if run.request is not None else None,
        *(run.is_delegated, run.takeovers is not None, run.updated_at_ms),
        isinstance(run.termination_reason, CancelledEnd),
    )


def _extras(packed: Packed, sends: Sequence[tuple[ThreadCommand, bytes]]) -> str | None:
    """The rare parts of a commit as JSON; `None` if it has none."""
    commit = packed.commit
    extras: dict[str, Json] = {}
    said = metadata_of(commit.run) if commit.expected_length == 0 else NO_METADATA
    if said is not NO_METADATA:
        labels = [bytes for label in said.labels.items() for bytes in label_bytes(*label)]
        user = user_bytes(said.user)
        extras["metadata"] = {
            "user": _base64(user) if user is not None else None,
            "labels": [_base64(label) for label in labels],
            "record": dumps(said).decode(),
        }
    if commit.tickets:
        extras["tickets"] = [
            {
                "key": ticket.key,
                "ticket_id": ticket.ticket_id,
                "call_id": ticket.call_id,
                "run_id": ticket.run_id,
                "status": ticket.status.value,
                "asked_at": ticket.asked_at,
                "expires_at": ticket.expires_at,
                "record": record.decode(),
            }
            for ticket, record in zip(commit.tickets, packed.tickets, strict=True)
        ]
    if commit.acks:
        extras["acks"] = list(commit.acks)
    if sends:
        extras["sends"] = [
            {
                "thread": command.thread_id,
                "run_id": command.run_id,
                "kind": command.kind.value,
                "by": command.by,
                "key": command.key,
                "body": body.decode(),
            }
            for command, body in sends
        ]
    if commit.blobs:
        extras["blobs"] = list(commit.blobs)
    if commit.texts:
        extras["texts"] = [[text.digest, _base64(text.body)] for text in commit.texts]
    if OUTBOX_KEY in commit.thread_state:
        extras["outbox"] = has_pending(commit.thread_state[OUTBOX_KEY])
    return dumps_text(extras) if extras else None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def is_withdrawal(command: ThreadCommand) -> bool:
    """Whether a command may have to end a run that was submitted and has not started."""
    return command.kind is CommandKind.CANCEL and command.run_id is not None


def arguments(elements: Sequence[Element], targets: Sequence[str]) -> list[Any]:
    """The arguments of `commit_v1` for a batch; `targets` are the threads it sends commands to."""
    locked = sorted({element.thread_id for element in elements}.union(targets))
    return [locked, *map(list, zip(*elements, strict=True))]


def to_committed(commit: ThreadCommit, answer: CommitAnswer) -> Committed:
    """
    Raises:
        StoreError: the commit was refused.
    """
    if answer.outcome == "written":
        return Committed(answer.number or 0, answer.first_event or 0)
    raise _refusal(commit, answer)


def _refusal(commit: ThreadCommit, answer: CommitAnswer) -> StoreError:
    number = answer.number or 0
    if answer.outcome == "stale":
        epoch = commit.fence.epoch if commit.fence is not None else 0
        return StaleFence(commit.thread_id, epoch=epoch, current=number)
    if answer.outcome == "length":
        return VersionConflict(commit.thread_id, expected=commit.expected_length, actual=number)
    if answer.outcome == "thread":
        run_id = commit.run.run_id if commit.run is not None else ""
        return InvalidRecord(f"run {run_id!r} belongs to another thread")
    if answer.outcome == "no parent":
        return InvalidRecord(f"parent thread not found: {answer.who}")
    return InvalidRecord(f"thread {answer.who!r} cannot descend from itself")
