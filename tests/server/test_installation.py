"""What importing the server needs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import httpx2
from packaging.requirements import Requirement

NEEDED = {"starlette", "anyio", "idna", "sniffio"}
"""What making an application loads: starlette, and what comes along with it."""


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    return done.stdout


def test_without_the_extra_an_error_says_what_to_install() -> None:
    told = _python(
        "import sys; sys.modules['starlette'] = None\n"
        "import awaken.server, awaken.server.keys\n"
        "try: awaken.server.app\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert told == "awaken.server.app needs the extra 'server': pip install 'awaken[server]'\n"


def test_the_server_loads_its_extra_and_nothing_else() -> None:
    packages = _python(
        "import sys, awaken; awaken.Runtime; before = {n.partition('.')[0] for n in sys.modules}\n"
        "from awaken.server import app\n"
        "print(*{n.partition('.')[0] for n in sys.modules} - before - sys.stdlib_module_names)"
    )
    assert set(packages.split()) <= NEEDED


SERVED = """
import sys
sys.modules["uvloop"] = None
from awaken.cli.app import main
sys.argv = ["awaken", "serve", "app.py", "--port", "0", "--log", "none", "--no-open"]
sys.exit(main())
"""
APP = """
import asyncio
from awaken import Agent, tool

@tool(effect="read")
async def loop() -> str:
    "Name the loop."
    return type(asyncio.get_running_loop()).__module__

agent = Agent("a", model="demo", tools=[loop])
"""


def test_a_server_runs_on_the_loop_of_asyncio_where_uvloop_is_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-c", SERVED]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8"
    ) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2])
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=50) as client:
                run = {"agent_id": "a", "messages": ["please loop"]}
                taken = client.post("/v1/threads/t/runs", json=run)
                assert taken.status_code == 202, taken.text
                events, stream = taken.json()["events"], {"accept": "text/event-stream"}
                told = client.get(f"{events}&until=run", headers=stream)
                assert "asyncio." in told.text
        finally:
            server.terminate()


def test_uvloop_is_asked_for_only_where_it_exists() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (line,) = (one for one in project["optional-dependencies"]["server"] if "uvloop" in one)
    mark = Requirement(line).marker
    assert mark is not None
    cpython = {"platform_python_implementation": "CPython"}
    assert mark.evaluate({**cpython, "sys_platform": "linux"})
    assert not mark.evaluate({**cpython, "sys_platform": "win32"})
