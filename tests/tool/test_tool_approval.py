from __future__ import annotations

from typing import Any

import pydantic
import pytest
from tool_context import run_tool

from awaken.core.suspension import ToolCallResume, ToolCallResumeMode
from awaken.core.tool import ToolStatus
from awaken.tool import tool

pytestmark = pytest.mark.anyio


class Target(pydantic.BaseModel):
    path: str = pydantic.Field(alias="filePath")


@tool(needs_approval=True)
async def delete(target: Target, force: bool = False) -> str:
    return f"deleted {target.path}, force={force}"


@tool(needs_approval=lambda amount, note="": amount > 100)
def pay(amount: int, note: str = "") -> str:
    return f"paid {amount}"


async def test_a_call_that_needs_approval_is_suspended_with_its_arguments() -> None:
    result = (await run_tool(delete, {"target": {"filePath": "/x"}})).result
    assert result.status is ToolStatus.PENDING
    assert result.message == "Approve delete?"
    ticket = result.suspension
    assert ticket is not None
    assert ticket.suspension.id == "approval_call_1"
    assert ticket.suspension.action == "tool:delete"
    assert ticket.suspension.message == "Approve delete?"
    assert ticket.suspension.parameters == {"target": {"filePath": "/x"}}
    assert ticket.resume_mode is ToolCallResumeMode.REPLAY_TOOL_CALL
    assert (ticket.pending.id, ticket.pending.name) == ("call_1", "delete")
    assert ticket.pending.arguments == {"target": {"filePath": "/x"}}


async def test_the_ticket_carries_what_can_be_read_again() -> None:
    @tool(needs_approval=True)
    def visit(url: pydantic.HttpUrl, times: list[int]) -> None: ...

    args = {"url": "https://example.com/", "times": [1]}
    ticket = (await run_tool(visit, args)).result.suspension
    assert ticket is not None
    assert ticket.pending.arguments == args


async def test_an_approved_call_runs() -> None:
    args = {"target": {"filePath": "/x"}, "force": True}
    output = await run_tool(delete, args, resume_input=ToolCallResume.approve())
    assert output.result.data == "deleted /x, force=True"


async def test_a_denied_call_never_runs() -> None:
    decision = ToolCallResume.deny("too risky")
    output = await run_tool(delete, {"target": {"filePath": "/x"}}, resume_input=decision)
    assert output.result.status is ToolStatus.ERROR
    assert output.result.message == "Denied: too risky"


@pytest.mark.parametrize(
    ("amount", "status"), [(100, ToolStatus.SUCCESS), (101, ToolStatus.PENDING)]
)
async def test_a_function_of_the_arguments_may_decide(amount: int, status: ToolStatus) -> None:
    assert (await run_tool(pay, {"amount": amount})).result.status is status


async def test_wrong_arguments_are_refused_before_anybody_is_asked() -> None:
    result = (await run_tool(pay, {"amount": "much"})).result
    assert result.message == "Invalid arguments: amount: expected `int`, got `str`"


async def test_a_failing_approval_function_is_an_error_and_the_tool_does_not_run() -> None:
    ran: list[int] = []

    def broken(**values: Any) -> bool:
        raise LookupError("no rule")

    @tool(needs_approval=broken)
    def f(n: int) -> None:
        ran.append(n)

    result = (await run_tool(f, {"n": 1})).result
    assert result.message == "Execution failed: LookupError: no rule"
    assert ran == []
