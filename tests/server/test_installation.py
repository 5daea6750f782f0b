"""What importing the server needs."""

from __future__ import annotations

import subprocess
import sys

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
