"""Communicating with an agent's process from asyncio: lines in and out, and the end of stderr.

asyncio's own processes are not used: their `wait` waits for pipes, which any process that the agent
has started may hold open.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

from awaken.codec import printable
from awaken.core.aio.child_process import ChildProcess

log = logging.getLogger("awaken.backend.subprocess")

TAIL = 20
"""How many of the last lines of stderr are kept, to explain why a process died."""
_LINE = 4_096
_STDERR_GRACE = 1.0
"""Seconds to wait for the end of a dead process's stderr, which a process outside its group may
hold open."""
_DEATH = 5.0
"""Seconds after which a killed process that does not end is logged."""


class LineTooLong(Exception):
    """The process wrote a line that is longer than allowed."""


class AgentProcess:
    """The process of one agent.

    Use it as `async with AgentProcess(…) as process:`; at the end of the block the process is dead.

    Args:
        name: the name under which its lines on stderr are logged.
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
        self._disconnect: list[Callable[[], None]] = []
        self._errors = _Errors(name)
        self.stop_requested = False
        self._child = ChildProcess(command, env=env, cwd=cwd)
        self._child.exited.add_done_callback(self._note_exit)

    def _note_exit(self, exited: Future[int]) -> None:
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            self._loop.call_soon_threadsafe(self._exited.set_result, exited.result())

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
        loop, child = self._loop, self._child
        self._stdout = asyncio.StreamReader(self._limit)
        stdout, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._stdout), child.stdout
        )
        self._disconnect.append(stdout.close)
        stderr, _ = await loop.connect_read_pipe(lambda: self._errors, child.stderr)
        self._disconnect.append(stderr.close)
        stdin, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), child.stdin
        )
        self._disconnect.append(lambda: _abort(stdin))
        self._stdin = asyncio.StreamWriter(stdin, protocol, None, loop)

    async def close(self) -> None:
        """Kill the process and its group if they live, and wait until they are gone."""
        self.kill()
        try:
            _, alive = await asyncio.wait([self._exited], timeout=_DEATH)
            if alive:
                log.warning("%s: process %d does not die", self._name, self._child.pid)
            if self._disconnect:
                await self._errors.wait()
        finally:
            for timer in self._timers:
                timer.cancel()
            for disconnect in self._disconnect:
                disconnect()
            self._child.stdout.close()
            self._child.stderr.close()
            self._child.close()

    async def wait(self) -> int:
        """Wait until the process has ended; returns its return code, as `Popen` does."""
        await asyncio.wait([self._exited])
        return self._exited.result()

    # -- stopping -----------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process and all of its group, without waiting for their end."""
        self._child.kill()

    def stop(self, request: bytes, grace: float) -> None:
        """Ask it to end; send SIGTERM after half of `grace` seconds, SIGKILL after all of them."""
        if self.stop_requested:
            return
        self.stop_requested = True
        self._stdin.write(request)
        self._timers += [
            self._loop.call_later(grace / 2, self._child.send_signal, signal.SIGTERM),
            self._loop.call_later(grace, self.kill),
        ]

    # -- talking ------------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Send a line to the process. If it has died, `line` reports that, not this."""
        self._stdin.write(line)

    async def drain(self) -> None:
        """Wait until the process has read most of what was written."""
        with suppress(ConnectionError):
            await self._stdin.drain()

    async def line(self) -> bytes | None:
        """The next line of the process; `None` if there are no more complete lines.

        Raises:
            LineTooLong: it is longer than allowed.
        """
        try:
            return await self._stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            raise LineTooLong from error

    async def last_errors(self) -> list[str]:
        """The last lines on stderr of a process that has ended."""
        await self._errors.wait()
        return list(self._errors.tail)


def _abort(transport: asyncio.WriteTransport) -> None:
    # `close` would wait to write data that the dead process will never read.
    if not transport.is_closing():
        transport.abort()


class _Errors(asyncio.Protocol):
    """Logs the lines of a process's stderr, and keeps the last ones."""

    def __init__(self, name: str) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._name = name
        self._rest = b""
        self._ended = asyncio.Event()

    async def wait(self) -> None:
        """Wait until stderr is closed, for a limited time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STDERR_GRACE):
                await self._ended.wait()

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > _LINE:
            lines, rest = [*lines, rest], b""
        self._rest = rest
        for line in lines:
            self._note(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._note(self._rest)
        self._ended.set()

    def _note(self, line: bytes) -> None:
        text = printable(line[:_LINE].decode(errors="replace").rstrip())
        if text:
            self.tail.append(text)
            log.info("%s: %s", self._name, text)
