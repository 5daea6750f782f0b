"""How often gates are asked about the calls of a step (02/L5)."""

from __future__ import annotations

from typing import Any

import pytest

from awaken import Agent, PhaseContext, Runtime, Suspend, ToolOutput, tool
from awaken.core.intercept import Block, SetResult, ToolInterceptPayload
from awaken.core.spec import ToolExecutorKind
from awaken.core.state.command import Command
from awaken.core.state.key import StateKey
from awaken.core.suspension import SuspendTicket
from awaken.core.tool import ToolResult
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio

OPEN: StateKey[bool, bool] = StateKey("door.open", initial=bool)


class Gate:
    """A gate that objects to some calls, and keeps what it was asked about."""

    def __init__(self, id: str, **objections: ToolInterceptPayload) -> None:
        self.id = id
        self.objections = objections
        self.asked: list[str | None] = []

    def register(self, registrar: Any) -> None:
        registrar.gate(self.look)

    async def look(self, ctx: PhaseContext) -> ToolInterceptPayload | None:
        self.asked.append(ctx.tool_call_id)
        return None if ctx.read(OPEN) else self.objections.get(ctx.tool_call_id or "")


class House:
    """Three calls of one step: the first opens the door if `opens`."""

    def __init__(self, *gates: Gate, opens: bool = False, **options: Any) -> None:
        @tool(effect="idempotent")
        async def step(n: int) -> ToolOutput:
            """Take a step."""
            command = Command().update(OPEN, True) if opens and n == 1 else None
            return ToolOutput(ToolResult.success("step", n), command)

        calls = [("step", f"c{n}", {"n": n}) for n in (1, 2, 3)]
        model = ScriptedModel([tool_calls_response("", *calls), "done"])
        agent = Agent("a", model=model, tools=[step], state=[OPEN], plugins=list(gates), **options)
        self.runtime = Runtime([agent], store=MemoryStore())

    async def run(self) -> None:
        await self.runtime.run("a", "go", thread="t")


RESULT = SetResult(result=ToolResult.success("step", "by the gate"))
SUSPEND = Suspend(ticket=SuspendTicket())


@pytest.mark.parametrize("executor", list(ToolExecutorKind))
async def test_a_gate_that_lets_all_calls_run_is_asked_once_about_each(
    executor: ToolExecutorKind,
) -> None:
    gate = Gate("g")

    await House(gate, tool_executor=executor).run()

    assert gate.asked == ["c1", "c2", "c3"]


@pytest.mark.parametrize("verdict", [RESULT, SUSPEND], ids=["set_result", "suspend"])
async def test_a_gate_that_objects_to_the_first_call_is_not_asked_again(
    verdict: ToolInterceptPayload,
) -> None:
    """Nothing ran before it that could change its mind."""
    gate = Gate("g", c1=verdict, c2=verdict, c3=verdict)

    await House(gate).run()

    assert gate.asked == ["c1", "c2", "c3"]


@pytest.mark.parametrize("verdict", [RESULT, SUSPEND], ids=["set_result", "suspend"])
async def test_only_the_gate_that_objects_is_asked_again(verdict: ToolInterceptPayload) -> None:
    """02/L5: once more, because earlier calls had not run; the other gates have spoken."""
    calm, strict = Gate("calm"), Gate("strict", c2=verdict)

    await House(calm, strict).run()

    assert strict.asked == ["c1", "c2", "c2", "c3"]
    assert calm.asked == ["c1", "c2", "c3"]


async def test_a_gate_whose_mind_is_changed_lets_the_call_run() -> None:
    """02/L5: what ran first has opened the door."""
    calm, strict = Gate("calm"), Gate("strict", c2=Block(reason="locked"))
    house = House(calm, strict, opens=True)

    await house.run()

    results = [m.text() for m in await house.runtime.messages("t") if m.tool_call_id]
    assert results == ["1", "2", "3"]
    assert (calm.asked, strict.asked) == (["c1", "c2", "c3"], ["c1", "c2", "c2", "c3"])
