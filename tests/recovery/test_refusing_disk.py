"""A short fight with a disk that refuses; the program beside it plays a long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("refusing_disk.py")


def test_a_disk_that_refuses_for_a_while_loses_doubles_and_blocks_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--rounds", "8", "--threads", "4"],
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("rounds 8, outages 8, ")
    assert done.stdout.endswith("faults 0\n")
