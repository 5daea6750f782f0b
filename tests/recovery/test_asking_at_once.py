"""Two processes that ask for one thread at the same moment: each runs, or is told one thing."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from ask_at_once import Ask, payer

from awaken import Runtime
from awaken.codec import dumps, loads
from awaken.core.store.commands import ThreadCommand

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("ask_at_once.py")
ROUNDS = 12


@asynccontextmanager
async def two_processes(address: str) -> AsyncIterator[list[Process]]:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), address, stdin=PIPE, stdout=PIPE
        )
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            await process.wait()


async def answers(processes: list[Process], ask: Ask) -> list[Ask]:
    """Let both ask at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(dumps(ask) + b"\n")
    said = []
    for process in processes:
        assert process.stdout is not None
        said.append(loads(await process.stdout.readline(), Ask))
    return said


@pytest.mark.parametrize("when_busy", ["queue", "refuse"])
async def test_a_cancelled_run_that_both_have_to_end_first_confuses_nobody(
    when_busy: Literal["queue", "refuse"], tmp_path: Path
) -> None:
    """Whoever waits gets a run; whoever does not may be told that the thread is busy, no more."""
    address = f"sqlite:///{tmp_path / 'a.db'}"
    async with (
        asyncio.timeout(60),
        Runtime([payer()], store=address, recover=False) as desk,
        two_processes(address) as processes,
    ):
        for number in range(ROUNDS):
            thread = f"t{number}"
            asked = await desk.run("payer", "pay", thread=thread)
            await desk.store.send(ThreadCommand.cancel(thread, asked.run_id, at_ms=1))
            said = await answers(processes, Ask(thread=thread, text="hi", when_busy=when_busy))
            log = [m.text() for m in await desk.messages(thread) if m.is_visible_user()]
            refused = [answer for answer in said if answer.error]
            assert log == ["pay", *["hi"] * (2 - len(refused))], said
            assert len(refused) <= (0 if when_busy == "queue" else 1), refused
            for answer in refused:
                assert answer.error == "ThreadAlreadyRunning", answer
                assert thread in answer.words
                assert "when_busy='queue'" in answer.words
