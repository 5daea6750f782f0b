"""Agents that let tools and other agents work in the background, and what is left of that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from delegation_kit import Step, T, ended, only_child, to

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery
from awaken.core.task import TaskParentContext
from awaken.core.thread_ids import agent_ids
from awaken.core.tool_context import Tool
from awaken.ext.tasks import BackgroundTaskManager, TaskContext, TaskOptions, TaskResult
from awaken.testing import FunctionModel, text_response, tool_calls_response

_EVENT = "<background-task-event"


# -- models -----------------------------------------------------------------------------------


def working(name: str, *steps: Step) -> FunctionModel:
    """A model that makes the calls of one step after another, whatever it is told meanwhile, and
    then says what it has been told.

    It knows how far it is from the conversation alone, whichever process asks it.
    """

    def answer(request: InferenceRequest) -> StreamResult:
        made = sum(bool(message.tool_calls) for message in request.messages)
        if made < len(steps):
            calls = [(t, f"{name}-{made}{i}", args) for i, (t, args) in enumerate(steps[made])]
            return tool_calls_response("", *calls)
        return text_response(f"{name}: {'; '.join(told_in(request.messages))}")

    return FunctionModel(answer)


def sender_of(message: Message) -> str | None:
    """The agent that has written a message, if one has."""
    return message.metadata.sender_agent_id if message.metadata is not None else None


def told_in(messages: Sequence[Message]) -> list[str]:
    """What tasks and other agents have told in a conversation, in short: `bg_0 completed dug 1`."""
    found: list[str] = []
    for message in messages:
        if message.text().startswith(_EVENT):
            found.append(_in_short(json.loads(message.text().splitlines()[1])))
        elif sender_of(message) is not None:
            found.append(f"{sender_of(message)} says {message.text()}")
    return found


def _in_short(event: Any) -> str:
    if event.get("outcome_unknown"):
        assert "it is unknown whether" in event["error"]
        return f"{event['task_id']} {event['kind']}, outcome unknown"
    news = event.get("payload", event.get("result", event.get("error")))
    if isinstance(news, dict):
        news = news.get("response", news)
    return f"{event['task_id']} {event['kind']}" + ("" if news is None else f" {news}")


# -- tools ------------------------------------------------------------------------------------


class Yard:
    """Tools that say when they have begun, and go on until they are let go."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.calls: list[ToolCallContext] = []
        self._begun = asyncio.Semaphore(0)
        self._gates: dict[int, asyncio.Event] = {}

        @tool(effect="idempotent")
        async def dig(n: int, ctx: ToolCallContext) -> str:
            """Dig a hole; again, if need be."""
            return await self._dig(n, ctx)

        @tool
        async def blast(n: int, ctx: ToolCallContext) -> str:
            """Blow something up, once."""
            return await self._dig(n, ctx)

        @tool(effect="read")
        async def fall(n: int) -> str:
            """Fail."""
            raise ValueError(f"no ground {n}")

        @tool
        async def note(what: str) -> str:
            """Write something down."""
            self.done.append(f"noted {what}")
            return f"noted {what}"

        @tool(needs_approval=True)
        async def pay(n: int) -> str:
            """Pay."""
            self.done.append(f"paid {n}")
            return f"paid {n}"

        self._tools: dict[str, Tool] = {
            made.descriptor().id: made for made in (dig, blast, fall, note, pay)
        }

    def tool(self, name: str) -> Tool:
        return self._tools[name]

    async def _dig(self, n: int, ctx: ToolCallContext) -> str:
        self.calls.append(ctx)
        self._begun.release()
        await self._gate(n).wait()
        self.done.append(f"dug {n}")
        return f"dug {n}"

    def _gate(self, n: int) -> asyncio.Event:
        return self._gates.setdefault(n, asyncio.Event())

    def let_go(self, *numbers: int) -> None:
        """Let the diggers of these holes be done."""
        for n in numbers:
            self._gate(n).set()

    async def until_begun(self, times: int = 1) -> None:
        """Wait until so many diggers have begun that nobody has waited for."""
        async with asyncio.timeout(100):
            for _ in range(times):
                await self._begun.acquire()

    def agent(self, name: str, *steps: Step, background: Sequence[Any] = (), **more: Any) -> Agent:
        """An agent that follows a plan. What of it is named here works in the background; of what
        is named in the plan it has the tools."""
        aside = [self._tools[it] if isinstance(it, str) else it for it in background]
        taken = {made.descriptor().id for made in aside if not isinstance(made, Agent)}
        named = {called for step in steps for called, _ in step} - taken
        tools = [made for id, made in self._tools.items() if id in named]
        return Agent(
            name,
            model=working(name, *steps),
            tools=[*tools, *more.pop("tools", ())],
            background=aside,
            **more,
        )

    def digger(self, *steps: Step, **more: Any) -> Agent:
        """An agent that digs in the background."""
        return self.agent("digger", *steps, background=["dig"], **more)


