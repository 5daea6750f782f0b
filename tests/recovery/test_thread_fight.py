from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("thread_fight.py")


def fight(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *options], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_processes_that_want_one_thread_take_turns_and_lose_no_message() -> None:
    said = fight("--rounds", "30")
    assert said.startswith("rounds 30, ")
    assert said.endswith("faults 0\n")


def test_letters_to_a_thread_that_four_processes_queue_for_are_read_and_paid_for_once() -> None:
    said = fight("--scenario", "letters", "--rounds", "6")
    assert said.startswith("rounds 6, turns taken 24, ")
    assert said.endswith("faults 0\n")


def test_nodes_on_one_postgres_that_want_one_thread_take_turns() -> None:
    said = fight("--rounds", "6", "--postgres")
    assert said.startswith("rounds 6, ")
    assert said.endswith("faults 0\n")
