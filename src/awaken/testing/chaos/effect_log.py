"""Killing the process at a chosen point."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection

from awaken.testing.chaos.witness import NoteKind, Witness


class KillSwitch:
    """Counts the points this process passes, and kills it with SIGKILL at the chosen ones.

    The count continues that of earlier processes with the same witness, so that a point in a later
    process can be chosen, too.
    """

    def __init__(self, witness: Witness, at: Collection[int] = ()) -> None:
        self.witness = witness
        self._at = frozenset(at)
        self._passed = sum(note.kind is NoteKind.POINT for note in witness.notes())

    def reach(self, name: str) -> None:
        """Pass a point, or kill the process if this point was chosen."""
        self._passed += 1
        self.witness.note(NoteKind.POINT, name)
        if self._passed in self._at:
            os.kill(os.getpid(), signal.SIGKILL)
