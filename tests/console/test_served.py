"""`awaken serve` prints the console's address, and that address works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2

from awaken.server.keys import add_key


def served_lines(folder: Path, *words: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A server in a process of its own, and what it prints, by the first word of each line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "awaken.cli", "serve", "--port", "0", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    lines: dict[str, str] = {}
    while "stop" not in lines:
        first, _, rest = process.stdout.readline().strip().partition(" ")
        lines[first] = rest.strip()
    return process, lines


def test_serving_prints_a_link_that_works_once_and_with_keys_a_place_to_sign_in(
    tmp_path: Path,
) -> None:
    """07/CO-4, through the command itself."""
    process, lines = served_lines(tmp_path)
    try:
        place, _, word = lines["console"].partition("#t=")
        assert httpx2.get(place).text.startswith("<!doctype html>")
        made = [httpx2.post(f"{place}../v1/session", json={"word": word}) for _ in range(2)]
        assert [answer.status_code for answer in made] == [201, 401]
    finally:
        process.kill()
        process.communicate()
    add_key(tmp_path / "keys.toml", name="ann", roles=("read",))
    process, lines = served_lines(tmp_path, "--keys", "keys.toml")
    process.kill()
    process.communicate()
    assert lines["console"].endswith("/console/")
