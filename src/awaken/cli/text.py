"""Making untrusted text harmless, and showing values in one line.

Texts of models and tools may contain terminal escape sequences. Printed as they are, these could
recolour the screen, overwrite earlier lines or rename the window.
"""

from __future__ import annotations

import re

from awaken.codec import Json, dumps_text

LONGEST = 160
SHORT_ID = 18

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, and C1
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the reading direction
    "\ud800-\udfff]"  # half characters, which no terminal can be sent
)


def clean(text: str) -> str:
    """`text` with every control character replaced by a visible one; newlines and tabs stay."""
    return _CONTROL.sub(_picture, text.replace("\r\n", "\n"))


def json_text(value: Json) -> str:
    """A value as JSON in one line; characters that could control a terminal are escaped."""
    # In JSON such characters occur only inside strings, where an escape means the same character.
    return _CONTROL.sub(lambda found: escaped(found[0]), dumps_text(value))


def escaped(character: str) -> str:
    """A character as JSON escapes it."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # U+241B is a small picture of "ESC"
    return "\u2421" if code == 0x7F else "\ufffd"


def terminal_line(text: str, longest: int = LONGEST) -> str:
    """`text`, harmless, on one line and not longer than `longest`."""
    # Only the beginning is shown, so the rest of a large output need not be cleaned.
    line = " ".join(clean(text[: 4 * longest + 4]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def call_words(name: str, arguments: Json, longest: int = LONGEST) -> str:
    """A call in Python's notation: `find_order(number=1042)`."""
    if isinstance(arguments, dict):
        words = ", ".join(f"{key}={dumps_text(value)}" for key, value in arguments.items())
    else:
        words = "" if arguments is None else dumps_text(arguments)
    name = terminal_line(name)
    return f"{name}({terminal_line(words, max(8, longest - len(name) - 2))})"


def result_words(value: Json, longest: int = LONGEST) -> str:
    """The result of a call: text as it is, anything else as JSON."""
    return terminal_line(value if isinstance(value, str) else dumps_text(value), longest)


def seconds(ms: int) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 5 s`."""
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    whole = round(ms / 1000)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ago(now_ms: int, at_ms: int) -> str:
    """The distance of an instant from now: `3 min ago`, `in 2 h`."""
    away = abs(now_ms - at_ms) // 1000
    if away < 5:
        return "just now"
    words = f"{away} s"
    for unit, length in (("min", 60), ("h", 3_600), ("d", 86_400)):
        if away >= length:
            words = f"{away // length} {unit}"
    return f"{words} ago" if now_ms >= at_ms else f"in {words}"


def size(number: int) -> str:
    """Bytes for people: `512 bytes`, `3.4 MB`."""
    if number < 1_000:
        return count(number, "byte")
    for unit, length in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        words = f"{number / length:.1f} {unit}"
        if number < 999.5 * length:
            break
    return words


def short(id: str) -> str:
    """A shortened id, for places of little room; commands accept it."""
    return id if len(id) <= SHORT_ID else id[:SHORT_ID]
