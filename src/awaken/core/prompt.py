"""A system prompt that is a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

WritesPrompt = Callable[[Any], str | Awaitable[str]]


class PromptSource:
    """A service of an agent whose system prompt is a function: `write` takes the `PhaseContext` of
    the step, and returns the text."""

    __slots__ = ("write",)

    def __init__(self, write: WritesPrompt) -> None:
        self.write = write
