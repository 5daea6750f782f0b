"""Summaries and the end of processes: real ones, killed in the middle (02/X1, DB-31)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from awaken.codec import loads

LIFE = Path(__file__).with_name("compaction_life.py")


def live(home: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, LIFE, home, how], capture_output=True, text=True, timeout=550, check=False
    )


def test_a_process_that_is_killed_while_a_summary_is_made_is_no_trouble(tmp_path: Path) -> None:
    """02/X1: the next one begins anew; nothing is stuck, nothing is lost, no call is torn."""
    killed = live(tmp_path, "die")
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    after = live(tmp_path, "live")

    assert after.returncode == 0, after.stderr
    told = loads(after.stdout)
    assert told["summaries"] == 1
    assert told["in_flight"] is False
    assert told["calls"] == told["results"] == told["users"]
    assert told["first"].startswith("<conversation-summary>")
