"""Worker processes and the programs that start them: how they find each other, and die together."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from isolated_kit import DEADLINE, Desk, open_desk, pool_for, request
from tool_context import make_context, run_tool

from awaken.errors import ConfigError

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent

SCRIPT = """
import asyncio, dataclasses, json, os, sys

from awaken import tool
from tool_context import run_tool

{imports}

@dataclasses.dataclass
class Place:
    city: str

@tool(isolated=True)
def where(place: Place) -> list[str]:
    return [place.city, __name__, str(os.getppid()), *sys.argv[1:]]

if __name__ == "__main__":
    result = asyncio.run(run_tool(where, {{"place": {{"city": "Rome"}}}})).result
    print(json.dumps([result.message or result.data, str(os.getpid())]))
"""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


def environment() -> dict[str, str]:
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def run_python(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


@asynccontextmanager
async def program(code: str, *args: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program with the kit at hand, while it runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"import asyncio, os, sys, time; import isolated_kit as kit; "
        f"from tool_context import run_tool\n{code}",
        *args,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(DEADLINE):
            yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


# -- dying together ---------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["hang", "breed", "clutch"])
async def test_a_killed_program_takes_its_workers_and_all_they_started_along(
    function: str, desk: Desk
) -> None:
    call = f"asyncio.run(run_tool(kit.{function}, {{'desk': sys.argv[1]}}))"
    async with program(call, desk.path) as process:
        visitor = await desk.visitor()
        if function != "hang":
            await visitor.said()
        process.kill()
        assert await visitor.gone() == ""


async def test_a_killed_program_takes_idle_workers_along_though_a_fork_of_it_lives(
    desk: Desk,
) -> None:
    code = """
asyncio.run(run_tool(kit.linger, {"desk": sys.argv[1]}))
if fork := os.fork():
    print("forked", flush=True)
time.sleep(1000)
"""
    async with program(code, desk.path) as process:
        visitor = await desk.visitor()
        assert process.stdout is not None
        assert await process.stdout.readline() == b"forked\n"
        process.kill()  # the fork is killed when the test is over
        await visitor.gone()


async def test_a_program_that_ends_ends_idle_workers_properly(desk: Desk) -> None:
    call = "asyncio.run(run_tool(kit.linger, {'desk': sys.argv[1]}))"
    async with program(call, desk.path) as process:
        visitor = await desk.visitor()
        assert await process.wait() == 0
        assert await visitor.gone() == "bye"


async def test_a_program_that_is_interrupted_leaves_nobody(desk: Desk) -> None:
    code = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have had it ignored
asyncio.run(run_tool(kit.breed, {"desk": sys.argv[1]}))
"""
    async with program(code, desk.path) as process:
        visitor = await desk.visitor()
        await visitor.said()
        process.send_signal(signal.SIGINT)
        assert await process.wait() != 0
        assert await visitor.gone() == ""


async def test_a_fork_has_workers_of_its_own() -> None:
    code = """
def ask():
    return asyncio.run(run_tool(kit.whoami)).result.data

before = ask()
if os.fork() == 0:
    print("fork", before != ask(), flush=True)
    os._exit(0)
os.wait()
print("program", before == ask(), flush=True)
"""
    async with program(code) as process:
        assert process.stdout is not None
        assert await process.stdout.read() == b"fork True\nprogram True\n"
        assert await process.wait() == 0


