"""Secrets: text that must not get into logs, reprs or events by accident."""

from __future__ import annotations

import re
from typing import NoReturn

STARS = "***"
# Compiled by the first error that shows an address, not when this module is imported.
_USER = r"(?s)//.*@"
_VALUE = r"(?i)([?&][^=&\s]*(?:pass|pwd|token|secret|key|sig)[^=&\s]*=)[^&#]+"
_SHORTEST_SHOWN = 20
_SHORTEST_REDACTED = 8


def redact_address(address: str) -> str:
    """An address for error texts: without user name, password and secrets in its query."""
    # Up to the last @, because an unescaped password may contain slashes.
    return re.sub(_VALUE, rf"\1{STARS}", re.sub(_USER, f"//{STARS}@", address))


class RedactedString:
    """A secret: printed and encoded as stars, compared by value, read with `expose_secret` only.

    Durable state refuses it, because the stars could not be turned back into the secret.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def expose_secret(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """The text with stars in place of the secret.

        A secret of less than eight characters is left in: it may be a part of any word, and stars
        there would make the text unreadable and give the secret away.
        """
        if len(self._value) < _SHORTEST_REDACTED:
            return text
        return text.replace(self._value, STARS)

    def preview(self) -> str:
        """The first and last four characters, or only stars if the secret is short."""
        if len(self._value) < _SHORTEST_SHOWN:
            return STARS
        return f"{self._value[:4]}{STARS}{self._value[-4:]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedactedString) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return STARS

    def __repr__(self) -> str:
        return f"RedactedString({STARS})"

    def to_wire(self) -> str:
        return STARS

    def to_state(self) -> NoReturn:
        raise TypeError(
            "a RedactedString cannot be stored in durable state: store the secret's name, and look "
            "the secret up where it is used"
        )

    @classmethod
    def from_wire(cls, value: object) -> RedactedString:
        if not isinstance(value, str):
            raise ValueError("a secret is written as text")
        return cls(value)


class SpecSecret(RedactedString):
    """A secret in a spec: its JSON is the secret itself, because specs are stored as JSON."""

    __slots__ = ()

    def to_wire(self) -> str:
        return self.expose_secret()
