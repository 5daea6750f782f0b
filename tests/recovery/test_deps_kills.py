"""Dependencies after a kill -9 (09 §2.1)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from deps_stage import THREAD, Bank, agents

from awaken import Runtime
from awaken.core.deps import RunInfo
from awaken.errors import RunAbandoned
from awaken.events import RunStatus

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("deps_stage.py")


def written(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_dependencies_are_made_again_once_by_a_process_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """09/FD-3, 09/FD-4, 09/FD-5"""
    monkeypatch.setattr("awaken.runtime.waiting.OWNER_CHECK_SECONDS", 0.05)
    path = tmp_path / "a.db"
    address = f"sqlite:///{path}"
    process = await asyncio.create_subprocess_exec(sys.executable, str(STAGE), str(path))
    assert await process.wait() == -signal.SIGKILL

    made: list[RunInfo] = []

    async def make(run: RunInfo) -> Bank:
        made.append(run)
        return Bank("s3cret", run.deps_key)

    def unreachable(run: RunInfo) -> Bank:
        raise OSError("the bank does not answer")

    async with Runtime(agents(deadly=False), store=address, deps={Bank: unreachable}) as runtime:
        (recovered,) = runtime.recovered
        with pytest.raises(OSError, match="does not answer"):
            await recovered
    assert "could not be resumed: the bank does not answer" in caplog.text

    async with Runtime(agents(deadly=False), store=address) as unable:
        assert unable.recovered == []
        ((_, why),) = unable.not_resumed.items()
        assert "agent 'bank' needs its dependencies, a Bank" in why
        with pytest.raises(RunAbandoned, match="Runtime"):
            await unable.wait(THREAD, timeout=550)
        (run_id,) = unable.not_resumed
        left = await unable.find_run(run_id)
        assert left is not None
        assert left.status is RunStatus.RUNNING

        # The run is free: another owner takes it while this one, which cannot, is still there.
        async with Runtime(agents(deadly=False), store=address, deps={Bank: make}) as runtime:
            (recovered,) = runtime.recovered
            result = await recovered
            assert result.unwrap() == "bank: till 7: balance of 7"
            assert runtime.not_resumed == {}
        assert (await unable.wait(THREAD, timeout=550)).unwrap() == result.response
    assert [(run.agent_id, run.thread_id, run.user) for run in made] == [("bank", THREAD, "ann")]
    assert b"s3cret" not in written(tmp_path)
