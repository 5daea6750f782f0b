"""How texts are cut into words, for indexes and for queries alike. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LONGEST_WORD = 100
"""Characters of a word that count: what is longer is a picture or a key, not a word."""

# Scripts without blanks between words: each character is a word, and a word in a query a phrase.
_SINGLE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def split_words(text: str) -> list[str]:
    """The words of a text, without case and accents."""
    is_ascii = text.isascii()
    found = _ASCII_WORD.findall(text.lower()) if is_ascii else _WORD.findall(fold(text))
    return [word[:LONGEST_WORD] for word in found]


def fold(text: str) -> str:
    """The text without case and accents, and with one spelling of each character."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join([part for part in parts if not unicodedata.combining(part)])
    return unicodedata.normalize("NFC", bare)


def cut_snippet(body: str, phrases: Sequence[Sequence[str]], length: int = 160) -> str:
    """The part of a text around the first place that has one of the phrases, in one line."""
    at = _find_first(body, phrases)
    first = max(0, at - length // 4)
    if first:  # begin behind a blank, if there is one close by
        blank = body.find(" ", first, at)
        first = blank + 1 if blank >= 0 else first
    cut = " ".join(body[first : first + length].split())
    return f"{'…' if first else ''}{cut}{'…' if first + length < len(body) else ''}"


def _find_first(body: str, phrases: Sequence[Sequence[str]]) -> int:
    """The position of the first word of a phrase; 0 if the text is spelt otherwise."""
    lower = body.lower()
    for phrase in phrases:
        pattern = r"[\W_]*".join(re.escape(word) for word in phrase)
        for text in (lower, fold(body) if not body.isascii() else ""):
            if (match := re.search(rf"(?<![^\W_]){pattern}", text)) is not None:
                return match.start()
    return 0
