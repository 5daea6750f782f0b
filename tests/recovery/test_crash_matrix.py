"""A sample of the crash matrix; `make proof` plays all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("crash_matrix.py")


def matrix(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), *options], capture_output=True, text=True, timeout=170
    )


def test_killed_at_a_sample_of_points_nothing_is_lost_doubled_invalid_or_left_open() -> None:
    done = matrix("--short")
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout.splitlines()[-1]
    assert told.endswith(
        "lost results 0, doubled once effects 0, invalid transcripts 0, runs left open 0, "
        "remote tasks without an owner 0"
    )


def test_on_postgres_nothing_is_lost_doubled_invalid_or_left_open_either() -> None:
    """06/CL-1, with NATS; `make cluster-test` kills at many more points."""
    names = ("approval", "submitted-and-interrupted", "followed", "large-result-anew")
    done = matrix("--postgres", "--nats", "--short", "--points", "1", "--scenario", *names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost results 0, doubled once effects 0, invalid transcripts 0" in done.stdout


def test_a_tool_that_says_it_may_be_repeated_and_may_not_is_found_out() -> None:
    done = matrix("--scenario", "liar", "--seed", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "put took effect 2 times: 1" in done.stdout
    assert "--scenario liar --seed 0 --kill " in done.stdout


def test_a_delegate_that_was_left_behind_is_found_out_though_a_recovery_ends_it() -> None:
    done = matrix("--scenario", "orphaned", "--seed", "0", "--share", "4")
    assert done.returncode == 1, done.stdout + done.stderr
    told = "at a kill, run left-behind waits for run parent-of-it, which has ended, and no cancel"
    assert told in done.stdout
    assert "lost results 0, doubled once effects 0, invalid transcripts 0" in done.stdout


def test_work_elsewhere_that_nobody_remembers_is_found_out() -> None:
    done = matrix("--scenario", "careless", "--seed", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the service got the task 'Do it.' 2 times" in done.stdout
    assert "remote task-1 is working, and its run " in done.stdout
    assert not done.stdout.endswith("remote tasks without an owner 0\n")
