"""A process that keeps a search index is killed at random instants; the program beside it plays
longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from postgres_kit import Postgres

PROGRAM = Path(__file__).with_name("search_killed.py")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_index_whose_keeper_is_killed_equals_one_that_is_built_anew(
    kind: str, postgres: Postgres
) -> None:
    store = ["--store", postgres.address()] if kind == "postgres" else []
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--kills", "6", "--seed", "7", *store],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    assert done.stdout.endswith("differences 0\n")
