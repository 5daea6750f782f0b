"""`awaken db migrate` and `awaken serve --migrate`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli_process import awaken

from postgres_kit import Postgres

APP = """
from awaken import Agent, Runtime

agents = [Agent("echo", model="demo")]


def runtime():
    return Runtime(agents, store="memory:")
"""


def test_serve_migrates_before_it_serves(postgres: Postgres, tmp_path: Path) -> None:
    """06 §5.7"""
    (tmp_path / "app.py").write_text(APP)
    address = postgres.address()
    dry = awaken("db", "migrate", "--dry-run", "--store", address, cwd=tmp_path).stdout
    assert dry.startswith("would apply 0001_begin.sql\n")
    words = ("serve", "app.py:agents", "--migrate", "--port", "0", "--log", "none", "--no-open")
    server = subprocess.Popen(
        [sys.executable, "-m", "awaken.cli", *words, "--store", address],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    said = ""
    while "awaken serves echo at" not in said:
        line = server.stdout.readline()
        assert line, said
        said += line
    server.terminate()
    server.communicate()
    assert said.startswith(dry.replace("would apply", "applied").replace("would be", "is"))
    again = awaken("db", "migrate", "--store", address, cwd=tmp_path).stdout
    assert again == dry.splitlines()[-1].replace("would be", "is") + "\n"


def test_what_cannot_be_migrated_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    own = awaken("serve", "app.py:runtime", "--migrate", cwd=tmp_path)
    assert own.returncode == 2
    assert "makes its own Runtime, with a store of its own: run `awaken db migrate" in own.stderr
    file = awaken("db", "migrate", "--store", "sqlite:///awaken.db", cwd=tmp_path)
    assert file.returncode == 2
    assert "needs no migrate" in file.stderr
