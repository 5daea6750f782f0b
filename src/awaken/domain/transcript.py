"""Reading the raw log: what a model may see of it.

The log is append-only. Hiding unanswered, retracted and summarised entries, and putting a late
result beside its call, all happen here, when it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

import msgspec

from awaken.domain.message import Message, Role, ToolCall, Visibility

INTERRUPTED = "[Tool execution was interrupted]"


class MessageView(Sequence[Message]):
    """A read-only window on a shared, growing list, with a head before and a tail after it.

    Making one costs the same for ten messages and for a hundred thousand.
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

    __hash__ = None  # type: ignore[assignment]  # a view of something that grows is no key

    def around(self, head: tuple[Message, ...], tail: tuple[Message, ...]) -> MessageView:
        """The same window between other ends."""
        return MessageView(self._items, self._stop, head + self._head, self._tail + tail)

    def with_inserted(self, at: int, messages: tuple[Message, ...]) -> MessageView:
        """The same window with something at a place of it; within the head, that costs nothing."""
        if at <= len(self._head):
            head = (*self._head[:at], *messages, *self._head[at:])
            return MessageView(self._items, self._stop, head, self._tail)
        return MessageView([*self[:at], *messages, *self[at:]])


class _Turn:
    """An assistant message, its calls, and the result of each."""

    __slots__ = ("calls", "message", "results")

    def __init__(self, message: Message, calls: tuple[ToolCall, ...]) -> None:
        self.message = message
        self.calls = calls
        self.results: list[Message | None] = [None] * len(calls)

    def settle(self, result: Message) -> None:
        """Give `result` to its call: the first of that id without one, else it replaces one."""
        place = 0
        for index, call in enumerate(self.calls):
            if call.id == result.tool_call_id:
                place = index
                if self.results[index] is None:
                    break
        self.results[place] = result


def effective_view(
    log: Iterable[Message], open_calls: Collection[str] = (), *, skipped: int = 0
) -> list[Message]:
    """The messages a model may see, in order; `log` may leave out the first `skipped` ones.

    Results stand right behind their call, in call order, however late they came. A call without a
    result is hidden unless it is one of the last turn's and in `open_calls` (still to be
    answered); so is one whose result is internal, which is how a call is retracted. Assistant
    messages left empty at the end go too, and intervals covered by a summary give way to the
    widest one.
    """
    rows = _fold_summaries(list(log), skipped)
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
                owner.settle(message)
        else:
            items.append(message)
    last = next((item for item in reversed(items) if isinstance(item, _Turn)), None)
    view: list[Message] = []
    for item in items:
        if isinstance(item, _Turn):
            # Call ids repeat, so only those of the last turn can be the ones that are meant.
            view.extend(_answered(item, open_calls if item is last else ()))
        else:
            view.append(item)
    while view and _is_empty_assistant(view[-1]):
        view.pop()
    return view


def _answered(turn: _Turn, open_calls: Collection[str]) -> Iterator[Message]:
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


def _fold_summaries(log: list[Message], skipped: int) -> list[Message]:
    spans = [
        (interval.from_seq, interval.to_seq, message)
        for message in log
        if message.metadata is not None
        for interval in (message.metadata.compaction,)
        if interval is not None
    ]
    if not spans:
        return log
    # Of two summaries of one interval the later one counts.
    widest = [
        (low, high, message)
        for place, (low, high, message) in enumerate(spans)
        if not any(
            from_seq <= low and high <= to_seq and ((from_seq, to_seq) != (low, high) or at > place)
            for at, (from_seq, to_seq, _) in enumerate(spans)
            if at != place
        )
    ]
    starts = {from_seq: message for from_seq, _, message in widest}
    summaries = {id(message) for _, _, message in spans}
    # A summary of what is not there any more still says what it said.
    folded: list[Message] = [starts[seq] for seq in sorted(starts) if seq <= skipped]
    for seq, message in enumerate(log, start=skipped + 1):
        if seq in starts:
            folded.append(starts[seq])
        if id(message) in summaries:
            continue
        if not any(low <= seq <= high for low, high, _ in widest):
            folded.append(message)
    return folded


def is_summary(message: Message) -> bool:
    """Whether a message stands for a stretch of the log."""
    return message.metadata is not None and message.metadata.compaction is not None


def patch_dangling_tool_calls(messages: Sequence[Message]) -> list[Message]:
    """`messages`, where each call nobody answered gets a result that says so."""
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
