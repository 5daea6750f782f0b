"""What an approver is shown of a call: every key, every character, and what was left out.

A person can agree only to what can be seen. So nothing is collapsed, characters that would not show
are escaped, and each long value is shortened by itself, so that none hides the ones behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from awaken.cli.text import escaped
from awaken.codec import Json, dumps_text

LONGEST_VALUE = 400
MOST_ITEMS = 50
DEEPEST = 12


class Question:
    """A call as it is shown; `is_cut` says that something of its arguments was left out."""

    def __init__(self, name: str, arguments: Json) -> None:
        self._name, self._arguments = name, arguments
        self.is_cut = False
        if isinstance(arguments, dict):
            members = [(self._short_text(key), self._short(arguments[key], 1)) for key in arguments]
            self.words = _call(name, members)
        else:
            self.words = _written(name, self._short(arguments, 1))

    @property
    def whole(self) -> str:
        """All of it, however long."""
        return _written(self._name, self._arguments)

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


def _written(name: str, arguments: Json) -> str:
    if isinstance(arguments, dict):
        return _call(name, arguments.items())
    return _visible(f"{name}({'' if arguments is None else dumps_text(arguments)})")


def _call(name: str, members: Iterable[tuple[str, Json]]) -> str:
    # A key that is no name is quoted: it could look like other arguments.
    words = ", ".join(
        f"{key if key.isidentifier() else dumps_text(key)}={dumps_text(value)}"
        for key, value in members
    )
    return _visible(f"{name}({words})")


def _visible(text: str) -> str:
    """`text` with every character that would not show escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else escaped(one) for one in text)
