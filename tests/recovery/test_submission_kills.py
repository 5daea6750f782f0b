"""Submissions survive the process that accepted them, and those that carry them out (06 §2.6)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from submission_stage import THREAD, clerk

import forked
from awaken import Runtime
from awaken.core.lifecycle import NATURAL_END, RunStatus

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("submission_stage.py")
PATIENCE = 100


async def play(*arguments: object) -> tuple[int, str]:
    """The return code and the output of a process that plays a part."""
    done = await forked.play_beside(STAGE, *arguments)
    return done.returncode, done.stdout


def notes(path: Path) -> int:
    """How often the agent's tool did its work."""
    file = Path(f"{path}.notes")
    return len(file.read_text().splitlines()) if file.exists() else 0


async def carried_out_once(path: Path, run_id: str) -> None:
    """This process carries on what is left; then the work was done once, in one run."""
    async with Runtime([clerk(str(path))], store=f"sqlite:///{path}") as runtime:
        result = await runtime.wait(run_id, timeout=PATIENCE)
        runs = await runtime.list_runs()
        log = [message.text() for message in await runtime.messages(THREAD)]
        assert not await runtime.store.load_commands(THREAD)
    assert result.termination == NATURAL_END
    assert [(run.run_id, run.status) for run in runs] == [(run_id, RunStatus.DONE)]
    assert log.count("note it") == 1


async def test_an_answered_submission_survives_a_kill_in_the_same_instant(tmp_path: Path) -> None:
    """06/SV-9"""
    path = tmp_path / "a.db"
    code, output = await play("submit", path)
    assert code == -signal.SIGKILL
    await carried_out_once(path, output.split()[0])
    assert notes(path) == 1


async def test_ten_processes_that_send_the_same_key_make_one_run(tmp_path: Path) -> None:
    """06/SV-9: ten equal answers, though each process dies as soon as it has its own."""
    path = tmp_path / "a.db"
    async with asyncio.TaskGroup() as group:
        parts = [group.create_task(play("submit", path)) for _ in range(10)]
    answers = [part.result()[1].split() for part in parts]
    assert len({(run_id, cursor) for run_id, cursor, _ in answers}) == 1
    assert sorted(is_new for *_, is_new in answers) == ["0"] * 9 + ["1"]
    await carried_out_once(path, answers[0][0])
    assert notes(path) == 1


@pytest.mark.parametrize("part", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_a_submission_is_run_once_though_its_process_dies_at_a_commit(
    tmp_path: Path, part: str, at: int
) -> None:
    """06/SV-9: before the first commit the submission is still there; after it, the run is."""
    path = tmp_path / "a.db"
    _, output = await play("submit", path)
    code, _ = await play(part, path, at)
    assert code in (-signal.SIGKILL, 0)
    await carried_out_once(path, output.split()[0])
    # A call that had begun when its process died is not made again.
    assert notes(path) == 1 or (notes(path) == 0 and at > 1)
