"""The entry point of the `awaken` command, also as `python -m awaken_command`.

It stands outside the package, whose import takes a moment: Ctrl-C during the import must end the
command without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

INTERRUPTED = 130
"""The value of `ExitCode.INTERRUPTED`, which is not loaded yet."""


def main() -> int:
    """Run the command line; returns its exit code."""
    before = signal.getsignal(signal.SIGINT)
    # In the background of a shell, the command ignores Ctrl-C from the start.
    handles_ctrl_c = before is signal.default_int_handler
    if handles_ctrl_c:
        # Not an exception: code that is being imported may catch it, or replace it by its own.
        signal.signal(signal.SIGINT, _leave)
    app = import_module("awaken.cli.app")
    if handles_ctrl_c:
        signal.signal(signal.SIGINT, before)
    code: int = app.main()
    if handles_ctrl_c:
        signal.signal(signal.SIGINT, _leave)
    return code


def _leave(*_: object) -> None:
    """End the process at once: it has not begun to work, or has finished."""
    os.write(sys.stderr.fileno(), b"\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
