"""Fitting a long conversation into a model's context window. The message log does not change.

A message with its tool calls and their results are one round, which is shown as a whole or not at
all. The sizes of messages are estimates: a token is about a quarter of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import msgspec

from awaken.codec import dumps
from awaken.core.inference import ContextWindowPolicy
from awaken.core.message import (
    Audio,
    BlobSource,
    Citation,
    ContentBlock,
    Document,
    Image,
    MediaSource,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
    UrlSource,
)
from awaken.core.tool import ToolDescriptor
from awaken.core.transcript import INTERRUPTED, MessageSequence
from awaken.core.value import Value

# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_TOOL = Role.TOOL
_SYSTEM = Role.SYSTEM
_USER = Role.USER

_replace = msgspec.structs.replace


# -- estimating tokens ------------------------------------------------------------------------


_OTHER_BLOCK = 50


def estimate_message_tokens(message: Message) -> int:
    """An estimate by the bytes of text and thinking; other blocks count 50, tool calls nothing."""
    size = 0
    for block in message.content:
        if isinstance(block, Text):
            size += len(block.text.encode())
        elif isinstance(block, Thinking):
            size += len(block.thinking.encode())
        else:
            size += _OTHER_BLOCK
    return 4 + size // 4


def estimate_tool_tokens(tool: ToolDescriptor) -> int:
    """An estimate for a tool's name, description and schema."""
    return len(tool.name) + len(tool.description) + len(dumps(tool.parameters)) // 4 + 10


_IMAGE = 1600
_UNSEEN = 2000
"""For media given by URL, whose size is unknown here."""

_BYTES_A_TOKEN = {Audio: 500, Document: 25}
_VIDEO = 1000


class TokenCounter:
    """Estimates tokens. The usage that providers report corrects the estimate.

    For a better estimate, a plugin offers a subclass:
    `registrar.service(TokenCounter, MyCounter())`.
    """

    def text(self, text: str) -> int:
        """The tokens of a text: a quarter of its bytes."""
        return _bytes(text) // 4

    def message(self, message: Message) -> int:
        """The tokens of a message: its blocks and its tool calls."""
        tokens = 4
        for block in message.content:
            tokens += self.block(block)
        for call in message.tool_calls or ():
            tokens += self.text(call.name) + len(dumps(call.arguments)) // 4 + 4
        return tokens

    def block(self, block: ContentBlock) -> int:
        """The tokens of a content block: text by its length, media by their size if known."""
        match block:
            case Text():
                return self.text(block.text)
            case Thinking():
                return self.text(block.thinking)
            case ToolUse():
                return self.text(block.name) + len(dumps(block.input)) // 4 + 4
            case ToolResultBlock():
                return sum(self.block(part) for part in block.content)
            case Image():
                return _IMAGE
            case Opaque() | Citation():
                return len(dumps(block.data)) // 4
            case _:
                return _media(block.source, _BYTES_A_TOKEN.get(type(block), _VIDEO))

    def tool(self, tool: ToolDescriptor) -> int:
        """The tokens of a tool: its name, description and schema."""
        schema = len(dumps(tool.parameters)) // 4
        return self.text(tool.name) + self.text(tool.description) + schema + 10


DEFAULT_COUNTER = TokenCounter()


