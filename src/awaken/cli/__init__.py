"""The command line: one module a command; `app` puts them together, `start` loads that."""

from awaken.cli.start import main

__all__ = ["main"]
