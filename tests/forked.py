"""Python programs in processes of their own that begin with the project's modules imported.

Most of a short command's time goes into imports. One process imports them and forks for each
command: what is started is a real process with its own arguments, folder, environment, session
and files, and can be killed like any other; it only begins half a second sooner.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

_WAITING = 250.0
_LARGEST = 1 << 20


class Program(NamedTuple):
    """What a forked process runs: `arguments` are those of the interpreter, without options."""

    arguments: Sequence[str]
    folder: str
    environment: Mapping[str, str]


class Forked:
    """A process that was started, and how it ended."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        channel.settimeout(_WAITING)
        self.pid: int = json.loads(channel.recv(64))
        self._code: int | None = None

    def wait(self, timeout: float = _WAITING) -> int:
        """The exit code, negative for a signal, as `subprocess` has it."""
        if self._code is None:
            self._channel.settimeout(timeout)
            self._code = int(json.loads(self._channel.recv(64)))
            self._channel.close()
        return self._code


def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    files: tuple[int, int, int],
) -> Forked:
    """Start a program in a session of its own; `files` become its input, output and errors."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = json.dumps(Program(arguments, str(folder), dict(environment))).encode()
    with theirs:
        socket.send_fds(_forker(os.getpid()), [request], [*files, theirs.fileno()])
    return Forked(ours)


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with `text` as its input."""
    with _files(text) as files:
        code = start(arguments, folder, environment, _numbers(*files)).wait()
        return _completed(arguments, code, *files)


def play(file: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a file of Python to its end, in this folder and environment."""
    return run([str(file), *map(str, arguments)], Path.cwd(), os.environ)


async def play_beside(file: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The same beside other work; it has begun when this first waits."""
    words = [str(file), *map(str, arguments)]
    with _files() as files:
        process = start(words, Path.cwd(), os.environ, _numbers(*files))
        return _completed(words, await asyncio.to_thread(process.wait), *files)


@contextmanager
def _files(text: str = "") -> Iterator[tuple[IO[str], IO[str], IO[str]]]:
    with _file() as given, _file() as out, _file() as err:
        given.write(text)
        given.seek(0)
        yield given, out, err


def _file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8")


def _numbers(given: IO[str], out: IO[str], err: IO[str]) -> tuple[int, int, int]:
    return given.fileno(), out.fileno(), err.fileno()


def _completed(
    arguments: Sequence[str], code: int, _given: IO[str], out: IO[str], err: IO[str]
) -> subprocess.CompletedProcess[str]:
    for file in (out, err):
        file.seek(0)
    return subprocess.CompletedProcess(list(arguments), code, out.read(), err.read())


@cache
def _forker(_owner: int) -> socket.socket:
    """The socket of this process's forker, which ends when the socket is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        os.set_inheritable(theirs.fileno(), True)
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], close_fds=False
        ).returncode = 0  # it lives as long as this process, which does not wait for it
    atexit.register(ours.close)
    return ours


def _serve(requests: socket.socket) -> Program:
    """Fork for each request; returns in the forked process, with what it is to run."""
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    children: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if woken in ready:
                woken.recv(4096)
                _tell_ended(children)
            if requests in ready:
                request, files, _, _ = socket.recv_fds(requests, _LARGEST, 4)
                if not request:
                    sys.exit()
                channel = socket.socket(fileno=files.pop())
                pid = os.fork()
                if pid == 0:
                    program = Program(*json.loads(request))
                    _become(program, files)
                    for held in (requests, woken, wake, channel, *children.values()):
                        held.close()
                    return program
                for file in files:
                    os.close(file)
                children[pid] = channel
                channel.send(json.dumps(pid).encode())


def _tell_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as channel, suppress(OSError):  # the test may have left
            channel.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _become(program: Program, files: Sequence[int]) -> None:
    """Make this process what `subprocess` would have made for the program."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.chdir(program.folder)
    os.environ.clear()
    os.environ.update(program.environment)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The interpreter never closes these three either.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False, buffering=_buffering(1))  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    sys.stderr.reconfigure(errors="backslashreplace")


def _buffering(file: int) -> int:
    return 1 if os.isatty(file) else -1


def _run(program: Program) -> None:
    """As the interpreter does it: `-m module …` or `file …`."""
    first, *rest = program.arguments
    if first == "-m":
        module, *rest = rest
        sys.path[0] = program.folder
        sys.argv = [module, *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(first).parent)
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _import_all() -> None:
    """Import what the command can need, so that no forked process has to."""
    for package in map(importlib.import_module, ("awaken.cli", "awaken.testing")):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                with suppress(ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)


def _main() -> NoReturn:
    _import_all()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        program = _serve(requests)
    _run(program)
    sys.exit()


if __name__ == "__main__":
    _main()
