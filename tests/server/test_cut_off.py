"""Clients that are cut off, short: `make proof` kills and cuts behind every frame."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("cut_off.py")


def play(*words: str, pace: str = "0") -> str:
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "TALKER_PACE": pace},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_client_misses_nothing_when_its_server_is_killed_behind_a_frame() -> None:
    """06/SV-21 for `/v1`: another process goes on with the run, and the client with that."""
    assert "kills 3, not whole 0" in play("--at", "2,6,19")


def test_a_client_that_is_cut_off_goes_on_with_another_server() -> None:
    """06/SV-22: two servers on one file."""
    assert "cuts 6, not whole 0" in play("--cut", "--at", "1,3,5,9,20,30", pace="0.01")
