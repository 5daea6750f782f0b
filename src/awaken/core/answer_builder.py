"""Building an answer from the events of its stream, and its token usage from the provider's counts.

Synchronous and without I/O: it runs for every event a model sends, so it has to be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple

from awaken.codec import clean_text, clean_value, dumps
from awaken.core.answer_deltas import BROKEN, OpenCall, check_event, join
from awaken.core.event import (
    ReasoningDelta,
    StepSnapshot,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import (
    MAX_ANSWER_BYTES,
    AnswerTooLarge,
    ContentBlockStop,
    LlmStreamEvent,
    ReasoningDone,
    Stop,
    StreamSnapshot,
    ToolCallSigned,
    Usage,
)
from awaken.core.message import Citation, ContentBlock, Opaque, Text, Thinking, ToolCall
from awaken.core.value import EMPTY

# Shared by all answers: on Python 3.11 every `frozenset()` is a new one of 216 bytes.
_NO_IDS: frozenset[str] = frozenset()
_NONE_YET: Any = ()

# The memory counted for each delta, block and call besides its text: without it, a model could
# fill the memory with empty ones.
_DELTA, _BLOCK, _CALL = 16, 256, 4096
_BYTES_A_CHARACTER = 4

V = TypeVar("V")


class StreamAccumulator:
    """Collects the events of an answer; `finish` returns the answer.

    If a stream breaks off, `next_stream` prepares for another one that continues the answer. An
    answer of more than `max_bytes` is refused; text, reasoning and tool calls all count.
    """

    __slots__ = (
        "_begun_at",
        "_blocks",
        "_blocks_before",
        "_calls",
        "_carried",
        "_counted",
        "_ended",
        "_open",
        "_past",
        "_reasoned",
        "_renamed",
        "_room",
        "_said_before",
        "_size",
        "_stop",
        "_text",
        "_thinking",
        "_usage",
        "_used",
        "_withdrawn",
        "max_bytes",
        "restored",
    )

    def __init__(self) -> None:
        self._text: list[str] = []
        # The other lists are made when they are needed: a busy process waits for many answers of
        # which nothing has come, and its garbage collector looks at every list.
        self._blocks: list[ContentBlock] = _NONE_YET
        self._thinking: list[str] = _NONE_YET
        # All reasoning since the answer began, and the calls that will not be made: see `so_far`.
        self._reasoned: list[str] = _NONE_YET
        self._withdrawn = _NO_IDS
        self._calls: list[OpenCall] = _NONE_YET
        self._open: dict[str, OpenCall] = EMPTY
        # New ids for calls whose own id another call of the answer has already.
        self._renamed = _NO_IDS
        self._usage: TokenUsage | None = None
        self._used: TokenUsage | None = None
        self._stop: StopReason | None = None
        self._past = self._carried = self._begun_at = 0
        # The length of the text and the number of blocks that earlier streams brought.
        self._said_before = self._blocks_before = 0
        self._ended = self.restored = False
        self.max_bytes, self._size = MAX_ANSWER_BYTES, 0
        # How many text deltas `_size` includes, and how many characters may arrive before the
        # next count: most answers are so small that they are never counted.
        self._counted, self._room = 0, MAX_ANSWER_BYTES // _BYTES_A_CHARACTER

    def limit_to(self, max_bytes: int) -> None:
        """Refuse an answer of more than `max_bytes`."""
        self.max_bytes, self._room = max_bytes, 0  # the next delta is counted against it

    @property
    def progress(self) -> int:
        """A number that grows as text, reasoning and calls arrive; the idle timer compares it."""
        progress = self._past + len(self._text) + len(self._thinking)
        if self._usage is not None:
            progress += 1
        if self._ended:
            progress += 1
        for call in self._calls:
            progress += 1 + len(call.deltas)
        return progress

    @property
    def is_silent(self) -> bool:
        """Whether the current stream has brought no event yet."""
        return self.progress == self._begun_at

    @property
    def size_of_calls(self) -> int:
        """The bytes of all tool calls so far, complete or not."""
        texts = [text for call in self._calls for text in (call.name, *call.deltas)]
        return sum(len(text.encode("utf-8", "replace")) for text in texts)

    def push(self, event: LlmStreamEvent) -> None:
        """Add the next event of the stream.

        Raises:
            AnswerTooLarge: the answer would have more than `max_bytes`; the event is not added.
            TypeError: it is no event of a stream, or a field of it has a wrong type.
        """
        try:
            if type(event) is TextDelta:  # first, because most events of a stream are
                delta = event.delta
                self._room -= _DELTA + len(delta)
                if self._room < 0:
                    self._count(delta)
                self._text.append(delta)
                return
            take = _TAKE.get(type(event))
            if take is None:
                *names, last = [kind.__name__ for kind in (TextDelta, *_TAKE)]
                raise TypeError(
                    f"a model yields {', '.join(names)} and {last} (awaken.core.llm), not {event!r}"
                )
            take(self, event)
        except (TypeError, AttributeError):
            if isinstance(event, msgspec.Struct):
                check_event(event)
            raise

    def finish(self) -> StreamResult:
        """The answer. Calls whose arguments do not parse are left out; a field says if any are.

        Raises:
            TypeError: a delta was no text.
        """
        calls: list[ToolCall] = []
        for call in self._calls:
            arguments = call.arguments()
            if call.name and arguments is not BROKEN:
                calls.append(
                    ToolCall(
                        id=call.id, name=call.name, arguments=arguments, signature=call.signature
                    )
                )
        return StreamResult(
            content=self._content(),
            tool_calls=tuple(calls),
            usage=total_usage(self._used, self._usage),
            stop_reason=self._stop,
            has_incomplete_tool_calls=len(calls) < len(self._calls),
        )

    def finish_cancelled(self) -> StreamResult:
        """The answer of a cancelled run: the text the user saw, without tool calls."""
        return StreamResult(
            content=self._content(),
            usage=total_usage(self._used, self._usage),
            stop_reason=StopReason.END_TURN,
        )

    def is_mended(self) -> bool:
        """Whether earlier streams of this answer broke off after they had reported usage."""
        return self._used is not None

    def this_stream(self) -> StreamResult:
        """Content and usage of the current stream only, with incomplete tool calls as text."""
        calls = [ToolCall(id=c.id, name=c.name, arguments=c.arguments_text()) for c in self._calls]
        content: tuple[ContentBlock, ...] = (
            *[b for b in self._blocks[self._blocks_before :] if not isinstance(b, Text)],
            Thinking(thinking=join(self._thinking)),
            Text(text=self._all_text()[self._said_before :]),
        )
        return StreamResult(content=content, tool_calls=tuple(calls), usage=self._usage)

    def snapshot(self) -> StreamSnapshot:
        """The answer so far, for the code that continues a broken stream.

        A call is completed once its arguments have arrived and parse. The last of the others is
        the one in flight.
        """
        completed: list[tuple[str, str, str]] = []
        in_flight: tuple[str, str, str] | None = None
        for call in self._calls:
            written = call.arguments_text()
            row = (call.id, call.name, written)
            if self._is_whole(call):
                completed.append(row)
            else:
                in_flight = row
        return StreamSnapshot(
            text=self._all_text(),
            completed_calls=tuple(completed),
            in_flight_call=in_flight,
            ended=self._ended,
        )

    def so_far(self, message_id: str) -> StepSnapshot:
        """The part of the answer that listeners have received; it will be the message
        `message_id`."""
        calls = [
            (call.id, call.name, call.arguments_text())
            for call in self._calls
            if call.name and call.id not in self._withdrawn
        ]
        return StepSnapshot(
            message_id=message_id,
            text=self._all_text(),
            reasoning=join(self._reasoned),
            calls=tuple(calls),
        )

    def withdraw(self, ids: Iterable[str]) -> None:
        """Leave these calls out of `so_far`: listeners have got the event that drops them."""
        self._withdrawn |= frozenset(ids)

    def _all_text(self) -> str:
        return "".join([b.text for b in self._blocks if isinstance(b, Text)]) + join(self._text)

    # -- when a stream has broken off ---------------------------------------------------------

    def restore(self, text: str, calls: Iterable[tuple[str, str, str]]) -> None:
        """Begin with what another process had received of the answer."""
        self.restored = True
        if text:
            self._text = [text]
        for id, name, written in calls:
            self._size += _CALL + _utf8(written)
            self._add_call(id, OpenCall(id, name, [written] if written else []))

    def list_call_texts(self) -> list[tuple[str, str, str]]:
        """All tool calls, complete or not: id, name, and the arguments as text so far."""
        return [(call.id, call.name, call.arguments_text()) for call in self._calls]

    def list_started_calls(self) -> list[tuple[str, str]]:
        """The ids and names of all tool calls that have a start event, complete or not."""
        return [(call.id, call.name) for call in self._calls if call.name]

    def id_of(self, id: str) -> str:
        """Our id of the call that the model names `id`: another one if an earlier call has that."""
        call = self._open.get(id)
        return id if call is None else call.id

    def drop_unfinished(self) -> list[tuple[str, str]]:
        """Remove the incomplete tool calls; returns their ids and names."""
        before = self.progress
        dropped = [call for call in self._calls if not self._is_whole(call)]
        self._calls = [call for call in self._calls if call not in dropped]
        self._open = {id: call for id, call in self._open.items() if call not in dropped}
        self._past += before - self.progress
        return [(call.id, call.name) for call in dropped]

    def end_with_calls(self) -> None:
        """End the answer here: the model wanted the tool calls that have arrived."""
        self._stop, self._ended = StopReason.TOOL_USE, True

    def next_stream(self) -> None:
        """Prepare for a stream that continues where this one broke off.

        Unfinished reasoning is dropped: a model cannot continue it.
        """
        before = self.progress
        self._used, self._usage = total_usage(self._used, self._usage), None
        self._stop, self._ended, self._thinking = None, False, _NONE_YET
        self._carried = len(self._text)
        self._said_before, self._blocks_before = len(self._all_text()), len(self._blocks)
        self._past += before - self.progress
        self._begun_at = before

    def forget(self) -> None:
        """Drop everything received, except for the usage."""
        before = self.progress
        self._text, self._blocks, self._reasoned = [], _NONE_YET, _NONE_YET
        self._calls, self._open = _NONE_YET, EMPTY
        self._size = self._counted = 0
        self.next_stream()
        self._past += before - self.progress
        self._begun_at = before

    def _is_whole(self, call: OpenCall) -> bool:
        """Whether a call is complete: its JSON is closed, or another call came after it."""
        written, is_last = call.arguments_text().strip(), call is self._calls[-1]
        if not call.name or (is_last and not written.endswith(("}", "]"))):
            return False
        return call.arguments() is not BROKEN

    # -- one event ----------------------------------------------------------------------------

    def _hold(self, size: int) -> None:
        """Count `size` bytes that are about to be added.

        Raises:
            AnswerTooLarge: the answer would have more than `max_bytes`.
        """
        self._size += size
        self._room -= size
        if self._room < 0:
            self._count()

    def _count(self, *coming: str) -> None:
        """Count the text that arrived since the last count, and the text about to be added.

        Raises:
            AnswerTooLarge: the answer would have more than `max_bytes`.
        """
        text = [*self._text[self._counted :], *coming]
        self._size += sum(_DELTA + _utf8(delta) for delta in text)
        self._counted += len(text)
        if self._size > self.max_bytes:
            raise self._too_large()
        self._room = (self.max_bytes - self._size) // _BYTES_A_CHARACTER

    def _too_large(self) -> AnswerTooLarge:
        change = "raise max_answer_bytes in the agent's section retry to allow such answers"
        return AnswerTooLarge(self.max_bytes, change=change)

    def _think(self, event: ReasoningDelta) -> None:
        self._hold(_DELTA + _utf8(event.delta))
        if self._thinking:  # as in `_with`: this is done for every delta of reasoning
            self._thinking.append(event.delta)
            self._reasoned.append(event.delta)
        else:
            self._thinking = [event.delta]
            self._reasoned = _with(self._reasoned, event.delta)

    def _use(self, event: Usage) -> None:
        usage = event.usage
        if type(usage) is not TokenUsage or not _COUNTS.issuperset(map(type, astuple(usage))):
            usage = check_event(event).usage
        if self._usage is None and not has_negative(usage):
            self._usage = usage
        else:
            self._usage = merge_usage(self._usage, usage)

    def _end(self, event: Stop) -> None:
        if event.reason is not None and type(event.reason) is not StopReason:
            event = check_event(event)
        self._stop, self._ended = event.reason or self._stop, True

    def _start_call(self, event: ToolCallStart) -> None:
        id, name = event.id, event.name
        if type(id) is not str or type(name) is not str:
            check_event(event)
        text = id + name
        taken = id in self._open or id in self._renamed
        if text.isascii() and "\0" not in text:
            self._hold(_CALL + len(text))
        else:
            self._hold(_CALL + _utf8(text))
            id, name = _clean_id(id), _clean_id(name)
            taken = taken or any(call.id == id for call in self._calls)
        self._add_call(event.id, OpenCall(self._make_unique_id(id) if taken else id, name))

    def _continue_call(self, event: ToolCallDelta) -> None:
        call = self._open.get(event.id)
        if call is None:
            self._hold(_CALL + _utf8(event.id))
            call = OpenCall(_clean_id(event.id), "")
            self._add_call(event.id, call)
        delta = event.args_delta
        # As in `_hold` and `_utf8`: this is done for every delta of a call.
        size = _DELTA + (len(delta) if delta.isascii() else _utf8(delta))
        self._size += size
        self._room -= size
        if self._room < 0:
            self._count()
        call.deltas.append(delta)

    def _add_call(self, id: str, call: OpenCall) -> None:
        if self._calls:
            self._calls.append(call)
            self._open[id] = call
        else:
            self._calls, self._open = [call], {id: call}

    def _make_unique_id(self, id: str) -> str:
        # Some providers give all calls of an answer the same id, but each result names one call.
        taken, unused, count = {call.id for call in self._calls}, id, 1
        while unused in taken:
            count += 1
            unused = f"{id}#{count}"
        self._renamed |= {unused}
        return unused

    def _sign_call(self, event: ToolCallSigned) -> None:
        call = self._open.get(event.id)
        if call is not None:
            self._hold(_utf8(event.signature))
            call.signature = clean_text(event.signature)

    def _close_block(self, _: ContentBlockStop | None = None) -> None:
        if text := clean_text(join(self._text)):
            self._blocks = _with(self._blocks, Text(text=text))
        self._count()
        self._past += len(self._text)
        self._text, self._carried, self._counted = [], 0, 0

    def _keep_block(self, block: Opaque | Citation) -> None:
        if len(self._text) > self._carried:
            self._close_block()
        block = check_event(clean_value(block))
        self._hold(_BLOCK + len(dumps(block)))
        self._blocks = _with(self._blocks, block)
        self._past += 1

    def _close_reasoning(self, event: ReasoningDone) -> None:
        event = check_event(clean_value(event))
        # Text that broke off stays one block, even if the model reasons before it continues it.
        if len(self._text) > self._carried:
            self._close_block()
        self._hold(
            _BLOCK + sum(map(_utf8, filter(None, (event.id, event.signature, event.encrypted))))
        )
        thought = Thinking(
            thinking=clean_text(join(self._thinking)),
            id=event.id,
            signature=event.signature,
            encrypted=event.encrypted,
            origin=event.origin,
        )
        self._blocks = _with(self._blocks, thought)
        self._past += len(self._thinking) + 1
        self._thinking = _NONE_YET

    def _content(self) -> tuple[ContentBlock, ...]:
        if not (self._text or self._blocks or self._thinking):
            return ()
        content: list[ContentBlock] = []
        if thinking := clean_text(join(self._thinking)):
            content.append(Thinking(thinking=thinking))
        content.extend(self._blocks)
        if text := clean_text(join(self._text)):
            content.append(Text(text=text))
        return tuple(content)


_TAKE: dict[type, Callable[[StreamAccumulator, Any], None]] = {
    ReasoningDelta: StreamAccumulator._think,
    ReasoningDone: StreamAccumulator._close_reasoning,
    ToolCallStart: StreamAccumulator._start_call,
    ToolCallDelta: StreamAccumulator._continue_call,
    ToolCallSigned: StreamAccumulator._sign_call,
    ContentBlockStop: StreamAccumulator._close_block,
    Opaque: StreamAccumulator._keep_block,
    Citation: StreamAccumulator._keep_block,
    Usage: StreamAccumulator._use,
    Stop: StreamAccumulator._end,
}


def _with(items: list[V], item: V) -> list[V]:
    """The list with one more item: a new list for the first one."""
    if not items:
        return [item]
    items.append(item)
    return items


def _clean_id(text: str) -> str:
    """The id or name of a call as every store can keep it: Postgres keeps no zero character."""
    return clean_text(text).replace("\0", "\ufffd")


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


# -- token usage ------------------------------------------------------------------------------


_COUNTS = frozenset({int, NoneType})


def merge_usage(old: TokenUsage | None, new: TokenUsage) -> TokenUsage:
    """`old` updated by `new`: a field without a count, or with a negative one, keeps the old."""
    fields: dict[str, int] = {}
    for name in new.__struct_fields__:
        before: int | None = getattr(old, name) if old is not None else None
        count: int | None = getattr(new, name)
        if count is not None and count < 0:
            count = before or 0
        if count is None:
            count = before
        if count is not None:
            fields[name] = count
    return TokenUsage(**fields)


def total_usage(one: TokenUsage | None, other: TokenUsage | None) -> TokenUsage | None:
    """The sum of two usages; a count that neither reports stays unknown."""
    return one or other if one is None or other is None else _add_usage(one, other)


def _add_usage(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    return TokenUsage(
        **{
            name: (getattr(one, name) or 0) + (getattr(other, name) or 0)
            for name in one.__struct_fields__
            if getattr(one, name) is not None or getattr(other, name) is not None
        }
    )


def has_negative(usage: TokenUsage) -> bool:
    """Whether a provider has reported a count below zero."""
    counts = filter(None, msgspec.structs.astuple(usage))
    return min(counts, default=0) < 0
