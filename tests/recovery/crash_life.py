"""One life of a process: it does what is left to be done, unless it is killed.

Every life runs the same program. It looks at the threads and starts runs, takes them up, or
answers for them, whichever comes next: a process that starts after a crash knows nothing else.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from crash_ground import Site
from crash_scenarios import THREAD, Answered, Cancelled, Said, Scenario
from crash_service import Service, ServiceFactory
from crash_world import World

from awaken import Runtime
from awaken.codec import dumps
from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord, RunRequestSnapshot
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import InvalidResume, ThreadAlreadyRunning
from awaken.testing.chaos import (
    ChangeWatcher,
    EffectLog,
    KillSwitch,
    ThreadDump,
    at_rest,
    dump_store,
    open_runs,
    questions,
    watch_store,
)

LEFT_BEHIND = "left-behind"
HUNG_AFTER = 10
"""Seconds; a life takes a few hundredths of one."""
WATCHER_HUNG_AFTER = 100
"""Seconds; a watcher lives through all lives of a play."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where a scenario is played: the addresses of store and bus, and a directory with a
    effect_log."""

    scenario: Scenario
    seed: int
    home: Path
    site: Site
    kills: frozenset[int] = frozenset()

    @property
    def effect_log(self) -> EffectLog:
        return EffectLog(self.home / "effect_log")

    @property
    def errors(self) -> Path:
        return self.home / "errors"

    @property
    def seen(self) -> Path:
        return self.home / "seen"

    def store(self) -> Store:
        return self.site.open()

    @property
    def service(self) -> Service:
        return Service(self.home / "service")

    def look(self) -> ThreadDump:
        """What is durable now; only while no other code of this process uses an event loop."""
        return asyncio.run(self._look())

    async def _look(self) -> ThreadDump:
        store = self.store()
        await store.open()
        try:
            return await dump_store(store, THREAD)
        finally:
            await store.close()


class Role(Enum):
    """What a life is for: to run the agents, or to answer for them, end them or watch them, from
    outside."""

    WORK = "work"
    ANSWER = "answer"
    CANCEL = "cancel"
    WATCH = "watch"


# -- in the child -----------------------------------------------------------------------------


async def live(stage: Stage, role: Role) -> None:
    """Do all that this process can do."""
    scenario = stage.scenario
    if role is Role.WATCH:
        return await _watch(stage)
    # Whoever acts while the other one runs is not counted: their points would interleave.
    counted = role is not beside(scenario)
    switch = KillSwitch(stage.effect_log, stage.kills if counted else ())
    world = World(stage.home, switch, stage.seed)
    store = watch_store(stage.store(), switch) if counted else stage.store()
    try:
        await _play_part(stage, store, role, world)
    finally:
        # Left to the collector, its threads could be in the middle of things at the next fork.
        await store.close()


def beside(scenario: Scenario) -> Role | None:
    """Who acts from outside while a process works."""
    if scenario.answered is Answered.LIVE:
        return Role.ANSWER
    return Role.CANCEL if scenario.cancelled is Cancelled.LIVE else None


async def _play_part(stage: Stage, store: Store, role: Role, world: World) -> None:
    scenario, bus = stage.scenario, stage.site.bus
    if role is Role.ANSWER:
        async with Runtime([], store=store, bus=bus, recover=False) as runtime:
            await _answer_for_another(runtime, scenario, world)
        return
    by_itself = bool(stage.seed % 2) and role is Role.WORK
    service = ServiceFactory(world.service, world.switch, careless=scenario.is_careless)
    async with Runtime(
        scenario.agents(world),
        backends=[service],
        store=store,
        bus=bus,
        recover=by_itself,
        on_close="leave" if by_itself else "cancel",
    ) as runtime:
        if role is Role.CANCEL:
            await _cancel(runtime)
        else:
            if scenario.leaves_behind and await store.load_run(LEFT_BEHIND) is None:
                await leave_behind(store)
            await _work(runtime, scenario, world, by_itself=by_itself)


async def leave_behind(store: Store) -> None:
    """Store a run that has ended, and a delegate that waits for an answer to its call."""
    ended = RunRecord(
        run_id="parent-of-it",
        thread_id="parent-of-it",
        agent_id="main",
        status=RunStatus.DONE,
        created_at=0,
        updated_at=0,
    )
    request = RunRequestSnapshot(origin=RequestOrigin.USER, parent_tool_call_id="c1")
    delegate = msgspec.structs.replace(
        ended,
        run_id=LEFT_BEHIND,
        thread_id=LEFT_BEHIND,
        parent_run_id=ended.run_id,
        request=request,
        status=RunStatus.WAITING,
    )
    for run, parent in ((ended, None), (delegate, ended.thread_id)):
        commit = ThreadCommit(
            thread_id=run.thread_id, expected_length=0, run=run, parent_thread_id=parent
        )
        await store.commit(commit)


async def _work(runtime: Runtime, scenario: Scenario, world: World, *, by_itself: bool) -> None:
    """Everything that is left.

    Args:
        by_itself: the runtime takes up what was left behind and what was answered; else it is told.
    """
    for place, said in enumerate(scenario.said if scenario.submitted else ()):
        # Each process submits it all again, with the same keys.
        await runtime.submit(
            said.agent,
            said.text,
            thread=said.thread,
            budget=scenario.budget,
            mode=said.mode,
            key=str(place),
        )
    for place, said in enumerate(() if scenario.submitted else scenario.said):
        if not await _settle(runtime, scenario, world, by_itself=by_itself, goes_on=bool(place)):
            return
        heard = len(prompts(await runtime.messages(said.thread)))
        if heard == sum(one.thread == said.thread for one in scenario.said[:place]):
            await _start(runtime, scenario, said)
    await _settle(runtime, scenario, world, by_itself=by_itself)


def prompts(log: Iterable[Message]) -> list[Message]:
    """What users have said in a thread, not other agents."""
    return [
        message
        for message in log
        if message.is_visible_user()
        and (message.metadata is None or message.metadata.sender_agent_id is None)
    ]


async def _start(runtime: Runtime, scenario: Scenario, said: Said) -> None:
    if scenario.answered is not Answered.LIVE:
        # The run before it is over, and may need an instant to leave the thread.
        await runtime.run(
            said.agent, said.text, thread=said.thread, budget=scenario.budget, when_busy="queue"
        )
        return
    async with runtime.stream(said.agent, said.text, thread=said.thread, wait=True) as events:
        async for _ in events:
            pass


async def _settle(
    runtime: Runtime,
    scenario: Scenario,
    world: World,
    *,
    by_itself: bool,
    goes_on: bool = False,
) -> bool:
    """See to it that what was left behind, or answered, goes on until it is over or waits for
    somebody who is not here; false if it does.

    Args:
        goes_on: the user may have more to say, and does not wait for questions nobody answers.
    """
    store = runtime.store
    changes = ChangeWatcher(store)
    while True:
        for recovered in () if by_itself else await runtime.recover():
            with suppress(ThreadAlreadyRunning, InvalidResume):  # another process was quicker
                await recovered
        if scenario.answered is Answered.NEVER:
            if goes_on and await questions(store):
                return True
        elif scenario.answered is not Answered.BY_ITSELF:
            if await questions(store):
                return False
        elif await _answer(runtime, scenario, world):
            continue
        if await at_rest(store):
            return True
        await changes.wait(await open_runs(store))


async def _answer(runtime: Runtime, scenario: Scenario, world: World) -> bool:
    """Answer what is open; false if nothing is."""
    tickets = await questions(runtime.store)
    for ticket in tickets:
        await runtime.decide(ticket.thread_id, {ticket.key: scenario.answer(ticket, world)})
    return bool(tickets)


async def _answer_for_another(runtime: Runtime, scenario: Scenario, world: World) -> None:
    """Wait for a question if need be, and answer it."""
    since = 0
    while not await _answer(runtime, scenario, world):
        since = await runtime.store.wait_changed(THREAD, since)


async def _cancel(runtime: Runtime) -> None:
    """Wait for a run if need be, and end it, with all it has started."""
    since = 0
    while True:
        latest = await runtime.store.latest_run(THREAD)
        if latest is not None and latest.status is not RunStatus.DONE:
            await runtime.cancel(THREAD)
            return
        since = await runtime.store.wait_changed(THREAD, since)


async def _watch(stage: Stage) -> None:
    """Follow the thread, and write down what comes, until the parent has seen enough of it."""
    site = stage.site
    async with Runtime([], store=site.store, bus=site.bus, recover=False) as runtime:
        async for event in runtime.follow(THREAD):
            with stage.seen.open("ab") as file:
                file.write(dumps(event) + b"\n")


# -- in the parent ----------------------------------------------------------------------------


def start(stage: Stage, role: Role) -> int:
    """Begin a life; returns its process id."""
    hung_after = WATCHER_HUNG_AFTER if role is Role.WATCH else HUNG_AFTER
    if stage.site.postgres:
        hung_after *= 6  # it opens several sessions, and the server shares the machine
    return fork(lambda: live(stage, role), stage.errors, hung_after)


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
