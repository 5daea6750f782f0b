"""What tests need of the system for processes: their end, and what they do with Ctrl-C."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PIDFD_OPEN = 434
_WITH_CTRL_C = "import os, signal, sys; signal.signal(signal.SIGINT, int(sys.argv[1])); " + (
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


def with_ctrl_c(handler: signal.Handlers, *arguments: str) -> list[str]:
    """The command that runs Python with `arguments`, with the default for Ctrl-C or ignoring it.

    Otherwise the program inherits this from the tests: a script that starts `pytest … &` makes all
    of them ignore it.
    """
    return [sys.executable, "-c", _WITH_CTRL_C, str(int(handler)), *arguments]


def open_pidfd(pid: int) -> int:
    """A file descriptor that is readable once the process has ended.

    The system call itself: a Python that was built for older systems has no `os.pidfd_open`.
    """
    found = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_OPEN, pid, 0)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)
