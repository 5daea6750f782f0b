"""The parent process of the demo: it starts the process that plays it, again after each kill."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.text import Text

from awaken.cli.entry import ITSELF
from awaken.cli.exit_codes import ExitCode
from awaken.cli.output import complain, open_console
from awaken.codec import dumps_text
from awaken.runtime.open_by_name import load

MAX_PROCESSES = 10
HOME_OPTION, SERVED_OPTION = "--home", "--served"
_PORT = 8700


def run_demo(options: Sequence[str], *, as_json: bool) -> ExitCode:
    """Play the demo in a child process; when that is killed, the next one goes on."""
    with TemporaryDirectory(prefix="awaken-demo-") as home, _leave_ctrl_c_to_child():
        for _ in range(MAX_PROCESSES):
            worker = subprocess.Popen([*ITSELF, "demo", *options, HOME_OPTION, home])
            code = worker.wait()
            if code != -signal.SIGKILL:
                return ExitCode(code) if code in tuple(ExitCode) else ExitCode.FAILED
            _report_kill(worker.pid, Path(home), as_json=as_json)
    complain(f"killed {MAX_PROCESSES} times; enough for today")
    return ExitCode.FAILED


def serve_demo(*, opens: bool, speed: float) -> ExitCode:
    """Serve the demo in a child process until Ctrl-C. When the child is killed, start the next one.

    The socket belongs to this process, so the page keeps its address, and the next child answers
    the requests that arrive while there is no child.
    """
    with (
        TemporaryDirectory(prefix="awaken-demo-") as home,
        _leave_ctrl_c_to_child(),
        _free_socket() as listening,
    ):
        is_again = False
        while True:
            given = {
                "home": home,
                "socket": listening.fileno(),
                "is_again": is_again,
                "opens": opens,
                "speed": speed,
            }
            words = [*ITSELF, "demo", SERVED_OPTION, dumps_text(given)]
            child = subprocess.Popen(words, pass_fds=[listening.fileno()])
            code = child.wait()
            if code != -signal.SIGKILL:
                return ExitCode(code) if code in tuple(ExitCode) else ExitCode.FAILED
            _report_kill(child.pid, Path(home), as_json=False)
            is_again = True


def _free_socket() -> socket.socket:
    free: socket.socket = load("awaken.server.serve", "bind_free")("127.0.0.1", _PORT)
    return free


@contextmanager
def _leave_ctrl_c_to_child() -> Iterator[None]:
    """Leave Ctrl-C, which reaches both processes, to the child."""
    # A handler that does nothing: if the signal were ignored, the child would inherit that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _report_kill(pid: int, home: Path, *, as_json: bool) -> None:
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
