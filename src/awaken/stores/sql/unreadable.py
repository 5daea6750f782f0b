"""Rows that this version cannot decode: lists leave them out, and each is logged once."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from awaken.codec import loads

T = TypeVar("T")
log = logging.getLogger("awaken.stores")


class Unreadable:
    """Decodes rows, and remembers which ones it has logged; used by the reading thread."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def read(self, name: str, body: bytes, type: type[T]) -> T | None:
        """The value of a row, or `None` if it cannot be decoded."""
        try:
            return loads(body, type)
        except msgspec.MsgspecError as error:
            if name not in self._logged:
                self._logged.add(name)
                log.error("%s does not fit this version of awaken and is left out: %s", name, error)
            return None
