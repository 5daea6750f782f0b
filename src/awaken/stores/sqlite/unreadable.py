"""Rows that this version cannot read: each is left out of long lists, and logged once."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from awaken.codec import loads

T = TypeVar("T")
log = logging.getLogger("awaken.stores")


class Unreadable:
    """What was logged so far; used by the thread that reads."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def read(self, name: str, body: bytes, type: type[T]) -> T | None:
        """The value of a row; nothing if it cannot be read: the others are not to suffer for it."""
        try:
            return loads(body, type)
        except msgspec.MsgspecError as error:
            if name not in self._logged:
                self._logged.add(name)
                log.error(
                    "%s does not fit this version of awaken, and is left out: %s", name, error
                )
            return None
