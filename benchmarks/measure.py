"""Measuring one program: CPU time, memory, import, and on which Python. Standard library only."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.work import (
    MEMORY,
    RUN_STEPS,
    RUNS,
    WORKLOADS,
    Program,
    Run,
    Tally,
    Unsupported,
    Workload,
    open_crowd,
)

WARM_CROWD = 20


# -- CPU time ---------------------------------------------------------------------------------


def sample(workload: Workload, program: Program) -> float:
    """One figure of a workload, after a warm-up.

    Raises:
        Unsupported: the program cannot do it.
        AssertionError: it did not do what it was asked for.
    """
    return asyncio.run(_sample(workload, program))


async def _sample(workload: Workload, program: Program) -> float:
    tally = Tally()
    async with workload.open(program, tally) as run:
        await start_runs(run, min(workload.at_once, WARM_CROWD))
        gc.collect()
        tally.count = 0
        before = time.process_time()
        for _ in range(workload.times):
            await start_runs(run, workload.at_once)
        spent = time.process_time() - before
    expected = workload.done * workload.at_once * workload.times
    if tally.count != expected:
        raise AssertionError(f"{program.name}, {workload.key}: {tally.count} done, not {expected}")
    return spent / (workload.per * workload.times) * workload.scale


async def start_runs(run: Run, at_once: int) -> None:
    """Do `at_once` runs side by side."""
    if at_once == 1:
        await run()
    else:
        await asyncio.gather(*(run() for _ in range(at_once)))


# -- memory -----------------------------------------------------------------------------------


def memory(program: Program) -> float:
    """KiB a run of W5: what the peak of resident memory grows by. Wants a process of its own.

    Raises:
        Unsupported: the system does not tell, or the program cannot do it.
    """
    return asyncio.run(_memory(program))


async def _memory(program: Program) -> float:
    tally = Tally()
    async with open_crowd(program, tally) as run:
        await start_runs(run, WARM_CROWD)
        gc.collect()
        tally.count = 0
        _forget_peak()
        before = _status_kib("VmRSS")
        await start_runs(run, RUNS)
        peak = _status_kib("VmHWM")
    if tally.count != RUNS * RUN_STEPS:
        raise AssertionError(f"{program.name}, memory: {tally.count} steps, not {RUNS * RUN_STEPS}")
    return (peak - before) / RUNS


def _forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status_kib(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        raise Unsupported("this system has no /proc to read memory from") from None
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


# -- import -----------------------------------------------------------------------------------


def interpreter(python: str, statement: str, path: str = "") -> float:
    """CPU milliseconds of a fresh interpreter that runs one statement, with that `PYTHONPATH`."""
    environment = with_bytecode() | ({"PYTHONPATH": path} if path else {})
    process = subprocess.Popen([python, "-c", statement], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{statement!r} failed")
    return (usage.ru_utime + usage.ru_stime) * 1000


def with_bytecode() -> dict[str, str]:
    """The environment of a fresh interpreter that may use compiled modules, as installed ones are.

    An editable install leaves compiling to the first import; that first one is not measured.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "awaken-bench-pycache")
    return environment


# -- which Python --------------------------------------------------------------------------------


def build() -> str:
    """The version of this Python and how it was configured: `3.11.7 plain`, `3.13.1 PGO+LTO`.

    Plain builds run about a fifth slower. Distributions that optimise without saying so in their
    arguments to `configure` are called plain, too.
    """
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    marks = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}
    found = [mark for mark, argument in marks.items() if argument in arguments]
    return f"{platform.python_version()} {'+'.join(found) or 'plain'}"


# -- one program, alone -----------------------------------------------------------------------


def main(program: Program) -> None:
    """Measure one program and print a line of JSON.

    It is also how to look at one program alone, under a profiler for instance.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--memory", action="store_true", help="only memory, in this process")
    parser.add_argument("--only", metavar="KEY", help="one workload: start, w1, w1_many, w2, …")
    options = parser.parse_args()
    figures: dict[str, Callable[[], float]] = {
        workload.key: partial(sample, workload, program) for workload in WORKLOADS
    }
    if options.memory:
        figures = {MEMORY.key: partial(memory, program)}
    head = {"python": build(), "imports": program.imports}
    answer: dict[str, Any] = {**head, "samples": {}, "reasons": {}}
    for key, figure in figures.items():
        if options.only not in (None, key):
            continue
        try:
            answer["samples"][key] = [
                figure() for _ in range(1 if options.memory else options.repeat)
            ]
        except Unsupported as reason:
            answer["reasons"][key] = str(reason)
    print(json.dumps(answer))
