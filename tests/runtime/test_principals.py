"""Who did it: what a principal asks for, decides, cancels, sends, forks and deletes is recorded."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest
from front_kit import pay

from awaken import Agent, Message, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.suspension import ToolCallResume
from awaken.runtime import Principal
from awaken.stores import RunQuery, ThreadQuery, TicketQuery
from awaken.testing import FunctionModel, ScriptedModel, text_response, tool_call_response
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio

ANN = Principal(id="key-ann", scope="", roles=("operator",))
EVE = Principal(id="key-eve")


@pytest.fixture(params=["memory:", "sqlite:///{}/awaken.db"], ids=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def payer() -> Agent:
    call = tool_call_response("", "pay", "c1", {"n": 5})
    return Agent("payer", model=ScriptedModel([call, "paid", "again"]), tools=[pay])


def asked(**fields: object) -> RunRequest:
    begin = RunRequest(
        thread_id="t", agent_id="payer", messages=(Message.user("pay"),), wait_for_decisions=False
    )
    return msgspec.structs.replace(begin, **fields)


async def test_a_run_and_the_thread_it_creates_keep_who_asked(address: str) -> None:
    async with Runtime([payer()], store=address) as runtime:
        await runtime.engine.run(asked(principal=ANN))
        (run,) = await runtime.list_runs(RunQuery(thread_id="t"))
        (thread,) = await runtime.list_threads()
        await runtime.run(thread="t", answers={(await runtime.list_tickets()).items[0]: True})
        (over,) = await runtime.list_runs(RunQuery(thread_id="t"))
    assert run.request is not None
    assert run.request.principal == ANN
    assert over.request is not None
    assert over.request.principal == ANN
    assert thread.metadata.created_by == "key-ann"


@pytest.mark.parametrize("way", ["request", "decide"])
async def test_the_approver_is_the_principal_whatever_the_answer_says(
    address: str, way: str
) -> None:
    """06/SV-16"""
    forged = ToolCallResume.approve(by="the boss")
    async with Runtime([payer()], store=address) as runtime:
        await runtime.engine.run(asked(principal=ANN))
        (ticket,) = await runtime.list_tickets()
        if way == "request":
            answer = asked(
                agent_id=None, messages=(), decisions=((ticket.key, forged),), principal=EVE
            )
            await runtime.engine.run(answer)
        else:
            await runtime.decide("t", {ticket.key: forged}, by="the boss", principal=EVE)
            await runtime.wait("t")
        (answered,) = await runtime.list_tickets(TicketQuery(thread_id="t"))
    assert answered.decision is not None
    assert answered.decision.by == "key-eve"


async def test_without_a_principal_the_approver_is_whom_the_answer_names(address: str) -> None:
    async with Runtime([payer()], store=address) as runtime:
        await runtime.run("payer", "pay", thread="t")
        (ticket,) = await runtime.list_tickets()
        await runtime.decide("t", {ticket.key: True}, by="ann")
        await runtime.wait("t")
        (answered,) = await runtime.list_tickets(TicketQuery(thread_id="t"))
    assert answered.decision is not None
    assert answered.decision.by == "ann"


async def test_a_cancelled_run_keeps_who_cancelled_it(address: str) -> None:
    async with Runtime([payer()], store=address) as runtime:
        await runtime.run("payer", "pay", thread="t")
        assert await runtime.cancel("t", principal=EVE)
        (run,) = await runtime.list_runs(RunQuery(thread_id="t"))
    assert run.cancelled_by == "key-eve"


async def test_a_message_to_a_run_keeps_who_sent_it(address: str) -> None:
    @tool
    async def work() -> bool:
        """Work until a message comes."""
        return await runtime.send("t", "hurry", principal=EVE)

    model = ScriptedModel([tool_call_response("", "work", "c1", {}), "done", "done"])
    async with Runtime([Agent("worker", model=model, tools=[work])], store=address) as runtime:
        await runtime.run("worker", "go", thread="t")
        said = [m for m in await runtime.messages("t") if m.role is Role.USER]
    assert [(m.text(), m.metadata and m.metadata.by) for m in said] == [
        ("go", None),
        ("hurry", "key-eve"),
    ]


async def test_a_fork_has_its_creator_and_a_deleted_thread_is_in_the_log(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="awaken.runtime")
    async with Runtime([payer()], store=address) as runtime:
        await runtime.run("payer", "pay", thread="t", user="ann")
        fork = await runtime.fork("t", new="u", principal=EVE)
        await runtime.delete_thread("u", principal=EVE)
    assert (fork.metadata.created_by, fork.metadata.user) == ("key-eve", "ann")
    assert "thread u was deleted by key-eve" in caplog.messages


async def test_what_a_run_starts_works_for_the_same_people(address: str) -> None:
    """A delegate, an agent in a background task, the task itself, and a task of that agent."""

    def makes(*calls: tuple[str, str]) -> FunctionModel:
        """A model that makes one call after the other, and then talks."""

        def answer(request: InferenceRequest) -> StreamResult:
            made = sum(bool(message.tool_calls) for message in request.messages)
            if made == len(calls):
                return text_response("done")
            name, prompt = calls[made]
            return tool_call_response("", name, f"c{made}", {"prompt": prompt})

        return FunctionModel(answer)

    @tool(effect="idempotent")
    async def bake(prompt: str) -> str:
        """Bake."""
        return f"a {prompt}"

    helper = Agent("helper", model=makes())
    baker = Agent("baker", model=makes(("bake", "cake")), background=[bake])
    boss = Agent(
        "boss",
        model=makes(("agent_run_helper", "help"), ("agent_run_baker", "bake")),
        delegates=[helper],
        background=[baker],
    )
    async with Runtime([boss, helper, baker], store=address) as runtime:
        begun = await runtime.run(
            "boss", "go", thread="t", principal=ANN, user="u-1", labels={"team": "red"}
        )
        await runtime.wait(begun.run_id, timeout=100)
        helper_alone = await runtime.run("helper", "hi", thread="other", user="u-2")
        mine = (await runtime.list_runs(RunQuery(user="u-1"))).items
        everything = (await runtime.list_runs()).items
        threads = await runtime.list_threads(ThreadQuery(user="u-1"))
        assert len(await runtime.list_runs(RunQuery(user="u-1", limit=2))) == 2
        assert not (await runtime.list_runs(RunQuery(user="nobody"))).items

    found = sorted(run.agent_id for run in mine)
    assert found == ["baker", "boss", "helper", "task:agent_run_baker", "task:bake"]
    for run in mine:
        assert run.request is not None
        assert run.request.principal == ANN
        assert run.request.labels == {"team": "red"}
    assert {run.run_id for run in everything} - {run.run_id for run in mine} == {
        helper_alone.run_id
    }
    assert [thread.id for thread in threads] == ["t"], "threads beneath belong to this one"


async def test_a_program_runs_and_streams_for_a_principal(address: str) -> None:
    async with Runtime([payer()], store=address) as runtime:
        suspended = await runtime.run("payer", "pay", thread="t", principal=ANN)
        answers = {suspended.tickets[0]: ToolCallResume.approve(by="mallory")}
        async with runtime.stream(thread="t", answers=answers, principal=EVE) as events:
            await events.read_to_end()
        (run,) = await runtime.list_runs()
        (ticket,) = await runtime.list_tickets(TicketQuery(thread_id="t"))
    assert run.request is not None
    assert run.request.principal == ANN
    assert ticket.decision is not None
    assert ticket.decision.by == "key-eve"
