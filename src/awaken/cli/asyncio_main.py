"""Running async work from a plain function, with its threads and Ctrl-C.

The first Ctrl-C cancels the work, the second one ends the program.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from awaken.cli.exit_codes import ExitCode

THREAD_JOIN_SECONDS = 0.2
_THREADS = "awaken-tool"


def run_to_exit(work: Callable[[Interrupts], Awaitable[ExitCode]]) -> ExitCode:
    """Run `work` in a new event loop, in which it handles Ctrl-C. Returns its exit code."""

    async def main() -> ExitCode:
        interrupts = Interrupts()
        executor = ThreadPoolExecutor(thread_name_prefix=_THREADS)
        asyncio.get_running_loop().set_default_executor(executor)
        with interrupts.handle_ctrl_c():
            code = await work(interrupts)
            if interrupts.was_ever_pressed:
                _exit_despite_threads(executor, code)
        return code

    return asyncio.run(main())


def _exit_despite_threads(executor: ThreadPoolExecutor, code: ExitCode) -> None:
    """Exit at once if a thread would keep the program alive.

    A plain function cannot be stopped; its call was cancelled, and no code waits for it.
    """
    executor.shutdown(wait=False, cancel_futures=True)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(_THREADS)]
    for thread in threads:
        thread.join(THREAD_JOIN_SECONDS)
    if any(thread.is_alive() for thread in threads):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def unwrap_single_error() -> Iterator[None]:
    """Around a task group: raise the first error of its exception group instead of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from error.__cause__


_SHOW_CURSOR = b"\x1b[?25h\n"


class Interrupts:
    """Cancels the current work when Ctrl-C is pressed.

    `was_pressed` is true from a Ctrl-C until `reset`. A second Ctrl-C ends the program at once.
    """

    def __init__(self) -> None:
        self.was_pressed = False
        self.was_ever_pressed = False
        self._stop: Callable[[], object] | None = None

    @contextmanager
    def handle_ctrl_c(self) -> Iterator[None]:
        """Handle Ctrl-C here instead of in Python, inside a running loop. If a script started the
        command in the background, the command ignores Ctrl-C, which is meant for the script."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            yield
            return
        loop = asyncio.get_running_loop()
        # Not `loop.add_signal_handler`: a tool that blocks the loop would block that, too, and
        # Ctrl-C could not end the program.
        before = signal.signal(signal.SIGINT, lambda *_: self._on_sigint(loop))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def call_on_interrupt(self, stop: Callable[[], object]) -> Iterator[None]:
        """While the block runs, Ctrl-C calls `stop`. If Ctrl-C was pressed before, `stop` is called
        now."""
        self._stop = stop
        if self.was_pressed:
            stop()
        try:
            yield
        finally:
            self._stop = None

    def reset(self) -> None:
        """Forget an earlier Ctrl-C: the work has stopped, and the next one counts as the first."""
        self.was_pressed = False

    def _on_sigint(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.was_pressed:
            exit_immediately()
        self.was_pressed = self.was_ever_pressed = True
        loop.call_soon_threadsafe(self._call_stop)

    def _call_stop(self) -> None:
        if self._stop is not None:
            self._stop()


def exit_immediately() -> None:
    """Exit at once, without waiting for other threads."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)  # a spinner may have hidden it
    os._exit(ExitCode.INTERRUPTED)
