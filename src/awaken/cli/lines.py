"""Lines from standard input, read without a thread and without blocking the loop."""

from __future__ import annotations

import asyncio
import os
import sys
import termios

_PIECE = 65_536


class Interrupted(Exception):
    """Nobody waits for the line any more."""


def is_terminal() -> bool:
    """Whether there is somebody to ask: both what is typed and what is shown is a terminal's."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Lines:
    """Standard input, line by line.

    A read in a thread could not be given up, and would hold the program at its end; here only the
    loop waits.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._held = b""
        self._waiter: asyncio.Future[None] | None = None

    async def next(self) -> str:
        """The next line, without its end.

        Raises:
            EOFError: there is none.
            Interrupted: `interrupt` was called.
        """
        while b"\n" not in self._held:
            await self._readable()
            piece = self._read()
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
        if os.isatty(self._fd):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        try:
            loop.add_reader(self._fd, _wake, waiter)
        except PermissionError:
            return  # a plain file cannot be watched, and need not: it is always ready
        try:
            await waiter
        finally:
            loop.remove_reader(self._fd)
            self._waiter = None

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _PIECE)
        except OSError:
            return b""  # the terminal is gone


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
