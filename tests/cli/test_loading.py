from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTING = """
import os, signal, time

signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "command",
    [("-m", "awaken.cli"), ("-c", "import sys; from awaken.cli import main; sys.exit(main())")],
    ids=["module", "script"],
)
def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_traceback(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "click.py").write_text(INTERRUPTING)
    done = subprocess.run(
        [sys.executable, *command, "threads"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert (done.returncode, done.stderr) == (130, "")