async def test_without_the_kernels_help_a_thread_holds_the_lifeline() -> None:
    code = """
import fcntl, os
vars(fcntl).pop("F_SETSIG", None)
from awaken.tool.isolation.child_main import die_with_owner
die_with_owner(0)
print("held", flush=True)
while True:
    pass
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        assert await process.stdout.readline() == b"held\n"
        await process.communicate(b"")  # which closes the pipe
    assert process.returncode == -signal.SIGKILL


async def test_a_worker_whose_program_is_gone_before_it_starts_ends_at_once() -> None:
    code = (
        "from awaken.tool.isolation.child_main import die_with_owner; "
        "die_with_owner(0); print('alive')"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    async with asyncio.timeout(DEADLINE):
        assert await process.wait() == -signal.SIGKILL


# -- finding the function ---------------------------------------------------------------------


def test_functions_and_types_of_a_script_are_found(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(SCRIPT.format(imports=""))
    ran = run_python("script", "ü", cwd=tmp_path)
    assert ran.stderr == ""
    answer, pid = json.loads(ran.stdout)
    assert answer == ["Rome", "__worker_main__", pid, "ü"]


def test_functions_of_a_module_that_was_run_are_found(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "beside.py").write_text("import os")
    (package / "app.py").write_text(SCRIPT.format(imports="from .beside import os"))
    ran = run_python("-m", "package.app", cwd=tmp_path)
    assert ran.stderr == ""
    answer, pid = json.loads(ran.stdout)
    assert answer == ["Rome", "package.app", pid]


def test_a_script_that_would_run_again_is_refused(tmp_path: Path) -> None:
    script = SCRIPT.format(imports="").partition("if __name__")[0]
    (tmp_path / "script.py").write_text(script)
    ran = run_python("script.py", cwd=tmp_path)
    assert (
        "ConfigError: tool 'where' cannot be isolated: the worker imports script.py" in ran.stderr
    )
    assert "put what it runs under `if __name__ == '__main__':`" in ran.stderr


def test_a_function_that_is_in_no_file_is_refused(tmp_path: Path) -> None:
    code = "from awaken import tool\ndef f() -> None: ...\ntool(f, isolated=True)"
    ran = run_python("-c", code, cwd=tmp_path)
    assert "ConfigError: tool 'f' cannot be isolated: f is in no file: move it" in ran.stderr


def test_a_module_that_calls_its_tools_when_imported_does_not_start_workers_without_end(
    tmp_path: Path,
) -> None:
    module = SCRIPT.format(imports="").replace('if __name__ == "__main__"', "if True")
    (tmp_path / "eager.py").write_text(module)
    ran = run_python("-c", "import eager", cwd=tmp_path)
    [answer, pid] = json.loads(ran.stdout)
    assert answer == ["Rome", "eager", pid]
    assert "tool 'where' cannot be isolated: it was called while a worker imports" in ran.stderr


MODULE = """
import os
from awaken import tool
from isolated_kit import report

if desk := os.environ.get("ISOLATED_DESK"):
    with report(desk) as place:
        place.recv(1)
if code := os.environ.get("ISOLATED_CODE"):
    os._exit(int(code))

@tool(isolated=True, pass_env=["ISOLATED_DESK", "ISOLATED_CODE"])
def whoami() -> int:
    return os.getpid()
"""


def load_module(directory: Path, name: str) -> Any:
    """Import a module that no path leads to."""
    file = directory / f"file_of_{name}.py"
    file.write_text(MODULE)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_functions_of_a_module_that_is_not_on_the_path_are_found(tmp_path: Path) -> None:
    module = load_module(tmp_path, "isolated_stray")
    result = (await run_tool(module.whoami)).result
    assert isinstance(result.data, int), result.message


async def test_a_call_cancelled_while_its_worker_starts_leaves_the_worker_to_the_next(
    tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_module(tmp_path, "isolated_slow")
    monkeypatch.setenv("ISOLATED_DESK", desk.path)
    pool = pool_for(module.whoami, ("ISOLATED_DESK",), limit=1)
    first = asyncio.ensure_future(pool.call(request()))
    visitor = await desk.visitor()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(pool.call(request()))
    visitor.let_go()
    answer = await second
    assert isinstance(answer, bytes)
    assert str(visitor.pid) in answer.decode()
    pool.close()


async def test_a_worker_that_dies_while_it_starts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_module(tmp_path, "isolated_mortal")
    monkeypatch.setenv("ISOLATED_CODE", "5")
    with pytest.raises(
        ConfigError, match=r"'whoami' did not get to import isolated_mortal\.whoami: it exited"
    ):
        await module.whoami.execute({}, make_context())
    monkeypatch.delenv("ISOLATED_CODE")
    assert isinstance((await run_tool(module.whoami)).result.data, int)


def test_who_has_no_isolated_tool_loads_nothing_for_them() -> None:
    code = "import sys, awaken; print([m for m in sys.modules if 'tool.worker' in m])"
    assert run_python("-c", code, cwd=HERE).stdout == "[]\n"
