"""One worker process, as its owner sees it."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from contextlib import suppress

from awaken.core.aio.child_process import FORK_LOCK, ChildProcess, child_environment, describe_exit
from awaken.errors import ConfigError
from awaken.tool.isolation.frames import READY, BadFrame, Setup, receive_answer, send_frame

GRACE = 2.0
"""Seconds that an idle worker has for its exit handlers."""
_START_SECONDS = 60.0

_STDERR = 2
# The path is set first: without it the worker may not find this library.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from awaken.tool.isolation.child_main import main; main(int(sys.argv[1]))"
)


def check_system() -> None:
    """Make sure that this system can have worker processes.

    Raises:
        ConfigError: this system cannot.
    """
    if os.name != "posix":
        raise ConfigError(
            "isolated tools need process groups, which Windows does not have: leave out "
            "isolated=True there, or make the function async"
        )
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigError(
            "isolated tools need a Python interpreter to start, and this program is frozen: leave "
            "out isolated=True, or make the function async"
        )


class WorkerProcess:
    """A fresh Python process, never a fork of this one, that calls one function.

    It dies when this process does. Its output goes to this process's stderr. One thread talks
    to it; any thread may kill it. Call `get_ready` before the first `call`.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._calls = 0
        with FORK_LOCK:
            self._channel, theirs = socket.socketpair()
            try:
                with theirs:
                    self._child = ChildProcess(
                        _command(theirs.fileno()),
                        env=child_environment(setup.pass_env),
                        stdout=_STDERR,
                        stderr=None,
                        pass_fds=[theirs.fileno()],
                        channel=self._channel,
                    )
            except BaseException:
                self._channel.close()
                raise

    def get_ready(self) -> None:
        """Wait until the worker has imported its function.

        Raises:
            ConfigError: the worker could not import it, and has been ended.
        """
        said, wrong = None, ""
        try:
            self._channel.settimeout(_START_SECONDS)
            send_frame(self._channel, pickle.dumps(self._setup), 0)
            said = receive_answer(self._channel, 0)
            self._channel.settimeout(None)
        except BadFrame as error:
            wrong = str(error)
        except TimeoutError:
            wrong = f"it took longer than {_START_SECONDS:g} seconds"
        except OSError:
            pass  # it died, and its return code says how
        if said != READY:
            code = self.end()
            why = said.decode() if said else wrong or f"it {describe_exit(code)}"
            raise ConfigError(
                f"the worker process of tool {self._setup.tool!r} did not get to import "
                f"{self._setup.target}: {why}"
            )

    def is_alive(self) -> bool:
        """Whether it waits for a call. A worker that wrote something between two calls does not
        count as alive: it cannot be trusted."""
        try:
            self._channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def call(self, request: bytes) -> bytes | None:
        """The worker's answer. Returns `None` if the worker died or its answer does not fit in
        memory; the caller then ends it.

        Raises:
            BadFrame: the worker wrote something that is not an answer; the caller ends it.
        """
        self._calls += 1
        try:
            send_frame(self._channel, request, self._calls)
            return receive_answer(self._channel, self._calls)
        except BadFrame:
            raise
        except (OSError, MemoryError):
            return None

    def kill(self) -> None:
        """Kill it and all it started; the thread that talks with it sees the end of the channel."""
        self._child.kill()
        # A process that left the worker's group may hold the other end of the channel open.
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def end(self) -> int:
        """Kill it if it lives, and wait for its end; returns its return code, as `Popen` does."""
        return self._child.end()

    def retire(self) -> None:
        """Let it run its exit handlers, then end it."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        self._child.end(GRACE)


def _command(channel: int) -> list[str]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-u", "-c", _BOOT, str(channel), *map(str, sys.path)]
