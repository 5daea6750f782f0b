"""A log of effects that survives the process, and a switch that kills it at a chosen point.

The log is a file; it stands for the outside world.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from awaken.codec import Json, dumps, loads
from awaken.core.value import Value


class NoteKind(StrEnum):
    """The kinds of notes.

    `point`: the process passed a place where it may be killed. `start`, `end`: directly before and
    after a tool's body. `effect`: a side effect of the tool. `asked`: the tool asked for an
    approval instead of ending. `verified`: the tool's `verify` was called. `commit`: a store
    confirmed a commit. `sent`: a store took messages for another thread. `model`: a model was
    asked. `fault`: a model was shown something invalid.
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
    """One line: its subject, the call's key if it is about a call, and the process that wrote
    it."""

    kind: NoteKind
    name: str = ""
    key: str = ""
    detail: Json = None
    pid: int = 0


class EffectLog:
    """Appends notes to a file; each is on the disk before `note` returns.

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
        if kind is not NoteKind.POINT:  # a point need not survive a crash of the machine
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


class KillSwitch:
    """Counts the points this process passes, and kills it with SIGKILL at the chosen ones.

    The count continues that of earlier processes with the same effect log, so that a point in a
    later process can be chosen, too.
    """

    def __init__(self, effect_log: EffectLog, at: Collection[int] = ()) -> None:
        self.effect_log = effect_log
        self._at = frozenset(at)
        self._passed = sum(note.kind is NoteKind.POINT for note in effect_log.notes())

    def reach(self, name: str) -> None:
        """Pass a point, or kill the process if this point was chosen."""
        self._passed += 1
        self.effect_log.note(NoteKind.POINT, name)
        if self._passed in self._at:
            os.kill(os.getpid(), signal.SIGKILL)
