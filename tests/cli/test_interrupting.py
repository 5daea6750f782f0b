from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from cli_process import environment, on_pipe, on_terminal, write_app

from awaken.codec import loads
from awaken.core.event import RunEvent, RunFinish
from awaken.core.lifecycle import CANCELLED
from process_kit import with_ctrl_c


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_ctrl_c_during_a_slow_tool_says_what_was_done(home: Path) -> None:
    with on_pipe("run", "app:sleeper", "Go", cwd=home) as process:
        process.read_until("slow: slow has begun\n")
        process.read_until("add: 2\n")
        process.interrupt()
        process.read_until("slow was interrupted, with an unknown outcome\n")
        process.read_until("finished: add; interrupted: slow; the text so far was kept\n")
        process.read_until("cancelled · 1 step")
        assert process.exit_code() == 130


def test_ctrl_c_with_json_still_ends_with_the_final_event(home: Path) -> None:
    with on_pipe("run", "app:sleeper", "Go", "--json", cwd=home) as process:
        process.read_until("slow has begun")
        process.interrupt()
        assert process.exit_code() == 130
    lines = [line for line in process.printed.splitlines() if line.startswith("{")]
    last = loads(lines[-1], RunEvent).event
    assert isinstance(last, RunFinish)
    assert last.termination == CANCELLED
    assert "awaken: finished: add; interrupted: slow" in process.printed


def test_ctrl_c_at_a_question_cancels_the_run(home: Path) -> None:
    with on_terminal("run", "app:payer", "Pay!", cwd=home) as process:
        process.read_until("why not] › ")
        process.interrupt()
        process.read_until("never ran: refund; the text so far was kept")
        process.read_until("cancelled · 1 step")
        assert process.exit_code() == 130


def test_a_second_ctrl_c_ends_at_once(home: Path) -> None:
    with on_pipe("run", "app:mule", "Go", cwd=home) as process:
        process.read_until("stubborn is here\n")
        process.interrupt()
        process.read_until("stubborn is here\n")
        process.interrupt()
        assert process.exit_code() == 130


def test_a_thread_that_cannot_be_stopped_does_not_hold_the_command(home: Path) -> None:
    with on_pipe("run", "app:blocker", "Go", cwd=home) as process:
        process.read_until("stuck has begun\n")
        process.interrupt()
        process.read_until("interrupted: stuck")
        assert process.exit_code() == 130


def test_ctrl_c_cancels_the_demo(tmp_path: Path) -> None:
    with on_pipe("demo", cwd=tmp_path) as process:
        process.read_until("→ read_policy")
        process.interrupt()
        process.read_until("cancelled ·")
        assert process.exit_code() == 130


def test_ctrl_c_does_not_reach_a_command_in_the_background_of_a_script(home: Path) -> None:
    """A shell without job control starts `awaken … &` with SIGINT ignored."""
    command = with_ctrl_c(signal.SIG_IGN, "-u", "-m", "awaken.cli", "run", "app:guard", "Go")
    with subprocess.Popen(
        command,
        cwd=home,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "the gate is shut" in line:
                break
        process.send_signal(signal.SIGINT)
        (home / "open").touch()
        assert "the gate is open" in process.stdout.read()
    assert process.returncode == 0
