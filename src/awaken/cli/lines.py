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
    """Nobody waits for the line any more."""


def is_tty() -> bool:
    """Whether there is somebody to ask: both what is typed and what is shown is a terminal's."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Lines:
    """Standard input, line by line.

    A read in a thread could not be given up, and would hold the program at its end; here only the
    loop waits. Where the loop cannot wait for input, a thread does that nobody waits for.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._held = b""
        self._waiter: asyncio.Future[None] | None = None
        self._piece: asyncio.Future[bytes] | None = None

    async def next(self) -> str:
        """The next line, without its end.

        Raises:
            EOFError: there is none.
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
        """Give the line up that is waited for, if one is."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Interrupted())

    def forget_typed(self) -> None:
        """Drop what was typed before a question was there to be answered."""
        self._held = b""
        if _terminal is not None and os.isatty(self._fd):
            _terminal.tcflush(self._fd, _terminal.TCIFLUSH)

    async def _next_piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        try:
            loop.add_reader(self._fd, _wake, waiter)
        except PermissionError:
            return self._read()  # a plain file cannot be watched, and need not: it is always ready
        except NotImplementedError:
            return await self._read_aside(waiter)
        try:
            await waiter
        finally:
            loop.remove_reader(self._fd)
            self._waiter = None
        return self._read()

    async def _read_aside(self, waiter: asyncio.Future[None]) -> bytes:
        """Have a thread read; what comes after the line was given up is for the next one."""
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
        with contextlib.suppress(RuntimeError):  # nobody waits, the loop is over
            loop.call_soon_threadsafe(_tell, piece, read)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _PIECE)
        except OSError:
            return b""  # the terminal is gone


def _tell(piece: asyncio.Future[bytes], read: bytes) -> None:
    if not piece.done():
        piece.set_result(read)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
