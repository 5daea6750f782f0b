"""Programs that are measured in processes of their own; the peers in a venv of their own, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
VENV = Path(f"{sys.prefix}-peers")
"""Beside the environment of this Python, `.venv-peers` for example: all run on the same one."""
PEERS = {
    "agno": "agno",
    "agent_framework": "agent-framework-core",
    "langgraph": "langgraph",
    "pydantic_ai": "pydantic-ai-slim",
}
"""Modules of `benchmarks.peers`, and the distribution each one measures."""

DURABLE_PEERS = {"langgraph_sqlite": "langgraph"}
"""The same, for those that keep every step in SQLite."""

STORES = ("langgraph-checkpoint-sqlite",)
"""What they need for that."""


class Source(NamedTuple):
    """A program of `benchmarks`: its name in tables, its module, and where it runs."""

    name: str
    module: str
    python: str = sys.executable
    path: str = ""
    """The `src` of another checkout, to import awaken from that."""
    environment: tuple[tuple[str, str], ...] = ()


class Answer(NamedTuple):
    """What a program told about itself."""

    python: str
    imports: str
    samples: dict[str, list[float]]
    reasons: dict[str, str]


def run(source: Source, *options: str) -> Answer:
    """Run a program by itself and read what it prints.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [source.python, "-m", f"benchmarks.{source.module}", *options],
        cwd=ROOT,
        env={**os.environ, **dict(source.environment), "PYTHONPATH": source.path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"benchmarks.{source.module} failed:\n{done.stderr}")
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


def peers_python() -> str:
    """The python of the peers' venv, which is made if it is not there, or is of another Python."""
    python = str(VENV / "bin" / "python")
    distributions = (*PEERS.values(), *STORES)
    wanted = "\n".join([*distributions, os.path.realpath(sys.executable)])
    installed = VENV / ".installed"
    if not installed.exists() or installed.read_text() != wanted:
        print(f"installing the peers into {VENV.name}", file=sys.stderr)
        venv = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)]
        subprocess.run(venv, check=True)
        # This Python may have no pip, as the Makefile says; that of python3 installs for any other.
        pip = [sys.executable if find_spec("pip") else "python3", "-m", "pip", "--python", python]
        options = ["install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *options, *distributions], check=True)
        installed.write_text(wanted)
    return python


def versions(python: str) -> dict[str, str]:
    """The version of each peer, by its distribution's name."""
    script = "import json, sys; from importlib.metadata import version; "
    script += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    command = [python, "-c", script, *PEERS.values()]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: Any = json.loads(found.stdout)
    return dict(answer)
