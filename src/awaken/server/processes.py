"""Several serving processes on one socket: a small parent starts, watches and replaces them."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

BAD_START_SECONDS = 5.0
"""A child that ends within so many seconds counts as a failed start."""
MAX_BAD_STARTS = 3
POLL_SECONDS = 0.05
MISUSED = 2
"""The exit code of a command with wrong arguments: another try would not help."""
PID = struct.Struct("=I")
"""The message of a child that is ready: its process id."""
log = logging.getLogger("awaken.server")


class WorkerProcesses:
    """Child processes that share a listening socket. The parent serves nothing itself.

    A child that dies is replaced, and the others get SIGUSR1, so that they look for its runs.
    SIGTERM and SIGINT end all children, SIGHUP is passed on. When the parent dies, each child sees
    the end of a pipe.

    Args:
        command: returns the command that starts a child. It gets the child's number, from 0, which
            a child takes over from the dead one that it replaces; and the descriptors of the
            socket, of the pipe to which the child writes when it is ready, and of the pipe that
            ends with the parent.
    """

    def __init__(
        self,
        command: Callable[[int, int, int, int], Sequence[str]],
        count: int,
        sock: socket.socket,
    ) -> None:
        self._command, self._count, self._socket = command, count, sock
        self._ready_here, self._ready_there = os.pipe()
        self._alive_there, self._alive_here = os.pipe()
        self._children: dict[subprocess.Popen[bytes], tuple[int, float]] = {}
        self._ready: set[int] = set()
        self._bad_starts = 0
        self._stops = 0
        self._hangups = 0

    def run(self, on_ready: Callable[[], None]) -> int:
        """Start the children and replace those that die, until all have ended. Returns the exit
        code."""
        with self._handlers():
            for number in range(self._count):
                self._start(number)
            has_started, code = False, None
            while code is None:
                self._read_ready()
                if not has_started and len(self._ready) == self._count:
                    has_started = True
                    on_ready()
                code = self._supervise()
            self._end()
        return code

    def _read_ready(self) -> None:
        """Wait a moment for messages of children that are ready."""
        if select.select([self._ready_here], [], [], POLL_SECONDS)[0]:
            data = os.read(self._ready_here, 1024 * PID.size)
            self._ready |= {pid for (pid,) in PID.iter_unpack(data)}

    def _start(self, number: int) -> None:
        pipes = (self._socket.fileno(), self._ready_there, self._alive_there)
        command = self._command(number, *pipes)
        child = subprocess.Popen(command, pass_fds=pipes, start_new_session=True)
        self._children[child] = number, time.monotonic()

    def _supervise(self) -> int | None:
        """Pass signals on, and replace the dead. Returns the exit code to end with, if any."""
        if self._hangups:
            self._hangups = 0
            self._send_signal(signal.SIGHUP)
        for child in [child for child in self._children if child.poll() is not None]:
            (number, began), code = self._children.pop(child), child.returncode
            self._ready.discard(child.pid)
            log.error("worker %d ended with %d", child.pid, code)
            if self._stops:
                continue
            is_bad = time.monotonic() - began < BAD_START_SECONDS
            self._bad_starts = self._bad_starts + 1 if is_bad else 0
            if is_bad and (code == MISUSED or self._bad_starts >= MAX_BAD_STARTS):
                return code if code > 0 else 1
            self._send_signal(signal.SIGUSR1)  # its runs have no owner now
            self._start(number)
        return 0 if self._stops else None

    def _send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the children that are ready: the others have no handlers yet."""
        for child in self._children:
            if child.pid in self._ready and child.poll() is None:
                child.send_signal(number)

    def _end(self) -> None:
        """End all children, and wait for them. A second signal to the parent kills them."""
        for child in self._children:
            child.terminate()
        while any(child.poll() is None for child in self._children):
            if self._stops > 1:
                for child in self._children:
                    child.kill()
            time.sleep(POLL_SECONDS)

    @contextmanager
    def _handlers(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stops += 1

        def hang_up(number: int, frame: FrameType | None) -> None:
            self._hangups += 1

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: hang_up}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
