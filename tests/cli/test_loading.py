from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from process_kit import with_ctrl_c

INTERRUPTING = """
import os, signal, time

signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


IN_A_CLASS = """
class Interrupting:
    def __set_name__(self, owner, name):
        import os, signal, time

        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

class Given:
    interrupts = Interrupting()
"""

SCRIPT = ("-c", "import sys; from awaken_command import main; sys.exit(main())")


@pytest.mark.parametrize("command", [("-m", "awaken_command"), SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize("loaded", ["msgspec", "click"])
@pytest.mark.parametrize("code", [INTERRUPTING.replace("signal.signal", "# "), IN_A_CLASS])
def test_ctrl_c_while_the_package_is_loaded_ends_the_command_without_a_traceback(
    command: tuple[str, ...], loaded: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / f"{loaded}.py").write_text(code)
    assert interrupted(tmp_path, *command, "--help") == (130, "\n")


def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text(IN_A_CLASS)
    (tmp_path / "app.py").write_text("agent = None")
    assert interrupted(tmp_path, "-m", "awaken_command", "serve", "app.py") == (130, "\n")


def interrupted(folder: Path, *command: str) -> tuple[int, str]:
    """The exit code and the errors of a command that finds the modules of a folder first."""
    done = subprocess.run(
        with_ctrl_c(signal.SIG_DFL, *command),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=550,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command",
    [("-m", "awaken.cli"), ("-c", "import sys; from awaken.cli import main; sys.exit(main())")],
    ids=["module", "script"],
)
def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_traceback(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "click.py").write_text(INTERRUPTING)
    assert interrupted(tmp_path, *command, "threads") == (130, "")
