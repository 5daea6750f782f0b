"""The parent process of the demo: it starts the process that plays it, again after each kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.text import Text

from awaken.cli.console import open_console
from awaken.cli.exits import Exit
from awaken.cli.options import complain
from awaken.cli.start import ITSELF

MOST_LIVES = 10
HOME_OPTION = "--home"


def run_demo(options: Sequence[str], *, as_json: bool) -> Exit:
    """Play the demo in a child process; when that is killed, the next one goes on."""
    with TemporaryDirectory(prefix="awaken-demo-") as home, _not_interrupted():
        for _ in range(MOST_LIVES):
            worker = subprocess.Popen([*ITSELF, "demo", *options, HOME_OPTION, home])
            code = worker.wait()
            if code != -signal.SIGKILL:
                return Exit(code) if code in tuple(Exit) else Exit.FAILED
            _mourn(worker.pid, Path(home), as_json=as_json)
    complain(f"killed {MOST_LIVES} times; enough for today")
    return Exit.FAILED


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Leave Ctrl-C, which reaches both processes, to the child."""
    # A handler that does nothing: if the signal were ignored, the child would inherit that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _mourn(pid: int, home: Path, *, as_json: bool) -> None:
    killed = f"process {pid} is dead: SIGKILL gives a process no time to save anything"
    again = (
        f"a new process opens the same file, {home / 'demo.db'}, and goes on from the last commit"
    )
    if as_json:
        complain(killed)
        return complain(again)
    console = open_console(sys.stdout)
    console.show_cursor()  # a spinner may have hidden it
    console.print()
    console.print(Text(f"✗ {killed}", "bold red"))
    console.print(Text(f"↻ {again}", "bold green"))