def boss(helper: Agent, *steps: Step, **more: Any) -> Agent:
    """An agent that lets another one work in the background."""
    plan = [[to(helper.id)], *steps]
    return Agent("boss", model=working("boss", *plan), background=[helper], **more)


def dig(*numbers: int) -> Step:
    """A step that digs holes side by side."""
    return [("dig", {"n": n}) for n in numbers]


class Started:
    """A tool, `start`, whose task does as the test says: emits, and ends."""

    def __init__(self, **options: Any) -> None:
        self.tasks: list[TaskContext] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

        @tool
        async def start(ctx: ToolCallContext, name: str | None = None) -> str:
            """Start something."""
            return await ctx.service(BackgroundTaskManager).spawn(
                ctx.run_identity.thread_id,
                "work",
                name,
                "some work",
                TaskParentContext(),
                self._work,
                TaskOptions(**options),
            )

        self.tool: Tool = start

    async def _work(self, task: TaskContext) -> TaskResult:
        self.tasks.append(task)
        self.begun.set()
        await self.go.wait()
        return TaskResult.success("done")

    async def emit(self, event: str, payload: Any) -> bool:
        await self.begun.wait()
        return await self.tasks[-1].emit(event, payload)


# -- looking ----------------------------------------------------------------------------------


async def told(runtime: Runtime, thread: str = T) -> list[str]:
    """What the agent of a thread was told by tasks and other agents, each time it was."""
    return told_in(await runtime.messages(thread))


async def tasks_in(runtime: Runtime) -> list[RunRecord]:
    """The runs that are tasks, the oldest first."""
    runs = [run for run in await runtime.list_runs(RunQuery(limit=500)) if run.is_task]
    return runs[::-1]


async def agent_in_task(runtime: Runtime, thread: str = T) -> str:
    """The run of the agent that works in the only task of a thread, whether or not it has begun."""
    return agent_ids(await only_child(runtime, thread))[-1]


async def latest(runtime: Runtime, thread: str = T) -> RunRecord:
    run = await runtime.store.latest_run(thread)
    assert run is not None
    return run


async def until_told(runtime: Runtime, times: int, thread: str = T) -> RunRecord:
    """Wait until the agent of a thread was told so often, and waits or is done."""
    seen = 0
    async with asyncio.timeout(100):
        while True:
            seen = await runtime.store.wait_changed(thread, seen)
            if len(await told(runtime, thread)) == times:
                run = await latest(runtime, thread)
                if run.status is not RunStatus.RUNNING:
                    return run


async def over(runtime: Runtime, thread: str = T) -> RunRecord:
    """Wait until the latest run of a thread is over, whoever carries it on."""
    return await ended(runtime, (await latest(runtime, thread)).run_id)


async def waiting(runtime: Runtime, run_id: str) -> RunRecord:
    """Wait until a run waits for somebody's answer."""
    seen = 0
    async with asyncio.timeout(100):
        while True:
            seen = await runtime.store.wait_changed(run_id, seen)
            run = await runtime.find_run(run_id)
            if run is not None and run.waiting is not None and run.waiting.tickets:
                return run
