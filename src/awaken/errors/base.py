"""The base of all errors, and errors in what a caller gives."""

from __future__ import annotations

from collections.abc import Callable


def describe(error: object) -> str:
    """The text of an error, or its class name if the text is empty."""
    if isinstance(error, MemoryError):
        return "out of memory"
    return text_of(error, str) or type(error).__name__


def type_of(value: object) -> str:
    """The type of a value as a sentence names it: `an int`, `a dict`, `None`."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def name_of(function: object) -> str:
    """The name of a function in messages; of another thing that can be called, its type."""
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type_of(function)


def text_of(value: object, convert: Callable[[object], str]) -> str:
    try:
        return convert(value)
    except BaseException:  # `__str__` of an error may be user code, and may raise
        return f"{type(value).__name__} (its text cannot be read)"


class AwakenError(Exception):
    """The base class of all errors that this library raises on purpose."""


class ConfigError(AwakenError):
    """A name, address or argument given to the library cannot work."""


class InvalidId(ConfigError):
    """A caller gave something new an id that is not allowed. Nothing was written."""

    def __init__(
        self,
        id: object,
        *,
        what: str = "thread id",
        allowed: str = "1 to 200 letters, digits and characters of . _ : @ = + -",
    ) -> None:
        given = repr(id)
        shown = given if len(given) <= 80 else f"{given[:80]}… ({len(given)} characters)"
        super().__init__(f"{shown} cannot be a {what}: use {allowed}")
        self.id = id
