"""Inventing a tool's arguments from a sentence, for the demo model.

Every function takes any schema, even a broken one, and returns something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from awaken.codec import Json

MAX_DEPTH = 4
MAX_SEARCHED = 2000

_SHAPES = {
    "url": re.compile(r"https?://[^\s\"'<>]+"),
    "uri": re.compile(r"https?://[^\s\"'<>]+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w"),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "path": re.compile(r"[\w.~-]*/[\w./~-]+|[\w-]+\.\w{1,5}\b"),
}


def words_of(text: str) -> list[str]:
    """The words of a sentence, or of a name in any case style, in lower case, without plural s."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    return [word.removesuffix("s") or word for word in re.findall(r"[^\W_]+", spaced)]


_FREE_TEXT = frozenset(
    words_of("body command content expression input message note prompt query question task text")
)
_LEAD = frozenset(
    words_of("a about and at for from in me of on please say that the then to use using with")
)
_NO = frozenset(words_of("disable false never no not off without"))


def guess_arguments(schema: Json, text: str, said: str = "") -> dict[str, Any]:
    """An object for `schema`: all required properties, and the others if `text` mentions them.

    Args:
        said: the part of `text` that names the tool; the arguments are expected after it.
    """
    return _Guess(schema, text, said).object(schema)


class _Guess:
    """The unused parts of a sentence; each number, quote and name is used once."""

    def __init__(self, root: Json, text: str, said: str) -> None:
        self.rest = _rest(text, said)
        # Some patterns take quadratic time on one endless word.
        text = text[:MAX_SEARCHED]
        self.root, self.text = root, text
        self.words = set(words_of(text))
        self.quotes: list[str] = [a or b for a, b in re.findall(r'"([^"]+)"|“([^”]+)”', text)]
        self.quotes += re.findall(r"(?<!\w)'([^']+)'(?!\w)", text)
        # Fifteen digits: as many as a float holds exactly.
        self.numbers: list[str] = re.findall(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?", text)
        # The first word of a sentence is always capitalised, so names further on come first.
        name = r"(?!I\b)[A-Z][\w-]*(?:\s+[A-Z][\w-]*)*"
        inside: list[str] = re.findall(rf"(?<=[^.?!\s]\s){name}", text)
        self.names: list[str] = inside or re.findall(rf"\b{name}", text)

    def object(self, schema: Json, depth: int = 0) -> dict[str, Any]:
        shape = self.plain(schema)
        properties = _dict(shape.get("properties"))
        required = _list(shape.get("required"))
        # The most important names come last in a sentence: "Ask Bob to fly from Paris to Rome".
        strings = sum(self.plain(each)["type"] == "string" for each in properties.values())
        self.names = self.names[-strings:]
        made: dict[str, Any] = {}
        # Required properties come first, so that optional ones only get what is left.
        for name in sorted(properties, key=lambda name: name not in required):
            if name in required or self.speaks_of(name, properties[name]):
                made[name] = self.value(name, properties[name], depth + 1)
        return made

    def speaks_of(self, name: str, schema: Json) -> bool:
        """Whether the sentence has something for an optional property."""
        shape = self.plain(schema)
        if options := _list(shape.get("enum")):
            return self.choice(options) is not None
        if self.words & set(words_of(name)):
            return True
        kind = shape.get("type")
        return bool(
            (kind in ("integer", "number") and self.numbers)
            or (kind == "string" and (self.quotes or name in _FREE_TEXT))
        )

    def value(self, name: str, schema: Json, depth: int) -> Any:
        shape = self.plain(schema)
        if "const" in shape:
            return shape["const"]
        options = _list(shape.get("enum"))
        if options:
            named = self.choice(options)
            return named if named is not None else options[0]
        match shape.get("type"):
            case "integer" | "number" as kind:
                return self.number(shape, kind == "integer")
            case "boolean":
                return not self.words & _NO
            case "null":
                return None
            case "array":
                return self.array(name, shape.get("items"), depth)
            case "object":
                return self.object(shape, depth) if depth < MAX_DEPTH else {}
            case _:
                return self.string(name, shape)

    def array(self, name: str, items: Json, depth: int) -> list[Any]:
        shape = self.plain(items)
        if shape["type"] in ("integer", "number"):
            whole = shape["type"] == "integer"
            return [self.number(shape, whole) for _ in range(max(1, len(self.numbers)))]
        found = self.quotes or self.names
        if shape["type"] == "string" and "enum" not in shape and found:
            values = found.copy()
            found.clear()
            return values
        return [self.value(name, items, depth + 1)] if depth < MAX_DEPTH else []

    def number(self, shape: dict[str, Any], whole: bool) -> float:
        low, high = shape.get("minimum"), shape.get("maximum")
        number = float(self.numbers.pop(0)) if self.numbers else 1.0
        if isinstance(low, int | float):
            number = max(number, low)
        if isinstance(high, int | float):
            number = min(number, high)
        return int(number) if whole or number == int(number) else number

    def string(self, name: str, shape: dict[str, Any]) -> str:
        told = re.search(rf"\b{re.escape(name)}\s*(?:=|:|\bis\b)\s*([^\s,;\"“]+)", self.text, re.I)
        if told:
            return told[1].rstrip(".?!")
        hints = [*words_of(name), shape.get("format")]
        for key, pattern in _SHAPES.items():
            found = pattern.search(self.text) if key in hints else None
            if found:
                return found[0]
        if self.quotes:
            return self.quotes.pop(0)
        if name in _FREE_TEXT and self.rest:
            return self.rest
        if self.names:
            return self.names.pop(0)
        return self.rest or self.text.strip() or name

    def choice(self, options: Iterable[Any]) -> Any:
        """The option the sentence names, or `None`."""
        for option in options:
            parts = set(words_of(str(option)))
            if parts and parts <= self.words:
                return option
        return None

    def plain(self, schema: Json) -> dict[str, Any]:
        """The schema with references resolved and the first alternative that is not null chosen."""
        shape = _dict(schema)
        for _ in range(MAX_DEPTH):
            reference = shape.get("$ref")
            branches = next((shape[k] for k in ("anyOf", "oneOf", "allOf") if shape.get(k)), None)
            if isinstance(reference, str):
                shape = self.follow(reference)
            elif isinstance(branches, list):
                shape = next((b for b in map(_dict, branches) if b.get("type") != "null"), {})
            else:
                break
        kind = shape.get("type")
        if isinstance(kind, list):
            kind = next((k for k in kind if k != "null"), "null")
        return {**shape, "type": kind if isinstance(kind, str) else None}

    def follow(self, reference: str) -> dict[str, Any]:
        found = self.root
        for part in reference.removeprefix("#/").split("/"):
            found = _dict(found).get(part)
        return _dict(found)


def _rest(text: str, said: str) -> str:
    """The rest of a sentence after the name of the tool."""
    found = re.search(rf"{re.escape(said)}\w*", text, re.IGNORECASE) if said else None
    words = text[found.end() if found else 0 :].split()
    while words and words[0].lower().strip(":,") in {*_LEAD, ""}:
        del words[0]
    return " ".join(words).strip(" \"'“”.?!")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
