"""The Python on a page of the documentation, and how it is run: as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[1]


def blocks_of(page: str) -> list[str]:
    """The Python blocks of a page, in order; the page is named from the project's folder."""
    return re.findall(r"```python\n(.*?)```", (HOME / page).read_text(), re.DOTALL)


def run_block(block: str, folder: Path) -> str:
    """Save a block as a program and run it there: what it prints. A warning is an error."""
    program = folder / "block.py"
    program.write_text(block)
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
