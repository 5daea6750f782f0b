"""06/SV-5, short: `make proof` kills at every event."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("heard_elsewhere.py")


def test_a_run_that_was_killed_and_recovered_is_heard_whole_by_a_third_process() -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), "--at", "2,7,13,29"], capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "kills 4, not heard whole 0" in ran.stdout
