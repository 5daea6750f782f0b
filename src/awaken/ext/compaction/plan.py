"""Choosing which messages are summarised. Pure: messages in, a plan out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.codec import dumps_text
from awaken.core.message import Message, Role, Visibility
from awaken.core.transcript import is_summary
from awaken.core.window import TokenCounter, shorten_message

LEAST_TOKENS = 1024
"""Fewer tokens than this are not worth a summary."""

OPENING, CLOSING = "<conversation-summary>", "</conversation-summary>"
LEFT_OUT = "[Earlier messages are left out]"


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to summarise all messages up to a certain one: the lines that the summariser reads,
    and how many tokens the messages take now. `previous` is the earlier summary among them, if
    any."""

    boundary_message_id: str
    previous: str | None
    lines: tuple[str, ...]
    tokens: int

    def transcript(self, most: int) -> str:
        """What the summariser reads: the last lines, at most `most` characters."""
        kept: list[str] = []
        for line in reversed(self.lines):
            most -= len(line) + 1
            if most < 0:
                kept.append(LEFT_OUT)
                break
            kept.append(line)
        return "\n".join(reversed(kept))


def plan(messages: Sequence[Message], suffix: int, counter: TokenCounter) -> CompactionPlan | None:
    """Plan a summary that leaves the last `suffix` messages, and all since the user's last one, as
    they are. Returns `None` if a summary is not worth it."""
    first = 0
    while first < len(messages) and _stays(messages[first]):
        first += 1
    previous = None
    if first < len(messages) and is_summary(messages[first]):
        previous = summary_text(messages[first])
    start = first + 1 if previous is not None else first
    user = _last_user(messages)
    last = safe_boundary(messages, start, min(len(messages) - suffix, user))
    if last is None:
        return None
    covered, boundary = messages[start : last + 1], messages[last].id
    tokens = sum(counter.message(message) for message in covered)
    lines = tuple(line for message in covered for line in _lines(message))
    if not boundary or tokens < LEAST_TOKENS or not lines:
        return None
    return CompactionPlan(
        boundary_message_id=boundary, previous=previous, lines=lines, tokens=tokens
    )


def safe_boundary(messages: Sequence[Message], start: int, stop: int) -> int | None:
    """The last index before `stop` at which no tool call is waiting for its result, or `None`."""
    found: int | None = None
    open_calls: list[str] = []
    for index in range(start, max(start, stop)):
        message = messages[index]
        open_calls += [call.id for call in message.tool_calls or ()]
        if message.role is Role.TOOL and message.tool_call_id in open_calls:
            open_calls.remove(message.tool_call_id)
        follows = messages[index + 1] if index + 1 < len(messages) else None
        if not open_calls and (follows is None or follows.role is not Role.TOOL):
            found = index
    return found


def _stays(message: Message) -> bool:
    """Whether a message is never summarised: a system message that is not a summary."""
    return message.role is Role.SYSTEM and not is_summary(message)


def _last_user(messages: Sequence[Message]) -> int:
    backwards = range(len(messages) - 1, -1, -1)
    return next((i for i in backwards if messages[i].is_visible_user()), len(messages))


def _lines(message: Message) -> list[str]:
    """A message as the summariser reads it; internal messages are left out."""
    if message.visibility is Visibility.INTERNAL:
        return []
    said = shorten_message(message).text()
    name = message.role.value.capitalize()
    lines = [f"[{name}]: {said}"] if said.strip() else []
    calls = message.tool_calls or ()
    return lines + [f"[{name} calls]: {c.name}({dumps_text(c.arguments)})" for c in calls]


# -- summaries in the log ---------------------------------------------------------------------


def summary_message(text: str, id: str) -> Message:
    """A summary as the model reads it."""
    return Message.internal_system(f"{OPENING}\n{text}\n{CLOSING}", id=id)


def summary_text(message: Message) -> str:
    """The text of a summary."""
    return message.text().removeprefix(OPENING).removesuffix(CLOSING).strip("\n")
