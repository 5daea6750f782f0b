"""Agents that give each other tasks, some of whose deeds somebody has to approve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role
from awaken.core.run import RunRecord
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import Thread
from awaken.core.tool_context import Tool
from awaken.runtime.remote_agent import RemoteAgent
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_calls_response

T = "t"
"""The root's thread."""

Step = Sequence[tuple[str, Any]]
"""Tools that are called side by side, and their arguments."""


def to(agent: str, prompt: str = "do it") -> tuple[str, Any]:
    """A task for another agent."""
    return f"agent_run_{agent}", {"prompt": prompt}


def planned(name: str, *steps: Step) -> FunctionModel:
    """A model that makes the calls of one step after another, and then tells what they gave.

    It knows how far it is from the conversation alone, whichever process asks it.
    """

    def answer(request: InferenceRequest) -> StreamResult:
        start = max(i for i, m in enumerate(request.messages) if m.is_visible_user())
        turn = request.messages[start + 1 :]
        made = sum(bool(message.tool_calls) for message in turn)
        if made < len(steps):
            calls = [(t, f"{name}-{made}{i}", args) for i, (t, args) in enumerate(steps[made])]
            return tool_calls_response("", *calls)
        heard = [message.text() for message in turn if message.role is Role.TOOL]
        return text_response(f"{name}[{', '.join(heard)}]")

    return FunctionModel(answer)


class World:
    """What the agents' tools act upon, whoever runs them."""

    def __init__(self, expires: float | None = None) -> None:
        self.done: list[str] = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self._holding = asyncio.Semaphore(0)

        @tool(needs_approval=True, approval_expires_in=expires)
        async def pay(n: int) -> str:
            """Pay."""
            self.done.append(f"paid {n}")
            return f"paid {n}"

        @tool
        async def note(what: str) -> str:
            """Write something down."""
            self.done.append(f"noted {what}")
            return f"noted {what}"

        @tool
        async def hold() -> str:
            """Take as long as it takes."""
            self.entered.set()
            self._holding.release()
            await self.go.wait()
            self.done.append("held")
            return "held"

        self.tools: list[Tool] = [pay, note, hold]

    async def until_held(self, times: int) -> None:
        """Wait until so many calls hold that nobody has waited for."""
        for _ in range(times):
            await self._holding.acquire()

    def agent(self, name: str, *steps: Step, delegates: Sequence[str] = (), **more: Any) -> Agent:
        """An agent that follows a plan; it has the tools the plan names."""
        named = {called for step in steps for called, _ in step}
        tools = [tool for tool in self.tools if tool.descriptor().id in named]
        model = planned(name, *steps)
        return Agent(name, model=model, tools=tools, delegates=list(delegates), **more)


def calls_of(agents: Sequence[Agent]) -> dict[str, int]:
    """How often each agent's model was asked."""
    counted: dict[str, int] = {}
    for agent in agents:
        assert isinstance(agent.model, FunctionModel)
        counted[agent.id] = agent.model.calls
    return counted


class Place:
    """Where runs are kept; several runtimes may use it, at once or one after another."""

    def __init__(self, kind: str, home: Path) -> None:
        self._shared: Store | str = (
            MemoryStore() if kind == "memory" else f"sqlite:///{home / 'awaken.db'}"
        )

    def runtime(self, agents: Sequence[Agent | RemoteAgent], **options: Any) -> Runtime:
        return Runtime(agents, store=self._shared, **options)


# -- looking ----------------------------------------------------------------------------------


async def children(runtime: Runtime, thread: str = T) -> list[Thread]:
    """The threads beneath a thread, the oldest first."""
    page = await runtime.list_threads(ThreadQuery(parent_thread_id=thread))
    return sorted(page, key=lambda child: (child.created_at, child.id))


async def only_child(runtime: Runtime, thread: str = T) -> str:
    """The one run that a thread's run has started; it has the name of its thread."""
    (child,) = await children(runtime, thread)
    return child.id


async def record(runtime: Runtime, run_id: str) -> RunRecord:
    found = await runtime.find_run(run_id)
    assert found is not None
    return found


async def open_tickets(runtime: Runtime, thread: str = T) -> list[Ticket]:
    query = TicketQuery(thread_id=thread, status=TicketStatus.OPEN)
    return list(await runtime.list_tickets(query))


async def open_runs(runtime: Runtime) -> list[str]:
    """Every run, of any thread, that has not ended."""
    runs = await runtime.list_runs(RunQuery(limit=200))
    return [run.run_id for run in runs if run.status is not RunStatus.DONE]


async def told(runtime: Runtime, thread: str = T) -> list[str]:
    """What the calls of a thread were answered."""
    return [m.text() for m in await runtime.messages(thread) if m.role is Role.TOOL]


async def answer_of(runtime: Runtime, thread: str = T) -> str:
    """The last word of a thread."""
    said: list[Message] = [m for m in await runtime.messages(thread) if m.role is Role.ASSISTANT]
    return said[-1].text()


async def ended(runtime: Runtime, run_id: str) -> RunRecord:
    """Wait until a run is over, whoever carries it on."""
    since = 0
    async with asyncio.timeout(100):
        while (found := await record(runtime, run_id)).status is not RunStatus.DONE:
            since = await runtime.store.wait_changed(found.thread_id, since)
    return found


async def end_record(store: Store, thread: str = T) -> None:
    """End the run of a thread on record, and tell nobody: as if something had gone wrong."""
    run, head = await store.latest_run(thread), await store.load_thread(thread)
    assert run is not None
    assert head is not None
    done = msgspec.structs.replace(run, status=RunStatus.DONE, termination_reason=CANCELLED)
    commit = ThreadCommit(
        thread_id=thread,
        expected_length=head.message_count,
        run=msgspec.structs.replace(done, state=None),
    )
    await store.commit(commit)
