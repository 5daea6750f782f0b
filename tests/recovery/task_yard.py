"""A yard where tools and agents dig in the background: its process is killed at one place, and
another one goes on.

    python task_yard.py HOME

Plays every place, and what two living processes do to each other, and prints what was found after
each, as JSON. The ledger is the world outside: a line for every deed, and for every question to a
model.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1] / "worker"))

from delegation_kit import to
from task_kit import told, working

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.codec import dumps_text
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.store.threads import RunQuery
from awaken.core.thread import Thread
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel

T = "yard"
HUNG_AFTER = 20
Moment = Literal["before", "after"]
Tool = Literal["dig", "blast", "agent_run_helper"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# -- where it dies ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the first process dies: around a commit, after a cancel, or in the tool, either at once
    or when its owner waits.

    Args:
        calls: what the agent starts in the background.
        cancels: somebody ends the run when it waits; its tool goes on until then.
    """

    calls: Tool = "dig"
    commit: Callable[[ThreadCommit], bool] | None = None
    moment: Moment = "before"
    in_tool: bool = False
    waiting: bool = False
    cancels: bool = False


def _begins(commit: ThreadCommit) -> bool:
    run = commit.run
    return run is not None and run.is_task and run.status is RunStatus.RUNNING


def _ends(commit: ThreadCommit) -> bool:
    run = commit.run
    return run is not None and run.is_task and run.status is RunStatus.DONE


def _is_started(commit: ThreadCommit) -> bool:
    """The call that started the task is done."""
    done = [call for call in commit.calls if call.phase is CallPhase.SUCCEEDED]
    return commit.thread_id == T and bool(done)


def _hears(commit: ThreadCommit) -> bool:
    """The owner has read how the task ended."""
    return commit.thread_id == T and bool(commit.acks)


PLACES = {
    f"{calls}, {name}": place
    for calls in ("dig", "blast")
    for name, place in {
        "before the task is kept": Place(calls=calls, commit=_begins),
        "after the task was kept": Place(calls=calls, commit=_begins, moment="after"),
        "in the tool at once": Place(calls=calls, in_tool=True),
        "before its call is done": Place(calls=calls, commit=_is_started),
        "after its call was done": Place(calls=calls, commit=_is_started, moment="after"),
        "in the tool while its owner waits": Place(calls=calls, in_tool=True, waiting=True),
        "before its end is kept": Place(calls=calls, commit=_ends),
        "after its end was kept": Place(calls=calls, commit=_ends, moment="after"),
        "before its owner has heard": Place(calls=calls, commit=_hears),
        "after its owner has heard": Place(calls=calls, commit=_hears, moment="after"),
        "after its owner was cancelled": Place(calls=calls, waiting=True, cancels=True),
    }.items()
} | {
    f"helper, {name}": place
    for name, place in {
        "in its tool": Place(calls="agent_run_helper", in_tool=True, waiting=True),
        "before its end is kept": Place(calls="agent_run_helper", commit=_ends),
        "after its end was kept": Place(calls="agent_run_helper", commit=_ends, moment="after"),
    }.items()
}


class MortalStore(SqliteStore):
    """A store whose process dies around what it writes."""

    def __init__(self, path: Path, place: Place) -> None:
        super().__init__(path)
        self._place = place

    async def commit(self, commit: ThreadCommit) -> Committed:
        place = self._place
        dies = place.commit is not None and place.commit(commit)
        if dies and place.moment == "before":
            die()
        committed = await super().commit(commit)
        if dies:
            die()
        return committed

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        told = await super().cancel_tree(thread_id, at_ms=at_ms, by=by)
        if self._place.cancels:
            die()
        return told


# -- the yard ---------------------------------------------------------------------------------


class Yard:
    """The agents, and the ledger they write to."""

    def __init__(
        self, home: Path, place: Place, *, mortal: bool = False, blocks: bool = False
    ) -> None:
        self.ledger = home / "ledger"
        self.place = place
        self.begun = asyncio.Event()
        self.waits = asyncio.Event()
        self._mortal = mortal
        self._blocks = blocks or (mortal and place.cancels)
        store = MortalStore(home / "yard.db", place if mortal else Place())
        self.runtime = Runtime(self._agents(), store=store)

    def write(self, line: str) -> None:
        with self.ledger.open("a") as file:
            file.write(f"{line}\n")

    def _agents(self) -> list[Agent]:
        @tool(effect="idempotent")
        async def dig(ctx: ToolCallContext) -> str:
            """Dig, again if need be."""
            return await self._work("dug", ctx)

        @tool
        async def blast(ctx: ToolCallContext) -> str:
            """Blow something up, once."""
            return await self._work("blasted", ctx)

        @tool
        async def note() -> str:
            """Write it down."""
            self.write("noted")
            return "noted"

        calls = self.place.calls
        step = to("helper") if calls == "agent_run_helper" else (calls, {})
        helper = Agent(
            "helper",
            model=self._model("helper", [("note", {})], [("dig", {})]),
            tools=[note, dig],
        )
        aside: Sequence[Any] = [helper] if calls == "agent_run_helper" else [dig, blast]
        return [Agent("boss", model=self._model("boss", [step]), background=aside), helper]

    async def _work(self, done: str, ctx: ToolCallContext) -> str:
        self.begun.set()
        if self._mortal and self.place.waiting:
            await self.waits.wait()
        self.write(f"{done} for {ctx.idempotency_key}")
        if self._mortal and self.place.in_tool:
            die()
        if self._blocks:
            await asyncio.Event().wait()
        return done

    def _model(self, name: str, *plan: Any) -> FunctionModel:
        follow = working(name, *plan)

        async def answer(request: InferenceRequest) -> Any:
            self.write(f"asked {name} {len(request.messages)}")
            return [event async for event in follow.execute_stream(request)]

        return FunctionModel(answer)


