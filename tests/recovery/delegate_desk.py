"""A desk whose clerk pays: its process is killed at one place, and another one goes on.

    python delegate_desk.py HOME [PLACE ...]

Plays every place, or one, and prints what was found after each, as JSON. The ledger is the world
outside: a line for every deed, and for every question to a model.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1] / "worker"))

from far_agents import FarFactory, far_agent

from awaken import Agent, Runtime, ToolCallContext, ToolCallResume, tool
from awaken.codec import dumps_text
from awaken.core.event import CollectingSink, RunEvent, RunFinish
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.runtime.remote_agent import RemoteAgent
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

T = "desk"
HUNG_AFTER = 20
Moment = Literal["before", "after"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# -- where it dies ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the first process dies: around a commit or an answer, in the tool, or while all wait.

    Args:
        far: the clerk is an agent elsewhere, which waits for messages.
        recover: what the tool that pays says of calls that were cut short.
    """

    commit: Callable[[ThreadCommit], bool] | None = None
    decide: Callable[[str], bool] | None = None
    moment: Moment = "before"
    in_tool: bool = False
    waiting: bool = False
    far: bool = False
    recover: Literal["report", "ask"] = "report"


def _child_asks(commit: ThreadCommit) -> bool:
    asks = any(ticket.status is TicketStatus.OPEN for ticket in commit.tickets)
    return commit.thread_id != T and asks


def _child_hears(commit: ThreadCommit) -> bool:
    return commit.thread_id != T and any(m.text() == "Rome" for m in commit.messages)


def _child_ends(commit: ThreadCommit) -> bool:
    run = commit.run
    return commit.thread_id != T and run is not None and run.status is RunStatus.DONE


def _root_keeps(commit: ThreadCommit) -> bool:
    done = [call for call in commit.calls if call.phase is CallPhase.SUCCEEDED]
    return commit.thread_id == T and bool(done)


def _is_root(thread_id: str) -> bool:
    return thread_id == T


def _is_child(thread_id: str) -> bool:
    return thread_id != T


PLACES = {
    "in the child's tool": Place(in_tool=True),
    "in the child's tool that asks": Place(in_tool=True, recover="ask"),
    "before the child asks": Place(commit=_child_asks),
    "after the child asked": Place(commit=_child_asks, moment="after"),
    "while both wait": Place(waiting=True),
    "after the root was answered": Place(decide=_is_root, moment="after"),
    "before the child is answered": Place(decide=_is_child),
    "after the child was answered": Place(decide=_is_child, moment="after"),
    "before the child ends": Place(commit=_child_ends),
    "after the child ended": Place(commit=_child_ends, moment="after"),
    "before the root keeps it": Place(commit=_root_keeps),
    "after the root kept it": Place(commit=_root_keeps, moment="after"),
    "far, after the root was answered": Place(far=True, decide=_is_root, moment="after"),
    "far, before it is said": Place(far=True, commit=_child_hears),
    "far, after it was said": Place(far=True, commit=_child_hears, moment="after"),
}


class MortalStore(SqliteStore):
    """A store whose process dies around what it writes."""

    def __init__(self, path: Path, place: Place | None) -> None:
        super().__init__(path)
        self._place = place or Place()

    async def commit(self, commit: ThreadCommit) -> Committed:
        place = self._place
        dies = place.commit is not None and place.commit(commit)
        if dies and place.moment == "before":
            die()
        committed = await super().commit(commit)
        if dies:
            die()
        return committed

    async def decide(self, thread_id: str, decisions: Any, *, at_ms: int) -> int | None:
        place = self._place
        dies = place.decide is not None and place.decide(thread_id)
        if dies and place.moment == "before":
            die()
        command = await super().decide(thread_id, decisions, at_ms=at_ms)
        if dies:
            die()
        return command


# -- the desk ---------------------------------------------------------------------------------


