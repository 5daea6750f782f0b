"""The history of a thread in the memory store: its call ledger, its rewinds, and earlier states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from awaken.core.message import Message
from awaken.core.rewind import Hidden, before_hidden, find_hidden_spans, positions_back
from awaken.core.store.commits import CallEntry, call_key
from awaken.errors import RewindRefused
from awaken.stores.memory.tables import State, ThreadRow
from awaken.stores.rules import merge_rewound_state


def calls_since(thread: ThreadRow, commit: int) -> Sequence[CallEntry]:
    """The latest ledger entry of each call since a commit, in the order the calls first appeared.

    The arguments are those of the entry that recorded them.
    """
    ledger: dict[str, CallEntry] = {}
    start = thread.commits[commit - 2].call_lines if commit > 1 else 0
    for entry in thread.call_lines[start:]:
        known = ledger.get(entry.key)
        if known is not None and entry.arguments is None:
            entry = msgspec.structs.replace(entry, arguments=known.arguments)
        ledger[entry.key] = entry
    return list(ledger.values())


def calls_of_last_turn(thread: ThreadRow) -> Sequence[CallEntry]:
    """The ledger entries of the last assistant message with tool calls."""
    _find_turn(thread)
    return calls_of(thread, thread.turn)


def calls_of(thread: ThreadRow, turn: tuple[Message, int] | None) -> Sequence[CallEntry]:
    """The ledger entries of a message with tool calls, which came with the commit beside it."""
    if turn is None:
        return []
    message, commit = turn
    keys = {call_key(message.id or "", index) for index in range(len(message.tool_calls or ()))}
    return [entry for entry in calls_since(thread, commit) if entry.key in keys]


class RewoundView(NamedTuple):
    """A thread as it is after a rewind; `turn` is as in `ThreadRow`."""

    hidden: Hidden
    state: State
    turn: tuple[Message, int] | None
    calls: Sequence[CallEntry]


def compute_rewind(thread: ThreadRow, to: int) -> RewoundView:
    """The thread as it is if the messages behind position `to` go out of view."""
    commits = thread.commit_of_message(before_hidden(thread.hidden, to) + 1) - 1
    state = merge_rewound_state(state_after(thread, commits), thread.state)
    turn = last_turn(thread, commits)
    spans = [(rewind.after, rewind.until) for rewind in thread.rewinds]
    hidden = find_hidden_spans([*spans, (to, len(thread.messages))])
    return RewoundView(hidden, state, turn, calls_of(thread, turn))


def state_after(thread: ThreadRow, commits: int) -> State:
    """The thread's state after so many commits."""
    begin = next((r for r in reversed(thread.rewinds) if r.commit <= commits), None)
    state: State = dict(begin.state) if begin is not None else {}
    first = begin.commit if begin is not None else 0
    for number, changed in thread.state_changes:
        if first <= number <= commits:
            state.update(changed)
    return state


def compute_hidden(thread: ThreadRow, commits: int) -> Hidden:
    """The positions that were out of view after so many commits."""
    made = (rewind for rewind in thread.rewinds if rewind.commit <= commits)
    return find_hidden_spans((rewind.after, rewind.until) for rewind in made)


def find_rewind(thread: ThreadRow | None, thread_id: str, message_id: str) -> int:
    """See `Threads.find_rewind`."""
    messages = thread.messages if thread is not None else []
    hidden = thread.hidden if thread is not None else ()
    for seq in positions_back(hidden, len(messages)):
        if messages[seq - 1].id == message_id:
            return seq - 1
    known = any(message.id == message_id for message in messages)
    raise RewindRefused(thread_id, message_id, is_hidden=known)


def last_turn(thread: ThreadRow, commits: int) -> tuple[Message, int] | None:
    """The last message with tool calls that was in view after so many commits, and its commit."""
    length = thread.commits[commits - 1].messages if commits else 0
    for seq in positions_back(compute_hidden(thread, commits), length):
        message = thread.messages[seq - 1]
        if message.tool_calls:
            return message, thread.commit_of_message(seq)
    return None


def _find_turn(thread: ThreadRow) -> None:
    """Update `thread.turn`. Each message is checked once, by a reader, so commits stay fast."""
    for seq, message in enumerate(thread.messages[thread.scanned :], start=thread.scanned + 1):
        if message.tool_calls:
            thread.turn = message, thread.commit_of_message(seq)
    thread.scanned = len(thread.messages)
