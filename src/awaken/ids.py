"""New identities, as an argument: tests and replays bring their own."""

from __future__ import annotations

from typing import NewType, Protocol

from uuid_utils import uuid7

ThreadId = NewType("ThreadId", str)
RunId = NewType("RunId", str)


class Ids(Protocol):
    """Makes ids that sort by the order in which they were made."""

    def new(self) -> str: ...


class Uuid7Ids:
    """UUIDv7 text: 36 characters, sortable by creation."""

    def new(self) -> str:
        return str(uuid7())


class SequentialIds:
    """Ids of v7 shape that count up from one: exact in tests and replays."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"00000000-0000-7000-8000-{self._count:012x}"


UUID7 = Uuid7Ids()
