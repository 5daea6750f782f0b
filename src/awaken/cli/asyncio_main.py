"""Running async work from a plain function, with its threads and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from awaken.cli.exit_codes import Exit
from awaken.cli.interrupt import Interrupts

GRACE = 0.2
_THREADS = "awaken-tool"


def run_to_exit(work: Callable[[Interrupts], Awaitable[Exit]]) -> Exit:
    """Run `work` in a new event loop, in which it handles Ctrl-C. Returns its exit code."""

    async def main() -> Exit:
        interrupts = Interrupts()
        executor = ThreadPoolExecutor(thread_name_prefix=_THREADS)
        asyncio.get_running_loop().set_default_executor(executor)
        with interrupts.installed():
            code = await work(interrupts)
            if interrupts.ever_hit:
                _leave_threads(executor, code)
        return code

    return asyncio.run(main())


def _leave_threads(executor: ThreadPoolExecutor, code: Exit) -> None:
    """Exit at once if a thread would keep the program alive.

    A plain function cannot be stopped; its call was cancelled, and no code waits for it.
    """
    executor.shutdown(wait=False, cancel_futures=True)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(_THREADS)]
    for thread in threads:
        thread.join(GRACE)
    if any(thread.is_alive() for thread in threads):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def lone_error() -> Iterator[None]:
    """Wraps a task group: raises the first error in it, not an exception group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from error.__cause__
