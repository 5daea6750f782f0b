"""Asking a person before a tool runs: by handler, by answer, with other arguments (design §4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from front_kit import Piece, pay, told

from answer_kit import by_id
from awaken import (
    Agent,
    PhaseContext,
    Runtime,
    Suspend,
    SuspendTicket,
    ToolCallResume,
    ToolDescriptor,
    tool,
)
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import Suspension, ToolCallResumeMode
from awaken.errors import ConfigError
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


def asks(*amounts: int) -> Response:
    return tool_calls_response("", *[("pay", f"c{n}", {"n": n}) for n in amounts])


def runtime_of(*script: Response) -> tuple[Runtime, ScriptedModel]:
    model = ScriptedModel(script)
    return Runtime([Agent("payer", model=model, tools=[pay])]), model


def answers_in(model: ScriptedModel, request: int) -> list[str]:
    return [m.text() for m in model.requests[request].messages if m.tool_call_id]


async def test_a_handler_is_asked_for_every_ticket() -> None:
    """Design §8: `run()` asks the handler it was given; a plain function will do."""
    runtime, model = runtime_of(asks(1, 2), "done")
    seen: list[RunWaitingTicket] = []

    def decide(ticket: RunWaitingTicket) -> bool:
        seen.append(ticket)
        return bool(ticket.arguments["n"] < 2)

    result = await runtime.run("payer", "pay", on_approval=decide)

    assert result.response == "done"
    assert [(t.tool_name, t.tool_call_id, t.arguments) for t in seen] == [
        ("pay", "c1", {"n": 1}),
        ("pay", "c2", {"n": 2}),
    ]
    first, second = answers_in(model, 1)
    assert first == "paid 1"
    assert second.startswith("Denied")


async def test_a_handler_may_wait_for_somebody() -> None:
    """Design §8: an async one; a whole decision with its reason is an answer, too."""
    runtime, model = runtime_of(asks(1), "done")
    answered = asyncio.Event()

    async def decide(_: RunWaitingTicket) -> ToolCallResume:
        await answered.wait()
        return ToolCallResume.deny("not today")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(runtime.run("payer", "pay", on_approval=decide))
        await asyncio.sleep(0)
        answered.set()

    assert task.result().response == "done"
    assert answers_in(model, 1) == ["Denied: not today"]


async def test_a_handler_is_asked_again_in_a_later_step() -> None:
    """Design §8: all of it is one run."""
    runtime, _ = runtime_of(asks(1), asks(2), "done")
    seen: list[str] = []

    def decide(ticket: RunWaitingTicket) -> bool:
        seen.append(ticket.tool_call_id)
        return True

    result = await runtime.run("payer", "pay", thread="t", on_approval=decide)

    assert seen == ["c1", "c2"]
    assert (result.response, result.steps) == ("done", 3)
    assert len(await runtime.list_runs()) == 1


async def test_a_handler_that_answers_nonsense_is_told_so() -> None:
    """Bad input: the ticket is named; the run stays suspended and can still be answered."""
    runtime, _ = runtime_of(asks(1), "done")

    def decide(_: RunWaitingTicket) -> Any:
        return "yes"

    with pytest.raises(
        ConfigError, match="answer to 'approval_c1' is True, False or a ToolCallResume"
    ):
        await runtime.run("payer", "pay", thread="t", on_approval=decide)

    assert (
        await runtime.run(thread="t", answers=await by_id(runtime, {"c1": True}))
    ).response == "done"


async def test_a_handler_that_raises_leaves_the_run_waiting() -> None:
    """Bad input: its own error comes through."""
    runtime, _ = runtime_of(asks(1), "done")

    def decide(_: RunWaitingTicket) -> bool:
        raise KeyError("who is to say")

    with pytest.raises(KeyError, match="who is to say"):
        await runtime.run("payer", "pay", thread="t", on_approval=decide)

    [run] = await runtime.list_runs()
    assert run.status.value == "waiting"
    assert (
        await runtime.run(thread="t", answers=await by_id(runtime, {"c1": False}))
    ).response == "done"


async def test_answers_by_ticket_and_one_at_a_time() -> None:
    """Design §4: durable, answered once; what is left waits on."""
    runtime, model = runtime_of(asks(1, 2), "done")
    first = await runtime.run("payer", "pay", thread="t")
    assert [ticket.ticket_id for ticket in first.tickets] == ["approval_c1", "approval_c2"]

    second = await runtime.run(thread="t", answers=await by_id(runtime, {"approval_c2": True}))
    assert [ticket.tool_call_id for ticket in second.tickets] == ["c1"]
    assert model.calls == 1
    third = await runtime.run(thread="t", answers=await by_id(runtime, {"c1": False}))

    assert third.response == "done"
    assert third.run_id == first.run_id
    assert answers_in(model, 1)[1] == "paid 2"


async def test_an_approval_after_a_handoff_is_carried_out_by_who_asked() -> None:
    """D-22: the run was started with one agent and goes on with the other."""
    first = ScriptedModel([tool_call_response("", "handoff", "h1", {"agent": "payer"})])
    second = ScriptedModel([asks(7), "done"])
    runtime = Runtime(
        [
            Agent("front", model=first, handoffs=["payer"]),
            Agent("payer", model=second, tools=[pay]),
        ]
    )

    result = await runtime.run("front", "pay", on_approval=lambda _: True)

    assert result.response == "done"
    assert answers_in(second, 1)[-1] == "paid 7"


# -- with other arguments ---------------------------------------------------------------------


def edited(agent_id: str, model: ScriptedModel) -> Runtime:
    """An agent whose payments are held by a gate that lets people change them."""

    @tool
    async def transfer(n: int) -> str:
        """Transfer."""
        return f"transferred {n}"

    async def hold(ctx: PhaseContext) -> Suspend | None:
        if ctx.resume_input is not None:
            return None
        return Suspend(
            ticket=SuspendTicket(
                suspension=Suspension(id="check", action="edit"),
                resume_mode=ToolCallResumeMode.PASS_DECISION_TO_TOOL,
            )
        )

    gate = Piece("hold", lambda r: r.gate(hold))
    return Runtime([Agent(agent_id, model=model, tools=[transfer], plugins=[gate])])


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [({"n": 3}, "transferred 3"), ({"n": "all"}, "Invalid arguments"), ({}, "Invalid arguments")],
)
async def test_an_approval_may_change_the_arguments(arguments: Any, answer: str) -> None:
    """Design §4, §8: they are validated again."""
    model = ScriptedModel([tool_call_response("", "transfer", "c1", {"n": 900}), "done"])
    runtime = edited("a", model)
    waiting = await runtime.run("a", "go", thread="t")

    result = await runtime.run(
        thread="t", answers={waiting.tickets[0]: ToolCallResume.approve(arguments)}
    )

    assert result.response == "done"
    assert answers_in(model, 1)[0].startswith(answer)


# -- tools of the client ----------------------------------------------------------------------


async def test_a_tool_of_the_client_is_answered_by_the_client() -> None:
    """01/C-18 at the front door: the first call waits, the answer is its result."""
    click = ToolDescriptor(
        id="click",
        name="click",
        description="Click.",
        parameters={"type": "object", "properties": {"on": {"type": "string"}}},
    )
    model = ScriptedModel([tool_call_response("", "click", "c1", {"on": "OK"}), "clicked it"])
    runtime = Runtime([Agent("a", model=model)])

    waiting = await runtime.run("a", "go", thread="t", frontend_tools=[click])
    assert [(t.ticket_id, t.arguments) for t in waiting.tickets] == [("suspend_c1", {"on": "OK"})]
    result = await runtime.run(
        thread="t",
        answers=await by_id(runtime, {"c1": ToolCallResume.approve({"clicked": True})}),
        frontend_tools=[click],
    )

    assert result.response == "clicked it"
    assert told(model.requests[1].messages)[-1] == 'tool: {"clicked":true}'
