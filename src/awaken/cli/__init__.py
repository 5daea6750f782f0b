"""The command line: `awaken run`, `awaken chat`, `awaken demo`."""

from awaken.cli.app import main

__all__ = ["main"]
