"""Arguments that an approver edits: they are checked before the answer is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answer_kit import by_id
from awaken import Agent, FrontEndTool, Runtime, ToolCallResume, tool
from awaken.codec import Json
from awaken.core.suspension import SuspendTicket
from awaken.core.tool import ToolDescriptor, ToolError, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput
from awaken.errors import ArgumentsRefused, InvalidResume
from awaken.testing import ScriptedModel, tool_call_response
from awaken.tool import Tool

pytestmark = pytest.mark.anyio

BAD = ToolCallResume.edit({"n": "a little"}, by="ann")
GOOD = ToolCallResume.edit({"n": 2}, by="ann")


def till(paid: list[int]) -> Agent:
    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return f"paid {n}"

    script: list[Any] = [tool_call_response("", "pay", "c1", {"n": 100}), "done"]
    return Agent("till", model=ScriptedModel(script), tools=[pay], description="Pays.")


def shop(paid: list[int]) -> Agent:
    script: list[Any] = [tool_call_response("", "agent_run_till", "c1", {"prompt": "pay"}), "sold"]
    return Agent("shop", model=ScriptedModel(script), delegates=[till(paid)])


def stranger() -> Agent:
    return Agent("stranger", model="demo")


def other_till() -> Agent:
    """The agent of a node with other code: its tool takes a text."""

    @tool(needs_approval=True)
    async def pay(n: str) -> str:
        """Pay."""
        raise AssertionError(n)

    return Agent("till", model=ScriptedModel([]), tools=[pay])


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'a.db'}"


@pytest.mark.parametrize("make", [till, shop], ids=["own call", "call of a delegate"])
async def test_arguments_that_do_not_fit_are_refused_and_the_ticket_stays_open(
    address: str, make: Callable[[list[int]], Agent]
) -> None:
    paid: list[int] = []
    async with Runtime([make(paid)], store=address) as runtime:
        run = await runtime.run(make([]).id, "go", thread="t")
        (ticket,) = await runtime.list_tickets()

        with pytest.raises(ArgumentsRefused, match=r"refused: Invalid arguments: .*n") as refused:
            await runtime.decide(run.run_id, {ticket.key: BAD})

        assert refused.value.ticket == ticket.key
        assert list(await runtime.list_tickets()) == [ticket]
        await runtime.decide(run.run_id, {ticket.key: GOOD})
        assert (await runtime.wait(run.run_id, timeout=50)).ok
        assert paid == [2]


@pytest.mark.parametrize("make", [till, shop], ids=["own call", "call of a delegate"])
@pytest.mark.parametrize("here", [stranger, other_till])
async def test_a_node_that_has_not_the_tool_checks_with_the_schema_of_the_ticket(
    address: str, make: Callable[[list[int]], Agent], here: Callable[[], Agent]
) -> None:
    async with Runtime([make([])], store=address) as runtime:
        run = await runtime.run(make([]).id, "go", thread="t")

    async with Runtime([here()], store=address, recover=False) as runtime:
        (ticket,) = await runtime.list_tickets()
        with pytest.raises(ArgumentsRefused, match="a little"):
            await runtime.decide(run.run_id, {ticket.key: BAD})
        with pytest.raises(ToolError, match="expected a JSON object"):
            await runtime.check_arguments(ticket, [1])
        await runtime.check_arguments(ticket, {"n": 2})
        assert await runtime.decide(run.run_id, {ticket.key: GOOD}) is False
        assert list(await runtime.list_tickets()) == []


async def test_a_submission_with_arguments_that_do_not_fit_is_not_stored(address: str) -> None:
    async with Runtime([till([])], store=address) as runtime:
        await runtime.run("till", "go", thread="t")
        (ticket,) = await runtime.list_tickets()

        with pytest.raises(ArgumentsRefused, match="got `str`"):
            await runtime.submit(thread="t", answers={ticket.key: BAD})

        assert list(await runtime.list_tickets()) == [ticket]
        assert len(await runtime.list_runs()) == 1


async def test_an_answer_to_another_question_is_refused_for_that(address: str) -> None:
    async with Runtime([till([])], store=address) as runtime:
        run = await runtime.run("till", "go", thread="t")
        (ticket,) = await runtime.list_tickets()
        stale = ToolCallResume.edit({"n": "a little"}, digest="0" * 32)

        with pytest.raises(InvalidResume, match="read the ticket") as refused:
            await runtime.decide(run.run_id, {ticket.key: stale})

        assert not isinstance(refused.value, ArgumentsRefused)


class Exact(Tool):
    """A tool with a check of its own, which no schema says."""

    def descriptor(self) -> ToolDescriptor:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return ToolDescriptor(id="pay", name="pay", description="Pay.", parameters=schema)

    def validate_args(self, args: Json) -> Json:
        if args["n"] > 100:
            raise ToolError.invalid_arguments("at most 100")
        return args

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        if ctx.resume_input is None:
            return ToolOutput(ToolResult.suspended_with("pay", "Pay?", SuspendTicket()))
        return ToolOutput(ToolResult.success("pay", f"paid {args['n']}"))


async def test_the_words_are_those_of_the_tool_where_it_is_known() -> None:
    model = ScriptedModel([tool_call_response("", "pay", "c1", {"n": 5}), "done"])
    agent = Agent("a", model=model, tools=[Exact()])
    async with Runtime([agent]) as runtime:
        run = await runtime.run("a", "go", thread="t")
        answers = await by_id(runtime, {"c1": ToolCallResume.edit({"n": 101})})

        with pytest.raises(ArgumentsRefused, match="at most 100"):
            await runtime.decide(run.run_id, answers)


async def test_a_call_whose_answer_is_its_result_has_no_arguments_to_edit() -> None:
    colour = FrontEndTool(ToolDescriptor(id="colour", name="colour", description="Pick one."))
    model = ScriptedModel([tool_call_response("", "colour", "c1", {}), "done"])
    async with Runtime([Agent("a", model=model, tools=[colour])]) as runtime:
        run = await runtime.run("a", "go", thread="t")
        (ticket,) = await runtime.list_tickets()

        with pytest.raises(ToolError, match="approve it with the result as value"):
            await runtime.check_arguments(ticket, {"to": [1]})
        with pytest.raises(ArgumentsRefused, match="approve it with the result as value"):
            await runtime.decide(run.run_id, {ticket.key: ToolCallResume.edit({"to": [1]})})

        await runtime.decide(run.run_id, {ticket.key: ToolCallResume.approve("red")})
        assert (await runtime.wait(run.run_id, timeout=30)).ok
