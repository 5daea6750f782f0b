"""Text that must not reach a log, a repr or an event by accident."""

from __future__ import annotations


class RedactedString:
    """A secret: printed as stars, compared by value, opened by `expose_secret` alone."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def expose_secret(self) -> str:
        return self._value

    def preview(self) -> str:
        """The first and last four characters, or nothing when that would give too much away."""
        if len(self._value) < 12:
            return "***"
        return f"{self._value[:4]}***{self._value[-4:]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedactedString) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return "RedactedString(***)"

    def to_wire(self) -> str:
        return self._value

    @classmethod
    def from_wire(cls, value: object) -> RedactedString:
        if not isinstance(value, str):
            raise ValueError("a secret is written as text")
        return cls(value)
