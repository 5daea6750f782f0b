"""Nothing is left of a process, whoever wanted it to end and however (02 §2.2, §2.9)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from process_stage import HERE, Stage, abort, backend_for, delegate, root

from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.backend import (
    BackendRunResult,
    BackendRunStatus,
)
from awaken.core.lifecycle import CANCELLED
from awaken.errors import Cancelled

pytestmark = pytest.mark.anyio

LONG = {"grace_ms": 60_000}
"""Grace enough for any machine: what should end by itself must."""


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Stage.open() as opened:
        yield opened


def is_cancelled(result: BackendRunResult) -> bool:
    return (result.status, result.termination) == (BackendRunStatus.cancelled(), CANCELLED)


# -- by the token -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["root", "delegate"])
async def test_a_token_lets_the_agent_put_its_things_in_order(stage: Stage, kind: str) -> None:
    """Cooperative: the run ends by itself, as cancelled."""
    backend = backend_for("slow", options=stage.options | LONG)
    token = CancellationToken()
    async with asyncio.TaskGroup() as tasks:
        run = (
            backend.execute_root(root(token=token))
            if kind == "root"
            else backend.execute_delegate(delegate(token=token))
        )
        running = tasks.create_task(run)
        guest = await stage.guest()
        token.cancel()

        assert await guest.last_words() == "bye\n"
        assert is_cancelled(await running)
    assert not guest.is_there


@pytest.mark.parametrize("agent", ["blocking", "deaf", "lingering"])
async def test_an_agent_that_does_not_listen_is_made_to_end(stage: Stage, agent: str) -> None:
    """SIGTERM, then SIGKILL; a thread that goes on for ever keeps nobody waiting, either."""
    backend = backend_for(agent, options=stage.options | {"grace_ms": 200})
    token = CancellationToken()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(backend.execute_root(root(token=token)))
        guest = await stage.guest()
        token.cancel()

        assert is_cancelled(await running)
    assert not guest.is_there
    assert await guest.last_words() == ""


async def test_an_agent_is_told_before_it_is_killed(stage: Stage) -> None:
    backend = backend_for("polite", options=stage.options | {"grace_ms": 1_000})
    token = CancellationToken()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(backend.execute_root(root(token=token)))
        guest = await stage.guest()
        token.cancel()

        assert await guest.last_words() == "SIGTERM"
        assert is_cancelled(await running)


async def test_a_cancelled_token_starts_nothing(stage: Stage) -> None:
    token = CancellationToken()
    token.cancel()

    result = await backend_for("slow", options=stage.options).execute_root(root(token=token))

    assert is_cancelled(result)
    assert stage.guests == []


async def test_a_token_that_comes_while_the_process_starts_is_heard(stage: Stage) -> None:
    backend = backend_for("slow", options=stage.options)
    token = CancellationToken()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(backend.execute_root(root(token=token)))
        await asyncio.sleep(0)
        token.cancel()

        assert is_cancelled(await running)


async def test_a_token_that_interrupts_the_caller_lets_the_agent_put_its_things_in_order(
    stage: Stage,
) -> None:
    """02 §2.9: as a runtime cancels a run: the backend is cut short, and waited for."""
    backend = backend_for("slow", options=stage.options | LONG)
    token = CancellationToken()

    async def execute() -> None:
        with pytest.raises(Cancelled), interruptible(token):
            await backend.execute_root(root(token=token))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(execute())
        guest = await stage.guest()
        token.cancel()
        assert await guest.last_words() == "bye\n"
    assert not guest.is_there


# -- by the task ------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["slow", "blocking", "deaf"])
async def test_a_cancelled_caller_leaves_nothing_running(stage: Stage, agent: str) -> None:
    backend = backend_for(agent, options=stage.options)
    before = asyncio.all_tasks()
    running = asyncio.ensure_future(backend.execute_root(root()))
    guest = await stage.guest()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not guest.is_there
    assert asyncio.all_tasks() - before <= {running}
    assert await guest.last_words() == ""


async def test_a_caller_that_is_cancelled_twice_does_not_wait(stage: Stage) -> None:
    """Who insists does not get the grace to its end."""
    backend = backend_for("deaf", options=stage.options | LONG)
    token = CancellationToken()
    running = asyncio.ensure_future(backend.execute_root(root(token=token)))
    guest = await stage.guest()

    token.cancel()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await guest.last_words() == ""


# -- by abort ---------------------------------------------------------------------------------


async def test_abort_kills(stage: Stage) -> None:
    """02/B10: what is claimed is done."""
    backend = backend_for("deaf", options=stage.options)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(backend.execute_root(root()))
        guest = await stage.guest()
        await backend.abort(abort("another"))
        assert guest.is_there

        await backend.abort(abort())

        assert is_cancelled(await running)
    assert not guest.is_there
    await backend.abort(abort())


# -- whatever it has started ------------------------------------------------------------------


async def test_what_a_process_has_started_ends_with_it(stage: Stage) -> None:
    """Also after a run that ended well; the line is held by a process that would sleep on."""
    result = await backend_for("fertile", options=stage.options).execute_root(root())

    assert result.response == "multiplied"
    guest = await stage.guest()
    assert await guest.last_words() == ""


PARENT = """
import asyncio, sys
from process_stage import backend_for, root

async def main():
    backend = backend_for(sys.argv[1], options={"env": {"STAGE": sys.argv[2]}})
    await backend.execute_root(root())

asyncio.run(main())
"""


def parent_of(agent: str, stage: Stage) -> subprocess.Popen[bytes]:
    """A process that runs an agent in a process."""
    return subprocess.Popen([sys.executable, "-c", PARENT, agent, str(stage.port)], cwd=HERE)


@pytest.mark.parametrize("agent", ["slow", "blocking", "deaf"])
async def test_a_process_whose_parent_is_killed_ends(stage: Stage, agent: str) -> None:
    """Nobody is left to tell it: it notices."""
    with parent_of(agent, stage) as parent:
        guest = await stage.guest()
        assert guest.is_there
        assert os.getpgid(guest.pid) != os.getpgid(parent.pid)

        parent.send_signal(signal.SIGKILL)

        assert await guest.last_words() == ""
