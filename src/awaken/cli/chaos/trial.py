"""Trials: one conversation each, on a file of its own, with one kill on the way."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec

from awaken.cli.chaos.life import THREAD, Life
from awaken.cli.start import ITSELF
from awaken.codec import dumps_text
from awaken.domain.value import Value
from awaken.testing.chaos import Damage, Note, NoteKind, Picture, damage_between, whole_picture_of

SLOWEST = 30.0
"""Seconds a process may take in any case; it may take ten times as long as the first one."""


class Trial(Value, frozen=True, kw_only=True):
    """What became of one conversation; `at_kill` is what was durable when its process died."""

    final: Picture
    killed_at: str | None = None
    at_kill: Picture | None = None
    notes: tuple[Note, ...] = ()
    damage: Damage = Damage()
    trouble: str | None = None

    @property
    def points(self) -> list[str]:
        return [note.name for note in self.notes if note.kind is NoteKind.POINT]


@dataclass(kw_only=True)
class Trials:
    """How a conversation is tried.

    Args:
        command: what starts a life of it, but for what the life is told.
        once: the tools that must not run twice.
    """

    life: Life
    command: list[str]
    once: Collection[str]
    _patience: float = 600.0

    def undisturbed(self) -> Trial:
        began = time.monotonic()
        trial = self._try(None)
        self._patience = max(SLOWEST, 10 * (time.monotonic() - began))
        return trial

    def killed_at(self, point: int) -> Trial:
        return self._try(point)

    def _try(self, point: int | None) -> Trial:
        home = tempfile.mkdtemp(prefix="awaken-chaos-")
        life = msgspec.structs.replace(self.life, home=home)
        try:
            return self._play(life, point)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _play(self, life: Life, point: int | None) -> Trial:
        at_kill, trouble = None, None
        if point is not None:
            code, said = self._start(msgspec.structs.replace(life, kill_at=point))
            if code == -signal.SIGKILL:
                at_kill = _look(life)
            elif code:
                trouble = f"the process ended with {code}: {said}"
        if trouble is None and (point is None or at_kill is not None):
            code, said = self._start(life)
            trouble = f"the process ended with {code}: {said}" if code else None
        notes, final = tuple(life.witness.notes()), _look(life)
        trial = Trial(
            final=final,
            at_kill=at_kill,
            notes=notes,
            damage=damage_between([at_kill] if at_kill else [], final, notes, self.once),
            trouble=trouble,
        )
        if point is None or at_kill is None:
            return trial
        return msgspec.structs.replace(trial, killed_at=trial.points[point - 1])

    def _start(self, life: Life) -> tuple[int, str]:
        """Run a process to its end, or its kill; returns its exit code and its last words."""
        errors = Path(life.home) / "errors"
        with errors.open("ab") as out:
            process = subprocess.Popen(
                [*self.command, dumps_text(life)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            try:
                code = process.wait(self._patience)
            except subprocess.TimeoutExpired:
                return 1, f"it did not end within {self._patience:.0f} seconds"
            finally:
                process.kill()
                process.wait()
        return code, " / ".join(errors.read_text(errors="replace").splitlines()[-3:])


def _look(life: Life) -> Picture:
    return asyncio.run(_read(life))


async def _read(life: Life) -> Picture:
    store = life.store()
    await store.open()
    try:
        return await whole_picture_of(store, THREAD)
    finally:
        await store.close()


def python_command(target: str, model: str | None) -> list[str]:
    """What starts a life: this very command, told to be a child."""
    chosen = [] if model is None else ["--model", model]
    return [*ITSELF, "chaos", target, "", *chosen, "--life"]
