"""Runs that kill every process that takes them up (SIGKILL, real processes)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import forked
from awaken import Runtime
from awaken.core.event import RunFinish, StepEnd, ToolCallDone
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, Stopped
from awaken.core.message import Message, Role
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery
from awaken.core.tool import ABANDONED, MAX_TAKEOVERS
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("crash_loop.py")
KILLED = -9


class Played:
    """What a plan left behind: the exit codes of its lives, what was done in them, the runs."""

    def __init__(self, told: dict[str, Any], runtime: Runtime) -> None:
        self.codes: list[int] = told["codes"]
        self.done: dict[str, int] = told["done"]
        self._runtime = runtime

    async def runs(self, thread: str = "t") -> list[RunRecord]:
        return [*(await self._runtime.list_runs(RunQuery(thread_id=thread)))]

    async def all_runs(self) -> list[RunRecord]:
        return [*(await self._runtime.list_runs())]

    async def log(self, thread: str = "t") -> list[Message]:
        return [*(await self._runtime.messages(thread))]

    async def events(self) -> list[object]:
        return [told.event async for told in self._runtime.events("t", follow=False)]


def run_program(plan: str, home: Path, *store: str) -> subprocess.CompletedProcess[str]:
    return forked.play(PROGRAM, plan, home, *store)


@asynccontextmanager
async def played(plan: str, home: Path, store: str = "") -> AsyncIterator[Played]:
    address = store or f"sqlite:///{home}/awaken.db"
    done = run_program(plan, home, address)
    assert done.returncode == 0, done.stderr
    async with Runtime([], store=address, recover=False) as runtime:
        yield Played(json.loads(done.stdout), runtime)


async def test_a_run_whose_tool_kills_its_process_is_abandoned_and_other_runs_go_on(
    tmp_path: Path,
) -> None:
    async with played("idempotent tool", tmp_path) as play:
        assert play.codes == [KILLED] * (1 + MAX_TAKEOVERS) + [0]
        assert play.done == {"parse": 1 + MAX_TAKEOVERS}
        (run,) = await play.runs()
        asked, called, told = await play.log()
        (beside,) = await play.runs("beside")
        events = await play.events()

    assert isinstance(run.termination_reason, Failed)
    assert run.termination_reason.value == ABANDONED
    assert (asked.text(), called.role) == ("Go!", Role.ASSISTANT)
    assert told.role is Role.TOOL
    assert "it is unknown whether 'parse' took effect" in told.text()
    assert beside.termination_reason == NATURAL_END
    assert [type(event) for event in events[-3:]] == [ToolCallDone, StepEnd, RunFinish]


async def test_on_postgres_a_run_that_kills_every_node_is_abandoned_and_the_next_node_lives(
    tmp_path: Path, postgres: Postgres
) -> None:
    """06/CL-20: each node takes it over when the lease of the one before it is over."""
    async with played("idempotent tool", tmp_path, postgres.address(lease=0.3, pool=3)) as play:
        assert play.codes == [KILLED] * (1 + MAX_TAKEOVERS) + [0]
        (run,) = await play.runs()
        (beside,) = await play.runs("beside")

    assert isinstance(run.termination_reason, Failed)
    assert run.termination_reason.value == ABANDONED
    assert run.error_payload["code"] == "abandoned"
    assert beside.termination_reason == NATURAL_END


async def test_a_tool_that_kills_before_its_call_is_on_record_is_found_out_as_well(
    tmp_path: Path,
) -> None:
    """A `read` call starts while the commit of its intent is under way."""
    async with played("read tool", tmp_path) as play:
        assert play.codes == [KILLED] * (1 + MAX_TAKEOVERS) + [0]
        (run,) = await play.runs()

    assert isinstance(run.termination_reason, Failed)


async def test_a_run_that_gets_ahead_between_crashes_is_not_abandoned(tmp_path: Path) -> None:
    async with played("stumbles", tmp_path) as play:
        assert play.codes == [KILLED] * 9 + [0]
        (run,) = await play.runs()

    assert run.termination_reason == NATURAL_END
    assert run.takeovers is None


async def test_calls_of_an_abandoned_run_are_settled_by_their_policy_and_nothing_is_started(
    tmp_path: Path,
) -> None:
    """A plugin kills: not even the plugins of the agent are used to end the run."""
    async with played("plugin", tmp_path) as play:
        assert play.codes == [KILLED] * (1 + MAX_TAKEOVERS) + [0]
        assert play.done == dict.fromkeys(("look", "put", "pay", "ship", "book"), 1) | {
            "activate": 1 + MAX_TAKEOVERS
        }
        _, called, *results = await play.log()
        (run,) = await play.runs()

    told = {m.tool_call_id: m.text() for m in results}
    names = {call.id: call.name for call in called.tool_calls or ()}
    unknown = {names[id or ""] for id, text in told.items() if "it is unknown whether" in text}
    assert unknown == {"put", "pay", "ship", "book"}
    assert len(told) == 5
    assert isinstance(run.termination_reason, Failed)


async def test_a_delegate_that_kills_is_abandoned_and_its_parent_goes_on(tmp_path: Path) -> None:
    async with played("delegate", tmp_path) as play:
        assert play.codes == [KILLED] * (1 + MAX_TAKEOVERS) + [0]
        (run,) = await play.runs()
        (child,) = [run for run in await play.all_runs() if run.agent_id == "below"]
        _, _, told, last = await play.log()

    assert isinstance(child.termination_reason, Failed)
    assert "abandoned" in told.text()
    assert (run.termination_reason, last.text()) == (NATURAL_END, "Done.")


async def test_a_delegate_that_gets_ahead_keeps_its_parent_from_being_abandoned(
    tmp_path: Path,
) -> None:
    async with played("delegate stumbles", tmp_path) as play:
        assert play.codes == [KILLED] * 9 + [0]
        ends = {run.agent_id: run.termination_reason for run in await play.all_runs()}

    assert ends == dict.fromkeys(("a", "below", "other"), NATURAL_END)


async def test_a_run_that_kills_beside_its_delegate_is_abandoned_too(tmp_path: Path) -> None:
    async with played("beside a delegate", tmp_path) as play:
        assert play.codes[-1] == 0
        # That the delegate is given up is news for its parent, which then has as many lives again.
        assert len(play.codes) <= 2 + 2 * MAX_TAKEOVERS
        runs = await play.all_runs()

    ends = {run.agent_id: run.termination_reason for run in runs}
    assert isinstance(ends["a"], Failed)
    assert None not in ends.values()


async def test_a_waiting_run_that_kills_whoever_comes_to_cancel_it_is_ended(tmp_path: Path) -> None:
    async with played("cancelled while it waits", tmp_path) as play:
        assert play.codes == [KILLED] * (2 + MAX_TAKEOVERS) + [0]
        (run,) = await play.runs()

    assert run.termination_reason == CANCELLED


async def test_what_a_delegate_had_done_is_told_where_its_boss_is_abandoned(tmp_path: Path) -> None:
    async with played("charges beneath", tmp_path) as play:
        assert play.done["charge"] == 1
        told = [m.text() for m in await play.log() if m.role is Role.TOOL]

    assert "charge(order=7) → charged for 7" in told[0]
    assert "unknown whether 'parse'" in told[1]


async def test_a_background_task_that_kills_is_abandoned_and_its_owner_is_told(
    tmp_path: Path,
) -> None:
    async with played("task", tmp_path) as play:
        assert play.codes == [KILLED] * (1 + MAX_TAKEOVERS) + [0]
        (task,) = [run for run in await play.all_runs() if run.is_task]
        (owner,) = await play.runs()
        log = await play.log()

    assert isinstance(task.termination_reason, Failed)
    assert task.termination_reason.value == ABANDONED
    assert any("abandoned" in message.text() for message in log)
    assert owner.termination_reason == NATURAL_END


async def test_each_question_that_killed_its_process_counts_against_the_budget(
    tmp_path: Path,
) -> None:
    """Two steps are allowed: the third process finds both used up, and asks nothing."""
    async with played("model", tmp_path) as play:
        assert play.codes == [KILLED, KILLED, 0]
        assert play.done == {"question": 2}
        (run,) = await play.runs()

    assert isinstance(run.termination_reason, Stopped)
    assert run.termination_reason.value.code == "budget"


async def test_runs_beside_one_that_kills_are_not_abandoned_with_it(tmp_path: Path) -> None:
    """They are taken up as often as it is at first, and get no further: then one at a time."""
    async with played("crowd", tmp_path) as play:
        assert play.codes[-1] == 0
        (run,) = await play.runs()
        (slow,) = await play.runs("slow")
        log = await play.log("slow")

    assert run.termination_reason == Failed(value=ABANDONED)
    assert slow.termination_reason == NATURAL_END
    assert [message.text() for message in log] == ["Think!", "Thought."]