class Desk:
    """The agents, and the ledger they write to."""

    def __init__(self, home: Path, place: Place, *, mortal: bool) -> None:
        self.ledger = home / "ledger"
        self.place = place
        self._mortal = mortal
        store = MortalStore(home / "desk.db", place if mortal else None)
        far = FarFactory(lambda said: self.write(f"heard {said}"))
        self.runtime = Runtime(self._agents(), store=store, backends=[far])

    def write(self, line: str) -> None:
        with self.ledger.open("a") as file:
            file.write(f"{line}\n")

    def _agents(self) -> list[Agent | RemoteAgent]:
        give = ("agent_run_clerk", {"prompt": "Pay the bill."})
        boss = Agent("desk", model=self._model("desk", give), delegates=["clerk"])
        if self.place.far:
            return [boss, far_agent("clerk")]

        @tool
        async def note() -> str:
            """Write it down."""
            self.write("noted")
            return "noted"

        @tool(needs_approval=True, recover=self.place.recover)
        async def pay(euros: int, ctx: ToolCallContext) -> str:
            """Pay."""
            self.write(f"paid {euros}")
            if self._mortal and self.place.in_tool:
                die()
            return f"paid {euros}"

        plan: list[tuple[str, Any]] = [("note", {}), ("pay", {"euros": 5})]
        return [boss, Agent("clerk", model=self._model("clerk", *plan), tools=[note, pay])]

    def _model(self, name: str, *plan: tuple[str, Any]) -> FunctionModel:
        def answer(request: InferenceRequest) -> StreamResult:
            self.write(f"asked {name} {len(request.messages)}")
            heard = [m.text() for m in request.messages if m.role is Role.TOOL]
            if len(heard) == len(plan):
                return text_response(f"{name}[{', '.join(heard)}]")
            called, arguments = plan[len(heard)]
            return tool_call_response("", called, f"{name}-{len(heard)}", arguments)

        return FunctionModel(answer)


class Killer(CollectingSink):
    """Dies when the root waits."""

    async def emit(self, event: RunEvent) -> None:
        if event.thread_id == T and isinstance(event.event, RunFinish):
            die()


def _answer(ticket: Ticket) -> ToolCallResume:
    said = "Rome" if ticket.message == "which city?" else None
    return ToolCallResume.approve(said, by="ann")


async def first_life(desk: Desk) -> None:
    async with desk.runtime as runtime:
        sink = Killer() if desk.place.waiting else None
        await runtime.run("desk", "Pay!", thread=T, sink=sink)
        for ticket in await _open(runtime):
            await runtime.run(thread=T, answers={ticket.key: _answer(ticket)})


async def second_life(desk: Desk) -> dict[str, Any]:
    """Go on, answer what is asked, and tell what is there in the end."""
    questions: list[str | None] = []
    async with desk.runtime as runtime:
        for recovered in runtime.recovered:
            await recovered
        while tickets := await _open(runtime):
            for ticket in tickets:
                questions.append(ticket.message)
                await runtime.run(thread=T, answers={ticket.key: _answer(ticket)})
        runs = list(await runtime.list_runs(RunQuery()))
        root = await runtime.store.latest_run(T)
        tickets = list(await runtime.list_tickets(TicketQuery()))
        children = await runtime.list_threads(ThreadQuery(parent_thread_id=T))
        return {
            "ledger": desk.ledger.read_text().splitlines(),
            "answer": root.final_output if root is not None else None,
            "runs": len(runs),
            "children": len(children),
            "open": [run.run_id for run in runs if run.status is not RunStatus.DONE],
            "tickets": sorted({ticket.status.value for ticket in tickets}),
            "questions": questions,
        }


async def _open(runtime: Runtime) -> list[Ticket]:
    query = TicketQuery(thread_id=T, status=TicketStatus.OPEN)
    return list(await runtime.list_tickets(query))


# -- processes --------------------------------------------------------------------------------


def in_a_process(work: Callable[[], Any]) -> int:
    """Do something in a process of its own; returns its exit code, as Popen does."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.alarm(HUNG_AFTER)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def play(home: Path, place: Place) -> dict[str, Any]:
    home.mkdir()
    died = in_a_process(lambda: asyncio.run(first_life(Desk(home, place, mortal=True))))
    if died != -signal.SIGKILL:
        return {"error": f"the first process ended with {died}"}

    def go_on() -> None:
        found = asyncio.run(second_life(Desk(home, place, mortal=False)))
        (home / "found").write_text(dumps_text(found))

    ended = in_a_process(go_on)
    if ended != 0:
        return {"error": f"the second process ended with {ended}"}
    return {"found": (home / "found").read_text()}


def main(home: str, *names: str) -> None:
    played = {name: play(Path(home) / name, PLACES[name]) for name in names or PLACES}
    print(dumps_text(played))


if __name__ == "__main__":
    main(*sys.argv[1:])
