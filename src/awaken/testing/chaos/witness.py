"""The world outside: a file that remembers what happened, whoever dies."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from awaken.codec import Json, dumps, loads
from awaken.domain.value import Value


class NoteKind(StrEnum):
    """What was seen.

    `point`: a place where a process may be killed was passed. `start`, `end`: a tool's body, with
    nothing of ours between it and the note. `effect`: what the tool did to the world. `asked`: it
    wants an approval instead of an end. `verified`: it was asked whether it had happened. `commit`:
    a store said that something is durable. `sent`: it has taken messages for another thread.
    `model`: a model was asked. `fault`: something no model should ever be shown.
    """

    POINT = "point"
    START = "start"
    EFFECT = "effect"
    END = "end"
    ASKED = "asked"
    VERIFIED = "verified"
    COMMIT = "commit"
    SENT = "sent"
    MODEL = "model"
    FAULT = "fault"


class Note(Value, frozen=True, kw_only=True):
    """One line: who or what it is about, the call's key if it is a call, and who wrote it."""

    kind: NoteKind
    name: str = ""
    key: str = ""
    detail: Json = None
    pid: int = 0


class Witness:
    """Appends notes to a file, each on the disk before the next thing happens.

    Several processes may write at once; a line is written in one piece.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._fd: int | None = None

    def note(self, kind: NoteKind, name: str = "", key: str = "", detail: Json = None) -> None:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        note = Note(kind=kind, name=name, key=key, detail=detail, pid=os.getpid())
        os.write(self._fd, dumps(note) + b"\n")
        if kind is not NoteKind.POINT:  # a point is a place in the program, not in the world
            os.fsync(self._fd)

    def notes(self) -> list[Note]:
        """Everything that was written, in order."""
        if not self.path.exists():
            return []
        return [loads(line, Note) for line in self.path.read_bytes().splitlines()]

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