async def first_life(yard: Yard) -> None:
    async with yard.runtime as runtime:
        await runtime.run("boss", "Dig!", thread=T)
        await yard.begun.wait()
        yard.waits.set()
        if yard.place.cancels:
            await runtime.cancel(T)
        await runtime.wait(T)


async def second_life(yard: Yard) -> dict[str, Any]:
    """Go on, and tell what is there in the end."""
    async with yard.runtime as runtime:
        result = await runtime.wait(T, timeout=HUNG_AFTER / 2)
        tasks = await runtime.tasks(T)
        for task in tasks:
            await runtime.wait(task.id, timeout=HUNG_AFTER / 2)
        runs = list(await runtime.list_runs(RunQuery()))
        return {
            "ledger": yard.ledger.read_text().splitlines(),
            "answer": result.response,
            "ended": str(result.termination),
            "told": await told(runtime, T),
            "tasks": [(task.id, task.status.value) for task in await runtime.tasks()],
            "runs": len(runs),
            "open": [run.run_id for run in runs if run.status is not RunStatus.DONE],
            "commands": len(await runtime.store.load_commands(T)),
        }


# -- processes --------------------------------------------------------------------------------


def in_a_process(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Do something in a process of its own; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(HUNG_AFTER)
        asyncio.run(work())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def exit_code(pid: int) -> int:
    """Wait for a process; returns its exit code, as Popen does."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def play(home: Path, place: Place) -> dict[str, Any]:
    home.mkdir()

    async def first() -> None:
        await first_life(Yard(home, place, mortal=True))

    async def second() -> None:
        found = await second_life(Yard(home, place))
        (home / "found").write_text(dumps_text(found))

    died = exit_code(in_a_process(first))
    if died != -signal.SIGKILL:
        return {"error": f"the first process ended with {died}"}
    ended = exit_code(in_a_process(second))
    if ended != 0:
        return {"error": f"the second process ended with {ended}"}
    return {"found": (home / "found").read_text()}


# -- side by side -----------------------------------------------------------------------------


async def hold(yard: Yard, begun: int, *, starts: bool) -> None:
    """Be a process whose task goes on until somebody ends it from outside."""
    async with yard.runtime as runtime:
        if starts:
            await runtime.run("boss", "Dig!", thread=T)
        await yard.begun.wait()
        os.write(begun, b"!")
        await runtime.wait(T)


async def look_in(yard: Yard) -> dict[str, Any]:
    """Be another one with the same agents, which ends the task."""
    async with yard.runtime as runtime:
        await runtime.recover()
        (task,) = await runtime.tasks(T)
        begun = yard.begun.is_set()
        receipt = await runtime.cancel(task.id)
        result = await runtime.wait(T, timeout=HUNG_AFTER / 2)
        return {
            "recovered": len(runtime.recovered),
            "found": (task.status.value, task.progress, begun),
            "receipt": [(item.kind, item.name, item.outcome.value) for item in receipt.items],
            "answer": result.response,
            "told": await told(runtime, T),
            "ledger": yard.ledger.read_text().splitlines(),
        }


def play_beside(home: Path, *, taken_up: bool) -> dict[str, Any]:
    """One process has a task, begun there or taken up from a dead one; another one ends it."""
    home.mkdir()
    place = Place(in_tool=True, waiting=True)
    if taken_up:

        async def first() -> None:
            await first_life(Yard(home, place, mortal=True))

        exit_code(in_a_process(first))
    reads, writes = os.pipe()

    async def holds() -> None:
        await hold(Yard(home, place, blocks=True), writes, starts=not taken_up)

    async def looks() -> None:
        found = await look_in(Yard(home, place))
        (home / "found").write_text(dumps_text(found))

    holder = in_a_process(holds)
    os.close(writes)
    if not os.read(reads, 1):
        return {"error": f"the holder ended with {exit_code(holder)}"}
    codes = exit_code(in_a_process(looks)), exit_code(holder)
    os.close(reads)
    if codes != (0, 0):
        return {"error": f"the processes ended with {codes}"}
    return {"found": (home / "found").read_text()}


def main(home: str) -> None:
    played = {name: play(Path(home) / name, place) for name, place in PLACES.items()}
    for name, taken_up in (("beside", False), ("beside, taken up", True)):
        played[name] = play_beside(Path(home) / name, taken_up=taken_up)
    print(dumps_text(played))


if __name__ == "__main__":
    main(*sys.argv[1:])