def _bytes(text: str) -> int:
    # Most text is ASCII and needs no encoding to be counted.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _media(source: MediaSource, bytes_a_token: int) -> int:
    if isinstance(source, UrlSource):
        return _UNSEEN
    if source.media_type.startswith("text/"):
        bytes_a_token = 4
    size = source.size if isinstance(source, BlobSource) else len(source.data) * 3 // 4
    return max(100, size // bytes_a_token)


# -- leaving out messages ---------------------------------------------------------------------


ROOM_KEPT = 0.75
"""A conversation that does not fit is cut to this share of its room. The rest is for later steps,
so that their requests begin with the same messages and providers' prompt caches keep working."""


class Cut(Value, frozen=True, kw_only=True):
    """Where a conversation was cut, as message ids: the first message shown after the system
    messages, and the last message up to which long results are shortened."""

    first: str | None = None
    shortened: str | None = None


class Window:
    """The part of a growing conversation that requests show.

    Each message is counted once. As long as everything fits, the messages shown do not change.
    When it does not fit, long results before the last messages are shortened, then whole rounds
    are left out. The system messages at the beginning and the user's last message are kept.
    """

    __slots__ = (
        "_costs",
        "_counter",
        "_cut",
        "_head",
        "_is_torn",
        "_open",
        "_pinned",
        "_seen",
        "_shown",
        "_source",
        "tokens",
        "user",
    )

    def __init__(self, counter: TokenCounter = DEFAULT_COUNTER, cut: Cut | None = None) -> None:
        self._counter = counter
        self._cut = cut or Cut()
        self._source: list[Message] | None = None
        self.user: Message | None = None
        """The last message the user wrote."""
        self.tokens = 0
        """The tokens of all messages shown."""
        self._clear()

    def _clear(self) -> None:
        self._seen = 0
        self._head: tuple[Message, ...] = ()
        self._pinned: Message | None = None
        self._shown: list[Message] = []
        self._costs: list[int] = []
        self._open: set[str] = set()
        self._is_torn = False
        self.tokens = 0
        self.user = None

    @property
    def cut(self) -> Cut:
        """Where the conversation was cut; another window with this cut shows the same."""
        return self._cut

    def begin_anew(self) -> None:
        """Forget the cut: the next messages are another conversation."""
        self._source, self._cut = None, Cut()

    # -- adding -------------------------------------------------------------------------------

    def take(self, messages: list[Message]) -> None:
        """Add the messages that are new; another list than last time is read from its beginning."""
        if messages is not self._source:
            self._begin(messages)
        if self._seen < len(messages):
            for index in range(self._seen, len(messages)):
                self._add(messages[index])
            self._seen = len(messages)

    def _begin(self, messages: list[Message]) -> None:
        self._clear()
        self._source = messages
        first = leading(messages)
        self._head = tuple(messages[:first])
        self.tokens = sum(self._counter.message(message) for message in self._head)
        self._seen = first
        cut, places = self._cut, dict[str | None, int]()
        if cut != Cut():
            places = {message.id: index for index, message in enumerate(messages) if message.id}
            self._cut = Cut(
                first=cut.first if places.get(cut.first, -1) >= first else None,
                shortened=cut.shortened if cut.shortened in places else None,
            )
            self._seen = places.get(self._cut.first, first)
            self._pin(messages[first : self._seen], messages[self._seen :])
        for index in range(self._seen, places.get(self._cut.shortened, -1) + 1):
            self._add(shorten_message(messages[index]))
            self._seen = index + 1

    def _pin(self, left_out: list[Message], shown: list[Message]) -> None:
        """Keep the user's last message if it is among those left out."""
        if any(message.is_visible_user() for message in shown):
            return
        self.user = next((m for m in reversed(left_out) if m.is_visible_user()), None)
        self._pinned = self.user
        if self.user is not None:
            self.tokens += self._counter.message(self.user)

    def _add(self, message: Message) -> None:
        role = message.role
        if role is _TOOL:
            self._open.discard(message.tool_call_id or "")
        else:
            self._is_torn = self._is_torn or bool(self._open)
            self._open = {call.id for call in message.tool_calls or ()}
            if role is _USER and message.is_visible_user():
                self.user = message
        cost = self._counter.message(message)
        self._shown.append(message)
        self._costs.append(cost)
        self.tokens += cost

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, room: int, at_least: int, *, goal: int | None = None) -> bool:
        """If the messages do not fit `room`, leave out as many as needed to reach `goal`.

        At least `at_least` of the last messages stay. Returns whether the cut has changed.
        """
        if self.tokens <= room:
            return False
        before = self._cut
        goal = int(room * ROOM_KEPT) if goal is None else goal
        self._shorten(len(self._shown) - at_least)
        if self.tokens > goal:
            self._drop(goal, at_least)
        if self.tokens > room:
            self._shorten(len(self._shown))
        return self._cut != before

    def _shorten(self, stop: int) -> None:
        """Shorten the long results before index `stop`."""
        short = [shorten_message(message) for message in self._shown[: max(0, stop)]]
        if all(new is old for new, old in zip(short, self._shown, strict=False)):
            return
        # A new list, because a caller may hold a view of the old one.
        self._shown = [*short, *self._shown[len(short) :]]
        self._cut = _replace(self._cut, shortened=short[-1].id)
        self._count()

    def _drop(self, goal: int, at_least: int) -> None:
        head = sum(self._counter.message(message) for message in self._head)
        start = start_of_tail(self._shown, self._costs, goal - head, at_least)
        user = self._last_user()
        if user is not None and not any(m is user for m in self._shown[start:]):
            room = goal - head - self._counter.message(user)
            start = start_of_tail(self._shown, self._costs, room, at_least)
        if start == 0 and self._pinned in (None, user):
            return
        self._shown, self._costs = self._shown[start:], self._costs[start:]
        is_left_out = user is not None and not any(m is user for m in self._shown)
        self._pinned = user if is_left_out else None
        self._cut = _replace(self._cut, first=self._shown[0].id if self._shown else None)
        self._count()

    def _last_user(self) -> Message | None:
        shown = (m for m in reversed(self._shown) if m.is_visible_user())
        return next(shown, self._pinned)

    def _count(self) -> None:
        self._costs = [self._counter.message(message) for message in self._shown]
        self.tokens = sum(self._costs) + sum(map(self._counter.message, self._before()))

    def _before(self) -> tuple[Message, ...]:
        return self._head if self._pinned is None else (*self._head, self._pinned)

    # -- showing ------------------------------------------------------------------------------

    def view(self) -> MessageSequence:
        """The messages to show now; a call without a result gets the result `INTERRUPTED`."""
        view = MessageSequence(self._shown, head=self._before())
        if self._is_torn or self._open:
            return MessageSequence(list(_answer_open_calls(view)))
        return view


