"""A process of our own: spoken to in lines, and with nothing of it left when it is closed.

`subprocess` starts it and a thread waits for it. asyncio's own processes would do, but for two
things: their `wait` waits for pipes, too, which whatever the process has started may hold open; and
they are reaped at once, after which the number of the group that is to be killed may be another's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from awaken.codec import printable
from awaken.control.tasks import start_logged

log = logging.getLogger("awaken.backend.subprocess")

TAIL = 20
"""How many of the last lines of stderr are kept for whoever asks why the process died."""
_LINE = 4_096
_PIECE = 65_536
_LAST_WORDS = 1.0
"""Seconds until a stderr that somebody outside the group holds open is given up."""
_DEATH = 5.0
"""Seconds until a killed process is taken to hang in the system, which will not let it go."""


class LineTooLong(Exception):
    """The process wrote a line that is longer than allowed."""


class Process:
    """Use it as `async with Process(…) as process:`; leaving the block kills what is left of it.

    Args:
        name: what its lines on stderr are logged under.
        limit: the longest line it may write, in bytes.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str],
        cwd: str | None,
        limit: int,
    ) -> None:
        self._name = name
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._transports: list[asyncio.BaseTransport] = []
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._errors: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._reaped = False
        self.told_to_stop = False
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            threading.Thread(target=self._reap, name=f"process-{self.pid}", daemon=True).start()
        except RuntimeError as error:  # no thread to be had
            with self._popen:
                self._popen.kill()
            raise OSError(str(error)) from error

    @property
    def pid(self) -> int:
        return self._popen.pid

    # -- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            await self._connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _connect(self) -> None:
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self._stdout = await self._reader(stdout, self._limit)
        printed = self._log(await self._reader(stderr, _PIECE))
        self._errors = start_logged(printed, "what a process prints to stderr cannot be read", log)
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), stdin
        )
        self._transports.append(transport)
        self._stdin = asyncio.StreamWriter(transport, protocol, None, self._loop)

    async def _reader(self, pipe: IO[bytes], limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit)
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    async def close(self) -> None:
        """Kill what is left of it, and wait until it is gone."""
        self.kill()
        try:
            _, alive = await asyncio.wait([self._exited], timeout=_DEATH)
            if alive:
                log.warning("%s: process %d does not die", self._name, self.pid)
            await self._hear_out()
        finally:
            for timer in self._timers:
                timer.cancel()
            if self._errors is not None:
                self._errors.cancel()
            for transport in self._transports:
                transport.close()
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if pipe is not None:
                    pipe.close()

    def _reap(self) -> None:
        """Be the thread that waits for the process, and ends with it whatever it has started."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        with self._lock:
            # Not waited for yet, so its number is still its own, and that of its group.
            self._signal(signal.SIGKILL)
            code = self._popen.wait()
            self._reaped = True
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            self._loop.call_soon_threadsafe(self._exited.set_result, code)

    async def wait(self) -> int:
        """Wait until it has ended, and say how: as `Popen.returncode` does."""
        await asyncio.wait([self._exited])
        return self._exited.result()

    # -- stopping -----------------------------------------------------------------------------

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # a group of the dead, by system
            os.killpg(self.pid, number)

    def _send_signal(self, number: signal.Signals) -> None:
        with self._lock:
            if not self._reaped:
                self._signal(number)

    def kill(self) -> None:
        """End the process and all of its group, now."""
        self._send_signal(signal.SIGKILL)

    def stop(self, request: bytes, grace: float) -> None:
        """Ask it to end, then see to it: SIGTERM after half of `grace` seconds, SIGKILL after."""
        if self.told_to_stop:
            return
        self.told_to_stop = True
        self._stdin.write(request)
        self._timers += [
            self._loop.call_later(grace / 2, self._send_signal, signal.SIGTERM),
            self._loop.call_later(grace, self.kill),
        ]

    # -- talking ------------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Send it a line. That nobody reads it any more is found out by reading."""
        self._stdin.write(line)

    async def drain(self) -> None:
        """Wait until most of what was written is read."""
        with suppress(ConnectionError):
            await self._stdin.drain()

    async def line(self) -> bytes | None:
        """The next line it writes; nothing when there will be none, also not half a one.

        Raises:
            LineTooLong: it is longer than allowed.
        """
        try:
            return await self._stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            raise LineTooLong from error

    async def last_words(self) -> list[str]:
        """The last lines on stderr of a process that has ended."""
        await self._hear_out()
        return list(self._tail)

    async def _hear_out(self) -> None:
        if self._errors is not None:
            await asyncio.wait([self._errors], timeout=_LAST_WORDS)

    async def _log(self, stderr: asyncio.StreamReader) -> None:
        rest = b""
        while piece := await stderr.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._note(line)
            if len(rest) > _LINE:
                self._note(rest)
                rest = b""
        if rest:
            self._note(rest)

    def _note(self, line: bytes) -> None:
        text = printable(line[:_LINE].decode(errors="replace").rstrip())
        if text:
            self._tail.append(text)
            log.info("%s: %s", self._name, text)
