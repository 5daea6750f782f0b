from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("thread_fight.py")


def test_two_processes_that_want_one_thread_take_turns_and_lose_no_message() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--rounds", "30"],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("rounds 30, ")
    assert done.stdout.endswith("faults 0\n")
