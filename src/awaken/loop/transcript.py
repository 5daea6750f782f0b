"""The conversation of a live run: what the model sees, and what is still to be committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from awaken.domain.message import Message, Role
from awaken.domain.transcript import MessageView

# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_ASSISTANT = Role.ASSISTANT


class Transcript:
    """Grows at the end; views taken before do not change. `response` is this run's last answer."""

    __slots__ = ("_answer", "_items", "_pending")

    def __init__(self, messages: Sequence[Message], uncommitted: Sequence[Message] = ()) -> None:
        self._items = list(messages)
        self._pending = list(uncommitted)
        self._answer: Message | None = None

    @property
    def response(self) -> str:
        return self._answer.text() if self._answer is not None else ""

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def view(self) -> MessageView:
        return MessageView(self._items)

    def append(self, message: Message) -> None:
        self._items.append(message)
        self._pending.append(message)
        if message.role is _ASSISTANT:
            self._answer = message

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.append(message)

    def answer(self, call_id: str, message: Message) -> None:
        """Log the result of an earlier call; the model sees it beside that call."""
        place = self._place_of_result(call_id)
        if place == len(self._items):
            self._items.append(message)
        else:
            # Somebody may hold a view of the old list, so it stays as it is.
            self._items = [*self._items[:place], message, *self._items[place:]]
        self._pending.append(message)

    def find_call(self, call_id: str) -> tuple[Message, int] | None:
        """The latest assistant message with that call, and the call's index in it."""
        for message in reversed(self._items):
            for index, call in enumerate(message.tool_calls or ()):
                if call.id == call_id:
                    return message, index
        return None

    def _place_of_result(self, call_id: str) -> int:
        found = self.find_call(call_id)
        if found is None:
            return len(self._items)
        turn, own = found
        position = {call.id: index for index, call in enumerate(turn.tool_calls or ())}
        place = self._items.index(turn) + 1
        while place < len(self._items):
            result = self._items[place]
            index = position.get(result.tool_call_id or "")
            if result.role is not Role.TOOL or index is None or index > own:
                break
            place += 1
        return place

    def take_pending(self) -> tuple[Message, ...]:
        pending = tuple(self._pending)
        self._pending.clear()
        return pending
