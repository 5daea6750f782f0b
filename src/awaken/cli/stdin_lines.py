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


class InputInterrupted(Exception):
    """The caller of `read_line` no longer needs the line."""


def is_tty() -> bool:
    """Whether both stdin and stdout are a terminal, so that a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class StdinLines:
    """Standard input, line by line.

    The event loop waits for input, because a read in a thread could not be cancelled and would keep
    the program from exiting. If the loop cannot wait for input, a daemon thread reads.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._buffer = b""
        self._waiter: asyncio.Future[None] | None = None
        self._piece: asyncio.Future[bytes] | None = None

    async def read_line(self) -> str:
        """The next line, without its end.

        Raises:
            EOFError: the input has ended.
            InputInterrupted: `interrupt` was called.
        """
        while b"\n" not in self._buffer:
            piece = await self._wait_for_piece()
            if not piece and not self._buffer:
                raise EOFError
            self._buffer += piece or b"\n"
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def interrupt(self) -> None:
        """Stop a pending `read_line`, if there is one."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(InputInterrupted())

    def discard_typed_input(self) -> None:
        """Drop the input that the user typed before the question appeared."""
        self._buffer = b""
        if _terminal is not None and os.isatty(self._fd):
            _terminal.tcflush(self._fd, _terminal.TCIFLUSH)

    async def _wait_for_piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        try:
            loop.add_reader(self._fd, _wake, waiter)
        except PermissionError:
            return self._read()  # a plain file cannot be watched; it is always ready
        except NotImplementedError:
            return await self._read_in_thread(waiter)
        try:
            await waiter
        finally:
            loop.remove_reader(self._fd)
            self._waiter = None
        return self._read()

    async def _read_in_thread(self, waiter: asyncio.Future[None]) -> bytes:
        """Read in a thread. If `interrupt` stops this call, the next call gets what the thread
        reads."""
        loop, piece = asyncio.get_running_loop(), self._piece
        if piece is None:
            piece = self._piece = loop.create_future()
            threading.Thread(target=self._read_and_deliver, args=(loop, piece), daemon=True).start()
        try:
            await asyncio.wait((piece, waiter), return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                waiter.result()
        finally:
            self._waiter = None
        self._piece = None
        return piece.result()

    def _read_and_deliver(
        self, loop: asyncio.AbstractEventLoop, piece: asyncio.Future[bytes]
    ) -> None:
        read = self._read()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_deliver, piece, read)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _PIECE)
        except OSError:
            return b""  # the terminal was closed


def _deliver(piece: asyncio.Future[bytes], read: bytes) -> None:
    if not piece.done():
        piece.set_result(read)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
