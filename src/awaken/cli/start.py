"""The first thing the command does: load the rest, which takes a moment."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

_INTERRUPTED = 130
"""As `Exit.INTERRUPTED`, which is not loaded yet."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code, also if Ctrl-C comes while it is loaded."""
    try:
        app = import_module("awaken.cli.app")
    except KeyboardInterrupt:
        return _INTERRUPTED
    code: int = app.main(args)
    return code
