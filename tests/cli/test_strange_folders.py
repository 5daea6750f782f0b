"""A folder the command is started in is not searched for modules that a user did not name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

AWAKEN = str(Path(sys.executable).with_name("awaken"))
NAMES = (
    *("awaken", "click", "msgspec", "rich", "uuid_utils", "sqlite3", "sitecustomize", "asyncio"),
    *("jsonschema_rs", "anyio", "json"),
)
APP = """
from awaken import Agent, tool


@tool(effect="read")
async def look() -> str:
    '''Look around.'''
    return "seen"


agent = Agent("a", model="demo", tools=[look])
"""
ISOLATED = """
import asyncio
from awaken import Agent, Runtime, tool


@tool(effect="read", isolated=True)
def look() -> str:
    '''Look around.'''
    return "seen"


async def main():
    async with Runtime([Agent("a", model="demo", tools=[look])]) as runtime:
        print((await runtime.run("a", "Please look around")).response)


if __name__ == "__main__":
    asyncio.run(main())
"""
REMOTE = """
import asyncio
from awaken import RemoteAgent, Runtime


async def main():
    async with Runtime([RemoteAgent("a", "python:desk:agent")]) as runtime:
        print((await runtime.run("a", "Please look around")).response)


asyncio.run(main())
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder of modules that leave a mark if they are run, named as those we import."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in NAMES:
        mark = tmp_path / f"{name} was run"
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\nraise SystemExit(9)")
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    done = start(command, folder)
    try:
        told = done.communicate(timeout=550)
    finally:
        done.kill()
    return subprocess.CompletedProcess(command, done.returncode, *told)


def start(command: list[str], folder: Path) -> subprocess.Popen[str]:
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def marks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith("was run"))


def test_the_demo_runs_nothing_that_lies_in_the_current_folder(trap: Path) -> None:
    done = run([AWAKEN, "demo", "--fast"], trap)
    assert (done.returncode, marks(trap.parent)) == (0, []), done.stderr
    assert "it happened once" in done.stdout


@pytest.mark.parametrize("target", ["app:agent", "./app.py:agent", "team.desk:agent", "test:agent"])
def test_a_target_is_loaded_and_with_it_what_shadows_nothing(trap: Path, target: str) -> None:
    """`test` is also a package of Python's: the one that the user names is in the folder."""
    (trap / "words.py").write_text("NAME = 'ann'")
    (trap / "team").mkdir()
    for file in ("app.py", "test.py", "team/__init__.py", "team/desk.py"):
        (trap / file).write_text(
            f"import json, words, jsonschema_rs\n{APP}".replace("'a'", "words.NAME")
        )
    done = run([AWAKEN, "run", target, "Please look around", "--store", "memory:"], trap)
    assert (done.returncode, marks(trap.parent)) == (0, []), done.stderr
    assert "seen" in done.stdout


def test_an_agent_in_a_process_of_its_own_runs_nothing_else_from_its_folder(trap: Path) -> None:
    (trap / "words.py").write_text("NAME = 'ann'")
    (trap / "desk.py").write_text(f"import json, words\n{APP}")
    program = trap.parent / "program.py"
    program.write_text(REMOTE)
    done = run([sys.executable, str(program)], trap)
    assert (done.returncode, marks(trap.parent)) == (0, []), done.stderr
    assert "seen" in done.stdout


def test_chaos_runs_nothing_but_the_target_from_the_current_folder(trap: Path) -> None:
    (trap / "app.py").write_text(APP)
    done = run([AWAKEN, "chaos", "app:agent", "Please look around", "--kills", "1"], trap)
    assert marks(trap.parent) == [], done.stderr
    assert done.returncode == 0, done.stderr


def test_the_processes_of_a_server_run_nothing_but_the_target_from_the_current_folder(
    trap: Path,
) -> None:
    (trap / "app.py").write_text(APP)
    words = ["app.py", "--workers", "2", "--port", "0", "--store", f"sqlite:///{trap}/t.db"]
    server = start([AWAKEN, "serve", *words], trap)
    try:
        assert server.stdout is not None
        assert "http://" in server.stdout.readline(), "it says so when all of them are ready"
        server.send_signal(signal.SIGTERM)
        assert (server.wait(550), marks(trap.parent)) == (0, [])
    finally:
        server.kill()
        server.communicate()


def test_an_isolated_tools_worker_imports_from_the_programs_path_alone(trap: Path) -> None:
    program = trap.parent / "program.py"
    program.write_text(ISOLATED)
    done = run([sys.executable, str(program)], trap)
    assert (done.returncode, marks(trap.parent)) == (0, []), done.stderr
    assert "seen" in done.stdout
