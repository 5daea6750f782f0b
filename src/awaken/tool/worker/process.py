"""One worker process, as its owner sees it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress

from awaken.errors import ConfigError
from awaken.tool.worker.environment import DEPTH, inherited
from awaken.tool.worker.wire import READY, BadFrame, Setup, receive_answer, send

GRACE = 2.0
"""Seconds a worker without work has for its exit handlers."""
_START_SECONDS = 60.0

_STDERR = 2
# The path comes first: without it the worker may not find this library.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from awaken.tool.worker.serve import main; main(int(sys.argv[1]))"
)


def check_system() -> None:
    """Make sure that worker processes can be had.

    Raises:
        ConfigError: not on this system.
    """
    if os.name != "posix":
        raise ConfigError(
            "isolated tools need process groups, which Windows does not have: leave out "
            "isolated=True there, or make the function async"
        )
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigError(
            "isolated tools need a Python to start, and this program is its own: leave out "
            "isolated=True, or make the function async"
        )


# Held while one is started or let go: a fork in between would keep what it must not have.
_LIST = threading.Lock()
_ALL: set[WorkerProcess] = set()


def _forget_all() -> None:
    """In a fork: workers end with the process that started them, whatever forks of it do."""
    for worker in _ALL:
        worker.forget()
    _ALL.clear()
    _LIST.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_LIST.acquire, after_in_parent=_LIST.release, after_in_child=_forget_all
    )


class WorkerProcess:
    """A fresh Python in a process group of its own, never a fork of this one.

    It dies when this process does. What it prints goes to our stderr. One thread talks with it; any
    may kill it. It must `get_ready` before its first call.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._over = False
        self._calls = 0
        with _LIST, ExitStack() as undo:
            self._channel, theirs = socket.socketpair()
            undo.callback(self._channel.close)
            with theirs:
                inside, self._lifeline = os.pipe()
                undo.callback(os.close, self._lifeline)
                try:
                    self._process = subprocess.Popen(
                        _command(theirs.fileno()),
                        stdin=inside,
                        stdout=_STDERR,
                        pass_fds=(theirs.fileno(),),
                        env=inherited((DEPTH, *setup.pass_env)),
                        start_new_session=True,
                    )
                finally:
                    os.close(inside)
            undo.pop_all()
            _ALL.add(self)

    def get_ready(self) -> None:
        """Wait until it has imported its function.

        Raises:
            ConfigError: it cannot.
        """
        said, wrong = None, ""
        try:
            self._channel.settimeout(_START_SECONDS)
            send(self._channel, pickle.dumps(self._setup), 0)
            said = receive_answer(self._channel, 0)
            self._channel.settimeout(None)
        except BadFrame as error:
            wrong = str(error)
        except TimeoutError:
            wrong = f"it took longer than {_START_SECONDS:g} seconds"
        except OSError:
            pass  # it died, and how it did says why
        if said != READY:
            status = self.end()
            why = said.decode() if said else wrong or f"it {how_it_ended(status)}"
            raise ConfigError(
                f"the worker process of tool {self._setup.tool!r} did not get to import "
                f"{self._setup.target}: {why}"
            )

    def is_alive(self) -> bool:
        """Whether it waits for a call; one that has said something meanwhile cannot be trusted."""
        try:
            self._channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def call(self, request: bytes) -> bytes | None:
        """What it answers, or `None` if it died, or must: its answer cannot be had.

        Raises:
            BadFrame: it said something else, and must die for that.
        """
        self._calls += 1
        try:
            send(self._channel, request, self._calls)
            return receive_answer(self._channel, self._calls)
        except BadFrame:
            raise
        except (OSError, MemoryError):
            return None

    def kill(self) -> None:
        """Kill it, and all it started; whoever talks with it is told that it died."""
        with self._lock:
            if not self._over:
                self._kill_group()
                # A stray process may hold the other end of the channel, and is not waited for.
                with suppress(OSError):
                    self._channel.shutdown(socket.SHUT_RDWR)

    def end(self) -> int:
        """Kill what is left of it, and wait until it is dead: how it ended, as `Popen` says it.

        A process that is exiting already keeps the status it exits with.
        """
        with self._lock:
            self._over = True
            self._kill_group()
        status = self._process.wait()
        with _LIST:
            _ALL.discard(self)
            self.forget()
        return status

    def retire(self) -> None:
        """Let it run its exit handlers, then end it."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            self._channel.settimeout(GRACE)
            self._channel.recv(1)
        self.end()

    def forget(self) -> None:
        """Let go of it, though it may live."""
        self._process.returncode = self._process.returncode or 0
        self._channel.close()
        os.close(self._lifeline)

    def _kill_group(self) -> None:
        # It was not waited for yet, so nobody else can have its number. Some systems refuse to
        # kill what is dead.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _command(channel: int) -> list[str]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-u", "-c", _BOOT, str(channel), *map(str, sys.path)]


def how_it_ended(status: int) -> str:
    """`Popen`'s return code in words."""
    if status >= 0:
        return f"exited with code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
