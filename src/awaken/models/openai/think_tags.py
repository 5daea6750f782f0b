"""Reasoning that a model writes into its text, between `<think>` and `</think>`."""

from __future__ import annotations

from typing import Literal

_OPEN, _CLOSE = "<think>", "</think>"
_MAX_SPACE = 256
"""The most characters of white space that are held back until it is clear where they belong."""

Found = tuple[Literal["text", "reasoning"], str]


class ThinkTags:
    """Splits the text of one answer into reasoning and the rest.

    Only tags at the beginning of the answer count: later ones are part of the text. A tag may
    arrive in several pieces.
    """

    def __init__(self) -> None:
        self._held = ""
        self._inside = self._thought = self._passed = False
        self.ended = False
        """Whether all further text is the answer's own, and need not be fed."""

    def feed(self, text: str) -> list[Found]:
        """The parts of the next piece of text that can be told apart by now."""
        self._held += text
        found: list[Found] = []
        if not (self._inside or self._passed):
            self._open(found)
        if self._inside:
            self._close(found)
        if self._passed:
            self._answer(found)
        return found

    def flush(self) -> list[Found]:
        """What is left at the end of the answer."""
        held, self._held = self._held, ""
        self.ended = True
        if not held or self._passed:
            return []
        return [("reasoning" if self._inside else "text", held)]

    def _open(self, found: list[Found]) -> None:
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._inside, self._held = True, start[len(_OPEN) :]
        elif not _OPEN.startswith(start) or len(self._held) > _MAX_SPACE:
            found.append(("text", self._held))
            self._held, self.ended = "", True

    def _close(self, found: list[Found]) -> None:
        if not self._thought:
            self._held = self._held.lstrip()
        reasoning, tag, rest = self._held.partition(_CLOSE)
        if tag:
            self._inside, self._passed, self._held = False, True, rest
            reasoning = reasoning.rstrip()
        else:
            # A beginning of the closing tag, and white space before it, wait for what follows.
            kept = _beginning(self._held, _CLOSE)
            reasoning = self._held[: len(self._held) - kept]
            if len(reasoning) <= _MAX_SPACE or not reasoning.isspace():
                reasoning = reasoning.rstrip()
            self._held = self._held[len(reasoning) :]
        if reasoning:
            self._thought = True
            found.append(("reasoning", reasoning))

    def _answer(self, found: list[Found]) -> None:
        text, self._held = self._held.lstrip(), ""
        if text:
            found.append(("text", text))
            self.ended = True


def _beginning(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    return next((n for n in range(len(tag) - 1, 0, -1) if text.endswith(tag[:n])), 0)
