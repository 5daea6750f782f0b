"""Processes that die one after the other with the same run, until one of them lives.

Run as `crash_loop.py PLAN HOME [STORE]`. Each life is a process of its own that opens the same
database, takes up what was left, and really dies where the plan says so. Prints the lives' exit
codes and what was done in them, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from crash_life import fork, wait

from awaken import Agent, Budget, Registrar, Runtime, ToolCallContext, tool
from awaken.clock import SYSTEM_CLOCK
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role, ToolCall
from awaken.core.spec import AgentSpec
from awaken.core.state.command import MutationBatch
from awaken.core.tool_context import Tool
from awaken.testing import FunctionModel, text_response

T = "t"
MOST_LIVES = 20


class Diary:
    """What was done, over all lives."""

    def __init__(self, home: Path) -> None:
        self._path = home / "diary"

    def note(self, what: str) -> int:
        """Note it; returns how often it was done by now."""
        with self._path.open("a") as file:
            file.write(f"{what}\n")
        return self.counts()[what]

    def counts(self) -> Counter[str]:
        return Counter(self._path.read_text().splitlines() if self._path.exists() else [])


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the dead do not speak")


def plan_of(*steps: Sequence[tuple[str, dict[str, Any]]]) -> FunctionModel:
    """A model that wants these calls, one step after the other, and then is done."""

    def answer(request: InferenceRequest) -> StreamResult:
        done = sum(message.role is Role.ASSISTANT for message in request.messages)
        if done >= len(steps):
            return text_response("Done.")
        calls = [
            ToolCall(id=f"c{done}-{place}", name=name, arguments=arguments)
            for place, (name, arguments) in enumerate(steps[done])
        ]
        return StreamResult(content=(), tool_calls=tuple(calls))

    return FunctionModel(answer)


# -- tools that kill --------------------------------------------------------------------------


def killer(diary: Diary, effect: Literal["read", "idempotent"] = "read") -> Tool:
    @tool(effect=effect)
    async def parse() -> str:
        """Parse."""
        diary.note("parse")
        die()

    return parse


def stumbler(diary: Diary) -> Tool:
    """Dies three times with each of its calls, and gets through at the fourth."""

    @tool(effect="idempotent")
    async def climb(stair: int) -> str:
        """Climb."""
        if diary.note(f"climb {stair}") < 4:
            die()
        return f"on stair {stair}"

    return climb


def all_kinds(diary: Diary) -> list[Tool]:
    """Calls of every policy; all have begun when the last one kills the process."""
    begun: list[str] = []

    async def begin(name: str) -> str:
        diary.note(name)
        begun.append(name)
        if len(begun) == 5:
            die()
        await asyncio.Event().wait()
        return name

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return await begin("look")

    @tool(effect="idempotent")
    async def put() -> str:
        """Put."""
        return await begin("put")

    @tool
    async def pay() -> str:
        """Pay."""
        return await begin("pay")

    @tool(recover="ask")
    async def ship() -> str:
        """Ship."""
        return await begin("ship")

    async def verify(ctx: ToolCallContext) -> bool:
        diary.note("verify")
        die()

    @tool(recover="verify", verify=verify)
    async def book() -> str:
        """Book."""
        return await begin("book")

    return [look, put, pay, ship, book]


class Deadly:
    """A plugin that kills every process but the first at once."""

    id = "deadly"

    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def register(self, registrar: Registrar) -> None:
        return

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None:
        if self._diary.note("activate") > 1:
            die()

    def on_deactivate(self, batch: MutationBatch) -> None:
        return


# -- plans ------------------------------------------------------------------------------------


def agents_of(plan: str, diary: Diary) -> list[Agent]:
    other = Agent("other", model=FunctionModel(lambda request: "ok"))
    if plan in ("read tool", "idempotent tool"):
        tools = [killer(diary, "read" if plan == "read tool" else "idempotent")]
        return [Agent("a", model=plan_of([("parse", {})]), tools=tools), other]
    if plan == "stumbles":
        stairs = plan_of(*[[("climb", {"stair": stair})] for stair in (1, 2, 3)])
        return [Agent("a", model=stairs, tools=[stumbler(diary)]), other]
    if plan == "plugin":
        tools = all_kinds(diary)
        wanted = plan_of([(each.descriptor().id, {}) for each in tools])
        return [Agent("a", model=wanted, tools=tools, plugins=[Deadly(diary)]), other]
    if plan in ("delegate", "delegate stumbles"):
        if plan == "delegate":
            below = Agent("below", model=plan_of([("parse", {})]), tools=[killer(diary)])
        else:
            stairs = plan_of(*[[("climb", {"stair": stair})] for stair in (1, 2, 3)])
            below = Agent("below", model=stairs, tools=[stumbler(diary)])
        asks = plan_of([("agent_run_below", {"prompt": "Go!"})])
        return [Agent("a", model=asks, delegates=["below"]), below, other]
    if plan == "beside a delegate":
        below = Agent("below", model=plan_of([("parse", {})]), tools=[killer(diary)])
        asks = plan_of([("agent_run_below", {"prompt": "Go!"}), ("parse", {})])
        return [Agent("a", model=asks, delegates=["below"], tools=[killer(diary)]), below, other]
    if plan == "cancelled while it waits":
        asks = plan_of([("ship", {})])
        return [Agent("a", model=asks, tools=[approved()], plugins=[Deadly(diary)]), other]
    if plan == "model":

        def ask(request: InferenceRequest) -> StreamResult:
            diary.note("question")
            die()

        return [Agent("a", model=FunctionModel(ask), budget=Budget(steps=2)), other]
    if plan in ("crowd", "charges beneath"):
        return [*(crowd(diary) if plan == "crowd" else charging(diary)), other]
    if plan == "task":
        starts = plan_of([("parse", {})])
        return [Agent("a", model=starts, background=[killer(diary)]), other]
    raise ValueError(plan)


def approved() -> Tool:
    @tool(needs_approval=True)
    async def ship() -> str:
        """Ship."""
        return "shipped"

    return ship


def charging(diary: Diary) -> list[Agent]:
    """A boss who kills as soon as the delegate beside it has charged, and its delegate."""
    has_charged = asyncio.Event()

    @tool
    async def charge(order: int) -> str:
        """Take the money."""
        diary.note("charge")
        return f"charged for {order}"

    @tool(effect="idempotent")
    async def think() -> str:
        """Think for ever."""
        has_charged.set()
        await asyncio.Event().wait()
        return "thought"

    @tool(effect="idempotent")
    async def parse() -> str:
        """Parse."""
        if diary.note("parse") == 1:
            await has_charged.wait()
        die()

    steps = plan_of([("charge", {"order": 7})], [("think", {})])
    below = Agent("below", model=steps, tools=[charge, think])
    asks = plan_of([("agent_run_below", {"prompt": "Go!"}), ("parse", {})])
    return [Agent("a", model=asks, delegates=["below"], tools=[parse]), below]


def crowd(diary: Diary) -> list[Agent]:
    """One that kills at once, and one whose model takes longer than any of those lives."""
    asked = asyncio.Event()

    async def think(request: InferenceRequest) -> StreamResult:
        asked.set()
        await asyncio.sleep(0.2)
        return text_response("Thought.")

    @tool(effect="idempotent")
    async def parse() -> str:
        """Parse."""
        await asked.wait() if diary.note("parse") <= 2 else None
        die()

    slow = Agent("slow", model=FunctionModel(think))
    return [Agent("a", model=plan_of([("parse", {})]), tools=[parse]), slow]


async def live(plan: str, home: Path, store: str) -> None:
    diary = Diary(home)
    async with Runtime(agents_of(plan, diary), store=store) as runtime:
        if not await runtime.list_runs():
            if plan == "crowd":
                slow = asyncio.ensure_future(runtime.run("slow", "Think!", thread="slow"))
                await runtime.run("a", "Go!", thread=T)
                await slow
            await runtime.run("a", "Go!", thread=T)
            if plan == "cancelled while it waits":
                await runtime.store.cancel_tree(T, at_ms=SYSTEM_CLOCK.now_ms())
                die()
        for run in runtime.recovered:
            await run
        await runtime.wait(T)
        await runtime.run("other", "Hello!", thread="beside")


def main(plan: str, home: Path, store: str = "") -> None:
    address = store or f"sqlite:///{home}/awaken.db"
    codes: list[int] = []
    while len(codes) < MOST_LIVES and codes[-1:] != [0]:
        codes.append(wait(fork(lambda: live(plan, home, address), home / "errors")))
    print(json.dumps({"codes": codes, "done": Diary(home).counts()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4])
