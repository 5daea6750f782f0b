"""The effective view: the part of the message log that a model may see.

The log is append-only. Unanswered calls, retracted calls and summarised messages are hidden, and
late results are put beside their calls, when the log is read; this module does that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

import msgspec

from awaken.core.message import Message, Role, ToolCall, Visibility
from awaken.core.rewind import Hidden, positions

INTERRUPTED = "[Tool execution was interrupted]"


class MessageSequence(Sequence[Message]):
    """A read-only view of the first messages of a growing list, with a head and a tail around it.

    Making one costs the same for any number of messages.
    """

    __slots__ = ("_head", "_items", "_stop", "_tail")

    def __init__(
        self,
        items: list[Message],
        stop: int | None = None,
        head: tuple[Message, ...] = (),
        tail: tuple[Message, ...] = (),
    ) -> None:
        self._items = items
        self._stop = len(items) if stop is None else stop
        self._head = head
        self._tail = tail

    def __len__(self) -> int:
        return len(self._head) + self._stop + len(self._tail)

    def __iter__(self) -> Iterator[Message]:
        return chain(self._head, islice(self._items, self._stop), self._tail)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        size = len(self)
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(size))]
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError("message index out of range")
        if index < len(self._head):
            return self._head[index]
        index -= len(self._head)
        return self._items[index] if index < self._stop else self._tail[index - self._stop]

    def __repr__(self) -> str:
        return f"MessageView({list(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def parts(
        self,
    ) -> tuple[list[Message], int, tuple[Message, ...], tuple[Message, ...]]:
        """The list itself, how many of its messages are shown, and what is before and after."""
        return self._items, self._stop, self._head, self._tail

    def is_start_of(self, items: list[Message]) -> bool:
        """Whether this shows the first messages of that very list, and no others."""
        return self._items is items and not (self._head or self._tail)

    def around(self, head: tuple[Message, ...], tail: tuple[Message, ...]) -> MessageSequence:
        """The same view with more messages before and after it."""
        return MessageSequence(self._items, self._stop, head + self._head, self._tail + tail)

    def with_inserted(self, at: int, messages: tuple[Message, ...]) -> MessageSequence:
        """The same view with messages inserted; this is cheap within the head, else it copies."""
        if at <= len(self._head):
            head = (*self._head[:at], *messages, *self._head[at:])
            return MessageSequence(self._items, self._stop, head, self._tail)
        return MessageSequence([*self[:at], *messages, *self[at:]])


class _Turn:
    """An assistant message with its tool calls and their results."""

    __slots__ = ("calls", "message", "results")

    def __init__(self, message: Message, calls: tuple[ToolCall, ...]) -> None:
        self.message = message
        self.calls = calls
        self.results: list[Message | None] = [None] * len(calls)

    def add_result(self, result: Message) -> None:
        """Give `result` to the first call with its id that has none, else replace one."""
        place = 0
        for index, call in enumerate(self.calls):
            if call.id == result.tool_call_id:
                place = index
                if self.results[index] is None:
                    break
        self.results[place] = result


def effective_view(
    log: Iterable[Message],
    open_calls: Collection[str] = (),
    *,
    skipped: int = 0,
    hidden: Hidden = (),
) -> list[Message]:
    """The messages a model may see, in order; `log` is without its first `skipped` messages, and
    without those that are `hidden` because the thread was rewound.

    - Results follow their assistant message, in the order of the calls, however late they came.
    - A call without a result is hidden, unless it belongs to the last message with calls and is
      in `open_calls` (it will get a result).
    - A call whose result is internal is hidden: that is how a call is retracted.
    - Empty assistant messages at the end are hidden.
    - Messages covered by a summary are replaced by it; of nested summaries the widest counts.
    """
    rows = _fold_summaries(list(log), skipped, hidden)
    items: list[Message | _Turn] = []
    waiting: dict[str, _Turn] = {}
    for message in rows:
        if message.role is Role.ASSISTANT and message.tool_calls:
            turn = _Turn(message, message.tool_calls)
            items.append(turn)
            for call in message.tool_calls:
                waiting[call.id] = turn
        elif message.role is Role.TOOL and message.tool_call_id is not None:
            owner = waiting.get(message.tool_call_id)
            if owner is not None:
                owner.add_result(message)
        else:
            items.append(message)
    last = next((item for item in reversed(items) if isinstance(item, _Turn)), None)
    view: list[Message] = []
    for item in items:
        if isinstance(item, _Turn):
            # Call ids may repeat, so `open_calls` can only mean calls of the last such message.
            view.extend(_drop_unanswered_calls(item, open_calls if item is last else ()))
        else:
            view.append(item)
    while view and _is_empty_assistant(view[-1]):
        view.pop()
    return view


def _drop_unanswered_calls(turn: _Turn, open_calls: Collection[str]) -> Iterator[Message]:
    kept = [
        (call, result)
        for call, result in zip(turn.calls, turn.results, strict=True)
        if (call.id in open_calls if result is None else result.visibility is Visibility.ALL)
    ]
    if len(kept) == len(turn.calls):
        yield turn.message
    elif kept or turn.message.content:
        calls = tuple(call for call, _ in kept)
        yield msgspec.structs.replace(turn.message, tool_calls=calls or None)
    for _, result in kept:
        if result is not None:
            yield result


def _is_empty_assistant(message: Message) -> bool:
    return (
        message.role is Role.ASSISTANT
        and not message.tool_calls
        and not any(block for block in message.content if getattr(block, "text", True))
    )


def _fold_summaries(log: list[Message], skipped: int, hidden: Hidden) -> list[Message]:
    spans = [
        (interval.from_seq, interval.to_seq, message)
        for message in log
        if message.metadata is not None
        for interval in (message.metadata.compaction,)
        if interval is not None
    ]
    if not spans:
        return log
    # Of two summaries of the same interval the later one counts.
    widest = [
        (low, high, message)
        for place, (low, high, message) in enumerate(spans)
        if not any(
            from_seq <= low and high <= to_seq and ((from_seq, to_seq) != (low, high) or at > place)
            for at, (from_seq, to_seq, _) in enumerate(spans)
            if at != place
        )
    ]
    summaries = {id(message) for _, _, message in spans}
    # The last is the next to be shown: before the first message in view that it covers, or before
    # all, if it covers messages that were skipped.
    waiting = sorted([(low, message) for low, _, message in widest], key=_begin, reverse=True)
    folded: list[Message] = []
    for message, seq in zip(log, positions(hidden, skipped), strict=False):
        while waiting and waiting[-1][0] <= seq:
            folded.append(waiting.pop()[1])
        if id(message) in summaries:
            continue
        if not any(low <= seq <= high for low, high, _ in widest):
            folded.append(message)
    return folded


def _begin(summary: tuple[int, Message]) -> int:
    return summary[0]


def is_summary(message: Message) -> bool:
    """Whether a message is a summary of other messages."""
    return message.metadata is not None and message.metadata.compaction is not None


def patch_dangling_tool_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages, with a result `INTERRUPTED` for each call that has none."""
    answered = {m.tool_call_id for m in messages if m.role is Role.TOOL}
    patched: list[Message] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        patched.append(message)
        index += 1
        if message.role is not Role.ASSISTANT or not message.tool_calls:
            continue
        while index < len(messages) and messages[index].role is Role.TOOL:
            patched.append(messages[index])
            index += 1
        patched.extend(
            Message.tool(call.id, INTERRUPTED)
            for call in message.tool_calls
            if call.id not in answered
        )
    return patched
