"""Lines from standard input, read without a thread and without blocking the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from types import ModuleType

try:
    import termios as _termios
except ImportError:  # not on Windows
    _terminal: ModuleType | None = None
else:
    _terminal = _termios

_PIECE = 65_536


class Interrupted(Exception):
    """The line is no longer wanted."""


def is_tty() -> bool:
    """Whether there is a person to ask: both stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Lines:
    """Standard input, line by line.

    The event loop waits for input, because a read in a thread could not be cancelled and would keep
    the program from exiting. If the loop cannot wait for input, a daemon thread reads.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._held = b""
        self._waiter: asyncio.Future[None] | None = None
        self._piece: asyncio.Future[bytes] | None = None

    async def next(self) -> str:
        """The next line, without its end.

        Raises:
            EOFError: the input has ended.
            Interrupted: `interrupt` was called.
        """
        while b"\n" not in self._held:
            piece = await self._next_piece()
            if not piece and not self._held:
                raise EOFError
            self._held += piece or b"\n"
        line, _, self._held = self._held.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def interrupt(self) -> None:
        """Stop a pending `next`, if there is one."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Interrupted())

    def forget_typed(self) -> None:
        """Drop input that was typed before a question was asked."""
        self._held = b""
        if _terminal is not None and os.isatty(self._fd):
            _terminal.tcflush(self._fd, _terminal.TCIFLUSH)

    async def _next_piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        try:
            loop.add_reader(self._fd, _wake, waiter)
        except PermissionError:
            return self._read()  # a plain file cannot be watched; it is always ready
        except NotImplementedError:
            return await self._read_aside(waiter)
        try:
            await waiter
        finally:
            loop.remove_reader(self._fd)
            self._waiter = None
        return self._read()

    async def _read_aside(self, waiter: asyncio.Future[None]) -> bytes:
        """Read in a thread. Input that comes after the line was given up is kept for the next
        one."""
        loop, piece = asyncio.get_running_loop(), self._piece
        if piece is None:
            piece = self._piece = loop.create_future()
            threading.Thread(target=self._read_into, args=(loop, piece), daemon=True).start()
        try:
            await asyncio.wait((piece, waiter), return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                waiter.result()
        finally:
            self._waiter = None
        self._piece = None
        return piece.result()

    def _read_into(self, loop: asyncio.AbstractEventLoop, piece: asyncio.Future[bytes]) -> None:
        read = self._read()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_tell, piece, read)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _PIECE)
        except OSError:
            return b""  # the terminal was closed


def _tell(piece: asyncio.Future[bytes], read: bytes) -> None:
    if not piece.done():
        piece.set_result(read)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
