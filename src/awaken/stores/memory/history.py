"""The call ledger of a thread, read from the entries of its commits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.core.message import Message
from awaken.core.store.commits import CallEntry, call_key
from awaken.stores.memory.tables import ThreadRow


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


def _find_turn(thread: ThreadRow) -> None:
    """Update `thread.turn`. Each message is checked once, by a reader, so commits stay fast."""
    for seq, message in enumerate(thread.messages[thread.scanned :], start=thread.scanned + 1):
        if message.tool_calls:
            thread.turn = message, thread.commit_of_message(seq)
    thread.scanned = len(thread.messages)
