"""The command line: one module a command; `app` puts them together."""

from awaken.cli.app import main

__all__ = ["main"]
