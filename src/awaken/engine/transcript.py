"""The conversation of a live run: the messages for the model, and those not committed yet."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.core.message import (
    CompactionInterval,
    Message,
    MessageMetadata,
    Role,
    Text,
    Thinking,
)
from awaken.core.transcript import MessageSequence, is_summary
from awaken.core.value import EMPTY
from awaken.plugin.compactor import Folded

# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_ASSISTANT = Role.ASSISTANT
_MUCH = 4096
"""A text with more characters than this is looked at again before it is committed."""
_AT_ONCE = 256
_NO_LOG: list[Message] = []  # for all: a log that was read is not changed


class LiveTranscript:
    """The messages that the model is shown, and those that the next commit appends to the log.

    `items` are the messages for the model: new ones are appended to that list, and any other change
    puts a new list in its place. `log` holds the last messages of the raw log, which has `length`
    messages; `uncommitted` follow them. `last` is the last assistant message of this run. A view
    does not change after it was taken. `has_large` says that a message from outside, which is not
    committed yet, may hold media or much text; an answer holds no media, and a tool's result
    neither.
    """

    __slots__ = ("_length", "_log", "_moved", "_new", "_saved", "has_large", "items", "last")

    def __init__(
        self,
        messages: Sequence[Message],
        uncommitted: Sequence[Message] = (),
        log: Sequence[Message] = (),
        length: int = 0,
    ) -> None:
        self.items = list(messages)
        # All messages that this run adds to the log, and how many of them commits have taken.
        self._new = list(uncommitted)
        self._saved = 0
        self._log, self._length = (log if isinstance(log, list) else list(log)) or _NO_LOG, length
        # By their positions in the log, messages as they are shown whose media went to blobs.
        self._moved: dict[int, Message] = EMPTY
        self.has_large = _may_be_large(uncommitted)
        self.last: Message | None = None

    @property
    def has_pending(self) -> bool:
        return len(self._new) > self._saved

    def view(self) -> MessageSequence:
        return MessageSequence(self.items)

    def append(self, message: Message) -> None:
        self.items.append(message)
        self._new.append(message)
        if message.role is _ASSISTANT:
            self.last = message

    def extend(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.append(message)
        if messages and _may_be_large(messages):
            self.has_large = True

    def answer(self, call_id: str, message: Message) -> None:
        """Log the result of an earlier call; the model sees it beside that call."""
        place = self._result_index(call_id)
        if place == len(self.items):
            self.items.append(message)
        else:
            # A new list, because views of the old one must not change.
            self.items = [*self.items[:place], message, *self.items[place:]]
        self._new.append(message)

    def find_call(self, call_id: str) -> tuple[Message, int] | None:
        """The latest assistant message with that call, and the call's index in it."""
        for message in reversed(self.items):
            for index, call in enumerate(message.tool_calls or ()):
                if call.id == call_id:
                    return message, index
        return None

    def _result_index(self, call_id: str) -> int:
        found = self.find_call(call_id)
        if found is None:
            return len(self.items)
        message, own = found
        position = {call.id: index for index, call in enumerate(message.tool_calls or ())}
        place = self.items.index(message) + 1
        while place < len(self.items):
            result = self.items[place]
            index = position.get(result.tool_call_id or "")
            if result.role is not Role.TOOL or index is None or index > own:
                break
            place += 1
        return place

    def take_pending(self) -> tuple[Message, ...]:
        pending = tuple(self._new[self._saved :])
        self._saved = len(self._new)
        return pending

    def pending(self) -> Sequence[Message]:
        """The messages that the next commit appends; they stay uncommitted."""
        return self._new[self._saved :]

    def replace_pending(self, messages: Sequence[Message]) -> None:
        """Commit these messages, whose media are in blobs, instead of the pending ones; the model
        is shown those as before."""
        first = self._length + self._saved + 1
        for seq, (old, new) in enumerate(zip(self.pending(), messages, strict=True), start=first):
            if new is not old:
                self._moved = self._moved or {}
                self._moved[seq] = old
        self._new[self._saved :] = messages

    def show_instead(self, old: Message, new: Message) -> None:
        """Show the model another message in place of one."""
        # A new list, because views of the old one must not change.
        self.items = [new if message is old else message for message in self.items]

    # -- positions ----------------------------------------------------------------------------

    @property
    def first_seq(self) -> int:
        """The position in the log of the first message that was read."""
        return self._length - len(self._log) + 1

    @property
    def next_seq(self) -> int:
        """The position in the log that the next message will have."""
        return self._length + len(self._new) + 1

    def message_at(self, seq: int) -> Message:
        """The message at a position from `first_seq` on."""
        at = seq - self._length - 1
        return self._new[at] if at >= 0 else self._log[at]

    def count_equal(self, messages: list[Message], at: int, stop: int, seq: int) -> int:
        """How many of the messages from index `at` to `stop` are those of the log from `seq` on.
        Media that went to blobs make no difference."""
        begin = seq - self._length - 1
        if begin >= 0 and messages[at:stop] == self._new[begin : begin + stop - at]:
            return stop - at  # mostly: the messages of one step
        count, last = 0, self.next_seq
        if seq < self.first_seq:
            return 0
        while at + count < stop and seq + count < last:
            # Many at once are compared in C; equal ones are the same objects, mostly.
            log, begin = self._new, seq + count - self._length - 1
            if begin < 0:
                log, begin = self._log, begin + len(self._log)
            size = min(_AT_ONCE, stop - at - count, len(log) - begin)
            if messages[at + count : at + count + size] == log[begin : begin + size]:
                count += size
            elif (
                messages[at + count] == log[begin]
                or self._moved.get(seq + count) is messages[at + count]
            ):
                count += 1
            else:
                break
        return count

    # -- summaries ----------------------------------------------------------------------------

    def fold(self, boundary_id: str, summary: Message) -> Folded | None:
        """Show the model a summary in place of the messages up to `boundary_id`, and log the
        summary. The log keeps the messages, and system messages at the beginning are still shown.

        Returns `None`, and changes nothing, if the model is no longer shown that message, or if
        the summary would replace only tool results or no message at all.
        """
        items = self.items
        backwards = range(len(items) - 1, -1, -1)
        last = next((i for i in backwards if items[i].id == boundary_id), None)
        if last is None:
            return None
        first = 0
        while first <= last and items[first].role is Role.SYSTEM and not is_summary(items[first]):
            first += 1
        # The range that the summary covers does not end with a tool result: in the log a result
        # may be far behind its call, and later runs show or hide it together with the call.
        ends = last
        while ends >= first and items[ends].role is Role.TOOL:
            ends -= 1
        if ends < first:
            return None
        # The system messages may be missing from the end of the log that was read. They are its
        # first messages, so their number is known.
        low = (self._seq_of(items[first - 1]) or first) if first else 0
        high, seq = self._seq_of(items[ends]), None
        covered = CompactionInterval(from_seq=low + 1, to_seq=high or low)
        summary = msgspec.structs.replace(summary, metadata=MessageMetadata(compaction=covered))
        if high is not None:
            self._new.append(summary)
            seq = self._length + len(self._new)
        # A new list, because views of the old one must not change.
        self.items = [*items[:first], summary, *items[last + 1 :]]
        return Folded(summary, seq)

    def _seq_of(self, message: Message) -> int | None:
        """The number of a message in the raw log, or `None` if it was not found there."""
        for log, length in ((self._new, self._length + len(self._new)), (self._log, self._length)):
            for index, known in enumerate(reversed(log)):
                if known.id == message.id:
                    return length - index
        return None


def _may_be_large(messages: Sequence[Message]) -> bool:
    for message in messages:
        for block in message.content:
            if isinstance(block, Text):
                if len(block.text) > _MUCH:
                    return True
            elif not isinstance(block, Thinking):
                return True
    return False
