"""A run of any kind, written as a test, passes where nothing but pytest and awaken is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from replay_kit import KINDS, Kind, Made

from awaken.cli.pytest_file import write_test


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a test for every kind of run."""
    home = tmp_path_factory.mktemp("exported")
    for kind in KINDS:
        recording, _ = asyncio.run(_made(kind))
        written = write_test(recording)
        assert not written.texts
        (home / f"test_{kind.__name__}.py").write_text(written.source)
    return home


async def _made(kind: Kind) -> Made:
    return await kind()


def run(folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=folder, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_of_run_passes_as_a_test(folder: Path) -> None:
    told = run(folder, "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert f"{len(KINDS)} passed" in told


def test_every_kind_of_test_is_formatted_and_has_nothing_a_linter_minds(folder: Path) -> None:
    run(folder, "ruff", "check", "--isolated", "--no-cache", "--select", "E,F,W,I,UP,B,SIM,RUF")
    run(folder, "ruff", "format", "--check", "--isolated", "--no-cache")
    run(folder, "ruff", "format", "--check", "--isolated", "--no-cache", "--line-length", "120")
