"""Joining the deltas of a stream to texts and arguments, and checking what a model yields."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from awaken.codec import Json, clean_json, loads
from awaken.core.storable import parse_argument
from awaken.errors import ConfigError

S = TypeVar("S", bound=msgspec.Struct)

BROKEN = object()
"""Stands for arguments that are not valid JSON."""


class OpenCall(msgspec.Struct, gc=False):
    """A tool call while its deltas arrive; a call without a name has no start event."""

    id: str
    name: str
    deltas: list[str] = msgspec.field(default_factory=list)
    signature: str | None = None

    def arguments_text(self) -> str:
        """The arguments as text, as far as they have arrived."""
        return join(self.deltas)

    def arguments(self) -> Json:
        """The parsed arguments: `{}` for empty text, `BROKEN` if the text does not parse."""
        written = join(self.deltas)
        if not written or written.isspace():
            return {}
        try:
            return loads(written)
        except (msgspec.DecodeError, UnicodeError):
            try:
                return loads(clean_json(written))
            except (msgspec.DecodeError, RecursionError):
                return BROKEN
        except RecursionError:
            return BROKEN


def join(deltas: list[Any]) -> str:
    """The text of deltas. If one is no text, it is taken out of the list.

    Raises:
        TypeError: one is no text.
    """
    if len(deltas) == 1 and type(deltas[0]) is str:
        return deltas[0]
    try:
        return "".join(deltas)
    except TypeError:
        wrong = next(delta for delta in deltas if not isinstance(delta, str))
        deltas[:] = [delta for delta in deltas if isinstance(delta, str)]
        raise TypeError(f"a model yielded a delta that is no text: {wrong!r}") from None


def check_event(event: S) -> S:
    """An event of a stream as it is after it was stored.

    Raises:
        TypeError: a field has a wrong type, so that the answer could not be read back from a store.
    """
    kind = type(event)
    try:
        checked: S = parse_argument(f"a model yielded a {kind.__name__}, and its", event, kind)
        return checked
    except ConfigError as error:
        raise TypeError(str(error).replace("its.", "its ", 1)) from None
