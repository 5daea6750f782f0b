"""Writing values as Python source that a formatter leaves unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

WIDTH = 88
SHORT = 60
LONGEST = 4_000
_PUBLIC = ("awaken", "awaken.events", "awaken.models", "awaken.tool")
"""Where the types of values are imported from, in source that has to work with later releases."""
_PLAIN = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class SourceCall:
    """A call in the source: a name and its arguments."""

    def __init__(self, name: str, *args: object, **named: object) -> None:
        self.name = name
        self.args = args
        self.named = named


class SourceName(str):
    """A name in the source."""


@cache
def public_module(kind: type) -> str:
    """The public module that has a type.

    Raises:
        LookupError: no public module has it.
    """
    for name in _PUBLIC:
        module = import_module(name)
        if kind.__name__ in module.__all__ and getattr(module, kind.__name__) is kind:
            return name
    raise LookupError(f"{kind.__module__}.{kind.__name__} is in none of {', '.join(_PUBLIC)}")


class Source:
    """Writes values as Python source, and collects the names to import and the texts that are too
    long to stand inline.

    Args:
        beside: texts longer than this go into a file beside the source; `None` if there is no such
            file.
    """

    def __init__(self, beside: int | None = LONGEST) -> None:
        self.imports: dict[str, set[str]] = {}
        self.texts: dict[str, str] = {}
        self.large: dict[str, str] = {}
        self._beside = beside
        self.begin("TEXT")

    def use(self, module: str, name: str) -> str:
        """Returns a name, and notes that it has to be imported from a module."""
        self.imports.setdefault(module, set()).add(name)
        return name

    def _use_type(self, kind: type) -> str:
        return self.use(public_module(kind), kind.__name__)

    def begin(self, texts: str) -> None:
        """Use this prefix for the names of long texts from now on."""
        self._prefix = texts
        self._known: dict[str, str] = {}

    def write(self, value: Any, *, before: str = "", indent: int = 0) -> str:
        """The source of a value, after the text `before` on its first line, indented by
        `indent`."""
        return self._laid(before, value, indent, WIDTH)

    def _laid(self, before: str, value: Any, indent: int, room: int) -> str:
        """In one line if there is room, else one line for each item."""
        whole, pad = f"{' ' * indent}{before}{self._line(value)}", " " * indent
        parts = self._parts(value)
        if len(whole) <= room or parts is None or not parts[1]:
            return whole
        opening, items, closing = parts
        # Each item is followed by a comma.
        inner = [self._laid(head, item, indent + 4, WIDTH - 1) + "," for head, item in items]
        return "\n".join([f"{pad}{before}{opening}", *inner, f"{pad}{closing}"])

    def _line(self, value: Any) -> str:
        """The value in one line."""
        if isinstance(value, SourceName):
            return str(value)
        if isinstance(value, str) and not isinstance(value, Enum):
            return self._text(value)
        if parts := self._parts(value):
            opening, items, closing = parts
            inner = ", ".join(f"{head}{self._line(item)}" for head, item in items)
            comma = "," if opening == "(" and len(items) == 1 else ""
            return f"{opening}{inner}{comma}{closing}"
        if isinstance(value, Enum):
            return f"{self._use_type(type(value))}.{value.name}"
        return repr(value)

    def _parts(self, value: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
        """The opening, items and closing of a value that can be split into lines; else `None`."""
        if isinstance(value, SourceCall):
            named = [(f"{name}=", item) for name, item in value.named.items()]
            return f"{value.name}(", [*(("", item) for item in value.args), *named], ")"
        if isinstance(value, msgspec.Struct):
            name = self._use_type(type(value))
            return f"{name}(", [(f"{field}=", item) for field, item in _set_fields(value)], ")"
        if isinstance(value, Mapping):
            items = [(f"{self._line(key)}: ", item) for key, item in value.items()]
            return "{", items, "}"
        if isinstance(value, tuple):
            return "(", [("", item) for item in value], ")"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return "[", [("", item) for item in value], "]"
        return None

    def _text(self, text: str) -> str:
        literal = quoted(text)
        if len(literal) <= SHORT:
            return literal
        if text not in self._known:
            if self._beside is not None and len(text) > self._beside:
                name = f"{self._prefix.lower()}_{len(self._known) + 1}"
                self.large[name] = text
                self._known[text] = f'TEXTS["{name}"]'
            else:
                name = f"{self._prefix}_{len(self._known) + 1}"
                self.texts[name] = text
                self._known[text] = name
        return self._known[text]


def _set_fields(value: msgspec.Struct) -> Iterable[tuple[str, Any]]:
    """The fields of a value that differ from their defaults."""
    for info in msgspec.structs.fields(value):
        item = getattr(value, info.name)
        if info.default is not msgspec.NODEFAULT and item == info.default:
            continue
        if info.default_factory is not msgspec.NODEFAULT and item == info.default_factory():
            continue
        yield info.name, item


def quoted(text: str) -> str:
    """A text as a literal in one line, in the quotes that need fewer backslashes."""
    quote = '"' if text.count('"') <= text.count("'") else "'"
    return quote + "".join(_escaped(letter, quote) for letter in text) + quote


def _escaped(letter: str, quote: str) -> str:
    if letter == quote:
        return f"\\{letter}"
    if letter in _PLAIN:
        return _PLAIN[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def block(name: str, text: str) -> str:
    """A long text as a constant, line by line; a line of the text that is too long is continued
    with a backslash."""
    lines = [_wrapped(line) for line in text.split("\n")]
    return f'{name} = """\\\n' + "\n".join(lines) + '"""'


def _wrapped(line: str) -> str:
    escaped = "".join(_escaped(letter, "") if letter != "\t" else letter for letter in line)
    # A quote at the end of the last line would touch the closing quotes.
    escaped = re.sub(r'"(?="")|"$', lambda _: '\\"', escaped)
    if escaped.endswith((" ", "\t")):
        escaped = escaped[:-1] + ("\\x20" if escaped[-1] == " " else "\\t")
    pieces = [""]
    for word in re.findall(r"\S+\s*|\s+", escaped):
        if pieces[-1] and len(pieces[-1]) + len(word) > WIDTH - len('"""'):
            pieces.append("")
        pieces[-1] += word
    return "\\\n".join(pieces)
