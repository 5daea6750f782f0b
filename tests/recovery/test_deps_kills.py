"""Dependencies after a kill -9 (09 §2.1)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from deps_stage import THREAD, Bank, agents

from awaken import Runtime
from awaken.contract.deps import RunInfo
from awaken.errors import RunAbandoned

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("deps_stage.py")


async def test_dependencies_are_made_again_once_by_a_process_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FD-3, FD-4, FD-5"""
    monkeypatch.setattr("awaken.front.tasks.PATIENCE", 0.05)
    path = tmp_path / "a.db"
    address = f"sqlite:///{path}"
    process = await asyncio.create_subprocess_exec(sys.executable, str(STAGE), str(path))
    assert await process.wait() == -signal.SIGKILL

    async with Runtime(agents(deadly=False), store=address) as runtime:
        assert runtime.recovered == []
        ((_, why),) = runtime.not_resumed.items()
        assert "agent 'bank' needs its dependencies, a Bank" in why
        with pytest.raises(RunAbandoned, match="Runtime"):
            await runtime.wait(THREAD, timeout=550)

    made: list[RunInfo] = []

    async def make(run: RunInfo) -> Bank:
        made.append(run)
        return Bank("s3cret", run.deps_key)

    async with Runtime(agents(deadly=False), store=address, deps={Bank: make}) as runtime:
        (recovered,) = runtime.recovered
        result = await recovered
        assert result.unwrap() == "bank: till 7: balance of 7"
        assert runtime.not_resumed == {}
    assert [(run.agent_id, run.thread_id, run.user) for run in made] == [("bank", THREAD, "ann")]
    assert b"s3cret" not in path.read_bytes()
