"""Ctrl-C: the first one cancels the work, the second one ends the program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from awaken.cli.exit_codes import Exit

_SHOW_CURSOR = b"\x1b[?25h\n"


class Interrupts:
    """Cancels the current work when Ctrl-C is pressed.

    `hit` says that it was pressed. A second Ctrl-C ends the program at once.
    """

    def __init__(self) -> None:
        self.hit = False
        self.ever_hit = False
        self._stop: Callable[[], object] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle Ctrl-C here instead of in Python, inside a running loop. A command that a script
        started in the background ignores Ctrl-C, which is meant for the script, and still does."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            yield
            return
        loop = asyncio.get_running_loop()
        # Not `loop.add_signal_handler`: a tool that blocks the loop would block that, too, and
        # Ctrl-C could not end the program.
        before = signal.signal(signal.SIGINT, lambda *_: self._pressed(loop))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def calling(self, stop: Callable[[], object]) -> Iterator[None]:
        """While the block runs, Ctrl-C calls `stop`. If Ctrl-C was pressed before, `stop` is called
        now."""
        self._stop = stop
        if self.hit:
            stop()
        try:
            yield
        finally:
            self._stop = None

    def forget(self) -> None:
        """Forget an earlier Ctrl-C: the work has stopped, and the next one counts as the first."""
        self.hit = False

    def _pressed(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.hit:
            end_at_once()
        self.hit = self.ever_hit = True
        loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self._stop is not None:
            self._stop()


def end_at_once() -> None:
    """Exit at once, without waiting for other threads."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)  # a spinner may have hidden it
    os._exit(Exit.INTERRUPTED)
