"""One life of a process: it does what is left to be done, unless it is killed.

Every life runs the same program. It looks at the thread and starts the run, takes it up, or
answers for it, whichever comes next: a process that starts after a crash knows nothing else.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from crash_scenarios import THREAD, Answered, Scenario, World

from awaken import Runtime
from awaken.codec import dumps
from awaken.contract.store import Store
from awaken.contract.threads import RunQuery, TicketQuery
from awaken.domain.event import RunFinish
from awaken.domain.lifecycle import RunStatus, Suspended
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.errors import ThreadAlreadyRunning
from awaken.stores.sqlite import SqliteStore
from awaken.testing.chaos import KillSwitch, Picture, Witness, picture_of, watched_store

HUNG_AFTER = 10
"""Seconds; a life takes a few hundredths of one."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where a scenario is played: a directory with a database and a witness."""

    scenario: Scenario
    seed: int
    home: Path
    kills: frozenset[int] = frozenset()

    @property
    def witness(self) -> Witness:
        return Witness(self.home / "witness")

    @property
    def errors(self) -> Path:
        return self.home / "errors"

    @property
    def seen(self) -> Path:
        return self.home / "seen"

    def store(self) -> Store:
        return SqliteStore(self.home / "awaken.db")

    def look(self) -> Picture:
        """What is durable now; only while no other code of this process uses an event loop."""
        return asyncio.run(self._look())

    def open_runs(self) -> list[str]:
        """What has not ended, in any thread; to be asked like `look`."""
        return asyncio.run(self._open_runs())

    async def _open_runs(self) -> list[str]:
        store = self.store()
        await store.open()
        try:
            runs = await store.list_runs(RunQuery(limit=500))
            return [run.run_id for run in runs if run.status is not RunStatus.DONE]
        finally:
            await store.close()

    async def _look(self) -> Picture:
        store = self.store()
        await store.open()
        try:
            return await picture_of(store, THREAD)
        finally:
            await store.close()


class Role(Enum):
    """What a life is for: to run the agent, to answer for it, or to watch it, from outside."""

    WORK = "work"
    ANSWER = "answer"
    WATCH = "watch"


# -- in the child -----------------------------------------------------------------------------


async def live(stage: Stage, role: Role) -> None:
    """Do all that this process can do."""
    scenario = stage.scenario
    if role is Role.WATCH:
        return await _watch(stage)
    # Whoever answers while the other waits is not counted: their points would interleave.
    counted = role is Role.WORK or scenario.answered is not Answered.LIVE
    switch = KillSwitch(stage.witness, stage.kills if counted else ())
    world = World(switch, stage.seed)
    store = watched_store(stage.store(), switch) if counted else stage.store()
    try:
        await _play_part(store, role, scenario, world, by_itself=bool(stage.seed % 2))
    finally:
        # Left to the collector, its threads could be in the middle of things at the next fork.
        await store.close()


async def _play_part(
    store: Store, role: Role, scenario: Scenario, world: World, *, by_itself: bool
) -> None:
    if role is Role.ANSWER:
        async with Runtime([], store=store, recover=False) as runtime:
            await _answer_for_another(runtime, scenario, world)
        return
    agents = scenario.agents(world)
    if by_itself:
        async with Runtime(agents, store=store, on_close="leave") as runtime:
            await _work(runtime, scenario, world, by_itself=True)
    else:
        async with Runtime(agents, store=store, recover=False) as runtime:
            await _work(runtime, scenario, world, by_itself=False)


async def _work(runtime: Runtime, scenario: Scenario, world: World, *, by_itself: bool) -> None:
    """Everything that is left.

    Args:
        by_itself: the runtime takes up what was left behind and what was answered; else it is told.
    """
    for said, prompt in enumerate(scenario.prompts):
        await _carry_on(runtime, by_itself=by_itself)
        if len((await runtime.list_runs(RunQuery(thread_id=THREAD))).items) == said:
            await _start(runtime, scenario, prompt)
        while scenario.answered is Answered.BY_ITSELF and await _answer(runtime, scenario, world):
            await _carry_on(runtime, by_itself=by_itself)


async def _start(runtime: Runtime, scenario: Scenario, prompt: str) -> None:
    if scenario.answered is not Answered.LIVE:
        # The run before it is over, and may need an instant to leave the thread.
        await runtime.run("main", prompt, thread=THREAD, when_busy="queue")
        return
    async with runtime.stream("main", prompt, thread=THREAD, wait=True) as events:
        async for _ in events:
            pass


async def _carry_on(runtime: Runtime, *, by_itself: bool) -> None:
    """See to it that what was left behind, or answered, goes on until it is over or asks again."""
    since, store = 0, runtime.engine.store
    while True:
        for recovered in () if by_itself else await runtime.recover():
            with suppress(ThreadAlreadyRunning):
                await recovered
        latest = await store.latest_run(THREAD)
        if latest is None or latest.status is RunStatus.DONE or await _open_tickets(runtime):
            return
        since = await store.changed(THREAD, since)


async def _open_tickets(runtime: Runtime) -> tuple[Ticket, ...]:
    query = TicketQuery(thread_id=THREAD, status=TicketStatus.OPEN)
    return (await runtime.list_tickets(query)).items


async def _answer(runtime: Runtime, scenario: Scenario, world: World) -> bool:
    """Answer what is open; false if nothing is."""
    tickets = await _open_tickets(runtime)
    for ticket in tickets:
        await runtime.decide(THREAD, {ticket.key: scenario.answer(ticket, world)})
    return bool(tickets)


async def _answer_for_another(runtime: Runtime, scenario: Scenario, world: World) -> None:
    """Wait for a question if need be, and answer it."""
    since = 0
    while not await _answer(runtime, scenario, world):
        since = await runtime.engine.store.changed(THREAD, since)


async def _watch(stage: Stage) -> None:
    """Write down every event as it comes, until the last run is over."""
    ends = 0
    address = f"sqlite:///{stage.home / 'awaken.db'}"
    async with Runtime([], store=address, recover=False) as runtime:
        async for event in runtime.events(THREAD):
            with stage.seen.open("ab") as file:
                file.write(dumps(event) + b"\n")
            if isinstance(event.event, RunFinish):
                ends += not isinstance(event.event.termination, Suspended)
            if ends == len(stage.scenario.prompts):
                return


# -- in the parent ----------------------------------------------------------------------------


def start(stage: Stage, role: Role) -> int:
    """Begin a life; returns its process id."""
    return fork(lambda: live(stage, role), stage.errors)


def fork(
    work: Callable[[], Coroutine[Any, Any, None]], errors: Path, hung_after: int = HUNG_AFTER
) -> int:
    """Do `work` in a process of its own, which has imported all it needs; returns its id.

    The caller has no threads and no event loop. What still runs after `hung_after` seconds says
    where, and ends.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), 2)
        faulthandler.dump_traceback_later(hung_after - 1)
        signal.alarm(hung_after)
        asyncio.run(work())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(pid: int, kill_after: float | None = None) -> int:
    """Wait for a process, or kill it when its time is up; returns its exit code, as Popen does."""
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
