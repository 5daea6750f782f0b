"""What a delegate that is over has left in the background lives off the budget of its tree."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from budget_left_stage import STEPS, THREAD, Stage

from awaken import Runtime
from awaken.core.lifecycle import RunStatus, Stopped
from awaken.core.store.threads import RunQuery

pytestmark = pytest.mark.anyio


async def test_an_agent_left_queued_by_a_stopped_delegate_shares_the_budget_with_its_tree(
    tmp_path: Path,
) -> None:
    """Its process is killed; one process goes on with the root, another with the agent."""
    address = f"sqlite:///{tmp_path / 'a.db'}"
    program = Path(__file__).with_name("budget_left_stage.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), address, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(100):
            assert await process.stdout.readline() == b"waits\n"
    finally:
        process.kill()
        await process.wait()

    here, there = Stage(), Stage()
    there.may_dig.set()
    everybody = [here.lead, here.helper, here.walker]
    async with (
        asyncio.timeout(100),
        Runtime(everybody, store=address, recover=False) as one,
        asyncio.TaskGroup() as group,
    ):
        (helper,) = await one.list_runs(RunQuery(agent_id="helper"))
        assert isinstance(helper.termination_reason, Stopped)
        group.create_task(one.run("lead", "go on", thread=THREAD))
        await here.waits.wait()
        async with Runtime([there.helper, there.walker], store=address) as other:
            (task,) = [task for task in await other.tasks() if "walker" in task.description]
            await other.wait(task.id)
            here.may_lead.set()
            await one.wait(THREAD)
        runs = await one.list_runs(RunQuery())

    assert {run.status for run in runs} == {RunStatus.DONE}
    (walker,) = [run for run in runs if run.agent_id == "walker"]
    assert isinstance(walker.termination_reason, Stopped)
    assert sum(run.steps for run in runs) <= STEPS
