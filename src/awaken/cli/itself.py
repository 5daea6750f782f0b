"""This very command, as a child process is started with it."""

from __future__ import annotations

import sys

# `-P` keeps the current folder off the path: with `-m` alone, a `click.py` that lies there would be
# run. A target that the user names is imported from there all the same.
ITSELF = (sys.executable, "-P", "-m", "awaken.cli")
