"""Working out which messages of a log a remote run has read and written."""

from __future__ import annotations

from collections.abc import Sequence

from awaken.core.identity import RunIdentity
from awaken.core.message import Message, Role
from awaken.core.run import (
    MessageSeqRange,
    RunMessageInput,
    RunMessageOutput,
    RunRecord,
)


def materialize_remote_message_log(
    messages: Sequence[Message],
    previous: RunRecord | None,
    identity: RunIdentity,
    steps: int,
    input_message_count: int,
    *,
    base_seq: int = 0,
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """Mark the messages that the run produced. Returns all messages, and the ranges of the log that
    the run read and wrote.

    `messages` is the part of the log after `base_seq`; the `previous` record knows the part before.
    Messages that other runs produced are not marked.
    """
    source = (previous.input if previous is not None else None) or input_of(
        identity.thread_id, input_message_count
    )
    start = (
        source.range.to_seq + 1
        if source is not None and source.range is not None
        else input_message_count + 1
    )
    step_index = steps - 1 if steps > 0 else None
    before = previous.output if previous is not None else None
    marked: list[Message] = []
    seqs: list[int] = []
    ids: list[str] = []
    for seq, message in enumerate(messages, start=base_seq + 1):
        mine = message.produced_by_run_id() in (None, identity.run_id)
        if seq >= start and mine and message.role in (Role.ASSISTANT, Role.TOOL):
            message = message.mark_produced_by(identity.run_id, step_index)
            seqs.append(seq)
            ids.extend([message.id] if message.id is not None else [])
        marked.append(message)
    if not seqs:
        return tuple(marked), source, before
    low = seqs[0]
    if base_seq and before is not None and before.range is not None:
        low, ids = min(low, before.range.from_seq), [*before.message_ids, *ids]
    output = RunMessageOutput(
        thread_id=identity.thread_id,
        range=MessageSeqRange.new(low, seqs[-1]),
        message_ids=tuple(ids),
    )
    return tuple(marked), source, output


def input_of(thread_id: str, count: int) -> RunMessageInput | None:
    """The whole log of `count` messages as a run's input; `None` if it is empty."""
    if count == 0:
        return None
    return RunMessageInput(thread_id=thread_id, range=MessageSeqRange.new(1, count))
