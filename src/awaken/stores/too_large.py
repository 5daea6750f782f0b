"""Naming what is large in a commit that a store refuses."""

from __future__ import annotations

from collections.abc import Iterator

from awaken.codec import dumps
from awaken.core.store.commits import MAX_COMMIT, ThreadCommit
from awaken.errors import CommitTooLarge

_NAMED = 3


def too_large(commit: ThreadCommit, size: int) -> CommitTooLarge:
    """The error for a commit whose row would have `size` bytes: it names the largest parts."""
    parts = sorted(_parts(commit), key=lambda part: part[1], reverse=True)[:_NAMED]
    return CommitTooLarge(commit.thread_id, size=size, limit=MAX_COMMIT, parts=tuple(parts))


def _parts(commit: ThreadCommit) -> Iterator[tuple[str, int]]:
    for message in commit.messages:
        yield f"message {message.id!r} ({message.role.value})", len(dumps(message))
    for state in (commit.run_state, commit.thread_state):
        for key, value in state.items():
            yield f"state key {key!r}", len(bytes(value))
    for envelope in commit.events:
        event = envelope.event
        yield f"event {type(event).__struct_config__.tag!r}", len(dumps(event))
    for call in commit.calls:
        yield f"call {call.key!r} of tool {call.tool_name!r}", len(dumps(call))
