"""Trials: each runs one conversation on its own database file, with one kill."""

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

from awaken.cli.chaos.child_main import THREAD, ProcessOptions
from awaken.cli.entry import ITSELF
from awaken.codec import dumps_text
from awaken.core.value import Value
from awaken.testing.chaos import Damage, Note, NoteKind, ThreadDump, damage_between, dump_store

MIN_TIME_LIMIT = 30.0
"""The least time limit for a process, in seconds. The limit is ten times the duration of the first
process."""


class Trial(Value, frozen=True, kw_only=True):
    """The outcome of one conversation; `at_kill` is what the store held when the process was
    killed."""

    final: ThreadDump
    killed_at: str | None = None
    at_kill: ThreadDump | None = None
    notes: tuple[Note, ...] = ()
    damage: Damage = Damage()
    trouble: str | None = None

    @property
    def points(self) -> list[str]:
        return [note.name for note in self.notes if note.kind is NoteKind.POINT]


@dataclass(kw_only=True)
class Trials:
    """Runs a conversation, undisturbed or with a kill.

    Args:
        command: the command that starts a process, without its options.
        once: the tools that must not run twice.
    """

    options: ProcessOptions
    command: list[str]
    once: Collection[str]
    _time_limit: float = 600.0

    def run_undisturbed(self) -> Trial:
        began = time.monotonic()
        trial = self._run_trial(None)
        self._time_limit = max(MIN_TIME_LIMIT, 10 * (time.monotonic() - began))
        return trial

    def run_killed_at(self, point: int) -> Trial:
        return self._run_trial(point)

    def _run_trial(self, point: int | None) -> Trial:
        home = tempfile.mkdtemp(prefix="awaken-chaos-")
        options = msgspec.structs.replace(self.options, home=home)
        try:
            return self._run_processes(options, point)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _run_processes(self, options: ProcessOptions, point: int | None) -> Trial:
        at_kill, trouble = None, None
        if point is not None:
            code, stderr = self._start(msgspec.structs.replace(options, kill_at=point))
            if code == -signal.SIGKILL:
                at_kill = _load_dump(options)
            elif code:
                trouble = f"the process ended with {code}: {stderr}"
        if trouble is None and (point is None or at_kill is not None):
            code, stderr = self._start(options)
            trouble = f"the process ended with {code}: {stderr}" if code else None
        notes, final = tuple(options.effect_log.notes()), _load_dump(options)
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

    def _start(self, options: ProcessOptions) -> tuple[int, str]:
        """Run a process until it ends or is killed. Returns its exit code and its last lines of
        stderr."""
        errors = Path(options.home) / "errors"
        with errors.open("ab") as out:
            process = subprocess.Popen(
                [*self.command, dumps_text(options)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            try:
                code = process.wait(self._time_limit)
            except subprocess.TimeoutExpired:
                return 1, f"it did not end within {self._time_limit:.0f} seconds"
            finally:
                process.kill()
                process.wait()
        return code, " / ".join(errors.read_text(errors="replace").splitlines()[-3:])


def _load_dump(options: ProcessOptions) -> ThreadDump:
    return asyncio.run(_load_dump_async(options))


async def _load_dump_async(options: ProcessOptions) -> ThreadDump:
    store = options.store()
    await store.open()
    try:
        return await dump_store(store, THREAD)
    finally:
        await store.close()


def python_command(target: str, model: str | None) -> list[str]:
    """The command that starts a process of a trial: this program with `--life`."""
    chosen = [] if model is None else ["--model", model]
    return [*ITSELF, "chaos", target, "", *chosen, "--life"]