def _answer_open_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with a result `INTERRUPTED` for each call not followed by its result."""
    open_calls: list[str] = []
    for message in messages:
        if message.role is not _TOOL:
            yield from [Message.tool(id, INTERRUPTED) for id in open_calls]
            open_calls = [call.id for call in message.tool_calls or ()]
        elif message.tool_call_id in open_calls:
            open_calls.remove(message.tool_call_id)
        yield message
    yield from [Message.tool(id, INTERRUPTED) for id in open_calls]


def truncate(
    messages: Sequence[Message],
    room: int,
    at_least: int = 0,
    counter: TokenCounter = DEFAULT_COUNTER,
) -> list[Message]:
    """The part of `messages` that fits `room` tokens: the system messages at the beginning, the
    user's last message, and as much of the end as possible, with long results shortened."""
    window = Window(counter)
    window.take(list(messages))
    window.fit(room, at_least, goal=room)
    return list(window.view())


def start_of_tail(
    messages: Sequence[Message], costs: Sequence[int], room: int, at_least: int
) -> int:
    """The index where the longest tail of whole rounds that fits begins.

    The tail has at least `at_least` messages, whether they fit or not.
    """
    start, used = len(messages), 0
    while start > 0:
        first = start - 1
        while first > 0 and messages[first].role is _TOOL:
            first -= 1
        used += sum(costs[first:start])
        if used > room and len(messages) - start >= max(1, at_least):
            break
        start = first
    while start < len(messages) and messages[start].role is _TOOL:
        start += 1  # the call of this result is not in the tail
    return start


def leading(messages: Sequence[Message]) -> int:
    """How many system messages a conversation begins with; summaries are among them."""
    return sum(1 for _ in takewhile(lambda message: message.role is _SYSTEM, messages))


def clamp_policy(
    policy: ContextWindowPolicy, context_window: int | None, max_output_tokens: int | None
) -> ContextWindowPolicy:
    """The policy with its limits lowered to those of the model, where these are known."""
    context = _least(policy.max_context_tokens, context_window)
    output = min(_least(policy.max_output_tokens, max_output_tokens), context)
    threshold = policy.autocompact_threshold
    if threshold is not None:
        threshold = min(threshold, context - output) or None
    return _replace(
        policy,
        max_context_tokens=context,
        max_output_tokens=output,
        autocompact_threshold=threshold,
    )


def _least(requested: int, possible: int | None) -> int:
    return requested if possible is None else min(requested, possible)


# -- shortening long results ------------------------------------------------------------------


LONG_RESULT = 2048
"""From so many tokens on (a quarter of its bytes), the text of a tool's result is long."""
KEPT_CHARACTERS = 1600
KEPT_LINES = 24
SHORTENED = "[Content compacted:"


def shorten_message(message: Message) -> Message:
    """A tool message with long texts cut to their beginning, and a note about the rest."""
    if message.role is not _TOOL or not any(_is_long(block) for block in message.content):
        return message
    content = tuple(_beginning(b) if _is_long(b) else b for b in message.content)
    return _replace(message, content=content)


def _is_long(block: object) -> bool:
    if not isinstance(block, Text) or len(block.text) < LONG_RESULT:
        return False  # a character takes at most four bytes
    return len(block.text.encode("utf-8", "surrogatepass")) // 4 >= LONG_RESULT


def _beginning(block: object) -> Text:
    assert isinstance(block, Text), "only texts are long"
    text = block.text
    kept = "\n".join(text[:KEPT_CHARACTERS].split("\n")[:KEPT_LINES])
    left_out = len(text) - len(kept)
    marker = f"{SHORTENED} the last {left_out} of {len(text)} characters are not shown]"
    return Text(text=f"{kept}\n{marker}")
