"""Showing a call to an approver: every key, every character, and what was left out.

Approvers can only agree to what they see. So nothing is collapsed, invisible characters are
escaped, and each long value is shortened by itself, so that none hides the values behind it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from awaken.cli.output import escape, terminal_line
from awaken.codec import Json, dumps_text
from awaken.core.suspension import AskedCall, ToolCallResumeMode
from awaken.core.tool import OUTCOME_UNKNOWN

LONGEST_VALUE = 400
MOST_ITEMS = 50
DEEPEST = 12

# Characters that Python calls printable and a terminal shows as nothing, or as a blank: joiners,
# fillers, blanks and variation selectors.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


class Question:
    """A call as it is shown; `is_cut` says that a part of its arguments was left out."""

    def __init__(self, name: str, arguments: Json) -> None:
        self._name, self._arguments = name, arguments
        self.is_cut = False
        if isinstance(arguments, dict):
            members = [(self._short_text(key), self._short(arguments[key], 1)) for key in arguments]
            self.words = _render_members(name, members)
        else:
            self.words = _render_call(name, self._short(arguments, 1))

    @property
    def whole(self) -> str:
        """The whole call, however long."""
        return _render_call(self._name, self._arguments)

    def _short(self, value: Json, depth: int) -> Json:
        """The value with its long texts, lists and objects shortened."""
        if isinstance(value, str):
            return self._short_text(value)
        if isinstance(value, int):
            return value if abs(value) < 10**LONGEST_VALUE else self._short_text(str(value))
        if not isinstance(value, dict | list):
            return value
        if depth > DEEPEST:
            self.is_cut = True
            return "…"
        if isinstance(value, list):
            items = [self._short(item, depth + 1) for item in value[:MOST_ITEMS]]
            return items + self._rest(len(value))
        members = list(value.items())[:MOST_ITEMS]
        short = {self._short_text(key): self._short(item, depth + 1) for key, item in members}
        for more in self._rest(len(value)):
            short[more] = None
        return short

    def _rest(self, count: int) -> list[str]:
        if count <= MOST_ITEMS:
            return []
        self.is_cut = True
        return [f"… {count - MOST_ITEMS:,} more"]

    def _short_text(self, text: str) -> str:
        if len(text) <= LONGEST_VALUE:
            return text
        self.is_cut = True
        half = LONGEST_VALUE // 2
        return f"{text[:half]}… {len(text) - 2 * half:,} characters more …{text[-half:]}"


def _render_call(name: str, arguments: Json) -> str:
    if isinstance(arguments, dict):
        return _render_members(name, arguments.items())
    return visible(f"{name}({'' if arguments is None else dumps_text(arguments)})")


def _render_members(name: str, members: Iterable[tuple[str, Json]]) -> str:
    # A key that is not an identifier is quoted: it could look like other arguments.
    words = ", ".join(
        f"{key if key.isidentifier() else dumps_text(key)}={dumps_text(value)}"
        for key, value in members
    )
    return visible(f"{name}({words})")


def visible(text: str) -> str:
    """`text` with every invisible character escaped."""
    text = _UNSEEN.sub(lambda found: escape(found[0]), text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else escape(one) for one in text)


def visible_line(text: str) -> str:
    """A text on one line, with invisible characters escaped."""
    return visible(" ".join(text.split()))


# -- how it is answered -------------------------------------------------------------------------


def asks_outcome(ticket: AskedCall) -> bool:
    """Whether the approver is asked for the outcome of a call that a crash cut short."""
    asker = ticket.asker
    return ticket.ticket_id.startswith(f"{OUTCOME_UNKNOWN}:") or (
        asker is not None and asker.reason == OUTCOME_UNKNOWN
    )


def wants_value(ticket: AskedCall) -> bool:
    """Whether the answer itself becomes the call's result, as with front-end tools, or is a message
    to a waiting agent."""
    mode = ticket.answer_mode
    return mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT and not asks_outcome(ticket)


def line_to_answer(id: str, ticket: AskedCall, *, is_cut: bool = False) -> str:
    """The command that says yes to exactly this question, named by its key.

    If a part of the question was left out, the command has no yes: it shows the whole question
    first.
    """
    words = f"awaken decide {shell_word(id)} {shell_word(ticket.answered_by)}"
    if wants_value(ticket):
        return f"{words} --value JSON"
    if is_cut or Question(ticket.tool_name, ticket.arguments).is_cut:
        return words
    return f"{words} yes"


_PLAIN = re.compile(r"[A-Za-z0-9._:@=+-][A-Za-z0-9._:@=+~-]*")


def shell_word(text: str) -> str:
    """An id quoted for the shell; an id with a line break stays on one line."""
    # A shell expands `~` only at the beginning of a word, and ids of delegates have one inside.
    word = text if _PLAIN.fullmatch(text) else shlex.quote(text)
    return word if word.isprintable() else terminal_line(word)
