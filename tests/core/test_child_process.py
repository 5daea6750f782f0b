"""Child processes: how they end, what ends with them, and what a fork of their owner holds."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from awaken.core.aio.child_process import ChildProcess, child_environment, describe_exit
from process_kit import open_pidfd

PATIENCE = 100.0


def start(code: str) -> ChildProcess:
    return ChildProcess([sys.executable, "-c", code], env=child_environment(), stderr=None)


def test_a_child_that_exits_takes_the_rest_of_its_group_along() -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(1000)\nos._exit(3)"
    child = start(code)
    assert child.exited.result(PATIENCE) == 3
    with child.stdout as stdout:
        assert stdout.read() == b""  # closed by everyone who held it
    child.close()


def test_a_child_may_exit_by_itself_before_it_is_killed() -> None:
    child = start("import sys; print('ready', flush=True); sys.stdin.read(); sys.exit(5)")
    with child.stdout as stdout:
        assert stdout.readline() == b"ready\n"
        child.stdin.close()
        assert child.end(grace=PATIENCE) == 5


def test_a_child_that_stays_is_killed() -> None:
    child = start("import time; time.sleep(1000)")
    with child.stdout:
        assert child.end() == -signal.SIGKILL
        assert child.end() == -signal.SIGKILL  # a second time changes nothing
        child.kill()


def test_a_caller_that_gives_up_waiting_cancels_nothing() -> None:
    child = start("import time; time.sleep(1000)")
    assert not child.exited.cancel()
    with child.stdout:
        child.end()


def test_a_command_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(OSError, match="nowhere"):
        ChildProcess(["/nowhere/at/all"], env={})


def test_a_child_ends_with_its_owner_though_a_fork_of_the_owner_lives() -> None:
    owner = f"""
import os, sys, time
from awaken.core.aio.child_process import ChildProcess
child = ChildProcess(
    [{sys.executable!r}, "-c", "import sys; sys.stdin.read()"], env={{}}, stdout=2, stderr=None
)
if os.fork() == 0:
    assert child.end() == 0  # it is not this process's to wait for
    time.sleep(1000)
print(child.pid, flush=True)
time.sleep(1000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        child = open_pidfd(int(process.stdout.readline()))
        try:
            assert not select.select([child], [], [], 0)[0]
            process.kill()
            assert select.select([child], [], [], PATIENCE)[0]  # readable once the child is dead
        finally:
            os.close(child)
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (-11, "was killed by SIGSEGV"),
        (-9, "was killed by SIGKILL, perhaps for want of memory"),
        (-200, "was killed by signal 200"),
    ],
)
def test_a_return_code_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
