"""The command line, one module for each command. `app` puts them together; `start` loads `app`."""

from awaken.cli.entry import main

__all__ = ["main"]
