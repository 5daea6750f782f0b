"""Id generators. They are passed as arguments, so that tests and replays can use their own."""

from __future__ import annotations

from typing import Protocol

from uuid_utils import uuid7

__all__ = ["UUID7", "Ids", "SequentialIds", "Uuid7Ids"]


class Ids(Protocol):
    """Makes unique ids that sort in the order of their creation."""

    def new(self) -> str: ...


class Uuid7Ids:
    """UUIDv7 texts of 36 characters."""

    def new(self) -> str:
        return str(uuid7())


class SequentialIds:
    """Ids in the form of UUIDv7 that count up from 1, for tests and replays."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"00000000-0000-7000-8000-{self._count:012x}"


UUID7 = Uuid7Ids()
