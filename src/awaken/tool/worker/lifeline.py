"""Dying with one's owner, however it dies."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading


def hold(line: int) -> None:
    """Have this process and all of its group killed when the other end of the pipe is closed."""
    try:
        # By the kernel: code that never lets go of the interpreter would keep a thread from it.
        fcntl.fcntl(line, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(line, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
    except (AttributeError, OSError):  # not Linux
        threading.Thread(target=_watch, args=(line,), daemon=True).start()
    if select.select([line], [], [], 0)[0]:  # closed before we held it
        os.killpg(0, signal.SIGKILL)


def _watch(line: int) -> None:
    os.read(line, 1)
    os.killpg(0, signal.SIGKILL)
