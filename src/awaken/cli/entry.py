"""The entry point of the command; it loads the rest, which takes a moment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

_INTERRUPTED = 130
"""The value of `ExitCode.INTERRUPTED`, which is not loaded yet."""

# `-P` keeps the current folder off the path: with `-m` alone, a `click.py` that lies there would be
# run. A target that the user names is imported from there all the same.
ITSELF = (sys.executable, "-P", "-m", "awaken_command")
"""The command line that starts this program as a child process."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line. Returns its exit code, even if Ctrl-C comes while it is loaded."""
    try:
        app = import_module("awaken.cli.app")
    except KeyboardInterrupt:
        return _INTERRUPTED
    code: int = app.main(args)
    return code
