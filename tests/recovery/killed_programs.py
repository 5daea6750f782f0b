"""Runs a program that kills processes, and reads what it found after each kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDERS = [str(HERE.with_name("worker")), *sys.path]
"""Where the programs find what they import: the agents of the tests of the worker."""


def play(program: str, home: Path, places: Sequence[str]) -> dict[str, Any]:
    """What the program found after the kill at each of these places."""
    ran = subprocess.run(
        [sys.executable, str(HERE / program), str(home)],
        capture_output=True,
        text=True,
        timeout=550,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS)},
    )
    assert ran.returncode == 0, ran.stderr
    answers: dict[str, Any] = json.loads(ran.stdout)
    assert list(answers) == list(places)
    for place, answer in answers.items():
        assert "found" in answer, f"{place}: {answer['error']}\n{ran.stderr}"
    return {place: json.loads(answer["found"]) for place, answer in answers.items()}


def deeds(found: Any) -> list[str]:
    """The lines of the ledger that are about effects, not about questions to the model."""
    return [line for line in found["ledger"] if not line.startswith("asked ")]
