"""Agents run without a runtime, with hooks of their own, and changed for a while (09 §2.2)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from front_kit import pay

from awaken import Agent, Budget, Message, Phase, PhaseContext, RunContext, Runtime, tool
from awaken.errors import AgentLoopError, BuildError, ConfigError
from awaken.events import TextDelta
from awaken.ext.handoff import Handoff
from awaken.models import Document, Image
from awaken.testing import FunctionModel, ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


def test_an_agent_answers_in_two_lines() -> None:
    assert Agent("helper", model=ScriptedModel(["Hi."])).run_sync("Hello").response == "Hi."


async def test_it_has_the_events_limits_and_errors_of_a_runtime(tmp_path: Path) -> None:
    """09/FD-9"""
    agent = Agent("a", model=FunctionModel(lambda _: "Hi."))
    async with agent.stream("Hello") as events:
        own = [type(told.event) async for told in events]
    assert events.result.unwrap() == "Hi."
    async with Runtime([agent]) as runtime, runtime.stream("a", "Hello") as events:
        assert [type(told.event) async for told in events] == own
    assert TextDelta in own

    payer = Agent("payer", model=FunctionModel(_pays), tools=[pay], budget=Budget(steps=1))
    asked = await payer.run("Pay.", thread="t", user="ann", on_approval=lambda _: True)
    assert "budget" in (asked.reason or "")

    def broken(_: object) -> str:
        raise ValueError("no")

    with pytest.raises(AgentLoopError, match="inference failed: no"):
        await Agent("b", model=FunctionModel(broken)).run("Hello")

    address = f"sqlite:///{tmp_path / 'a.db'}"
    await agent.run("Hello", thread="t", store=address)
    async with Runtime([agent], store=address) as runtime:
        assert len(await runtime.messages("t")) == 2


def _pays(request: Any) -> Any:
    return tool_call_response("", "pay", f"c{len(request.messages)}", {"n": 1})


async def test_run_sync_inside_a_loop_says_what_to_do() -> None:
    """09/FD-10"""
    with pytest.raises(ConfigError, match=r"await agent.run\(…\) instead"):
        Agent("a", model="demo").run_sync("Hello")


async def test_a_hook_is_added_with_a_decorator() -> None:
    agent, seen = Agent("a", model=ScriptedModel(["Hi."])), list[str]()

    @agent.on(Phase.STEP_END)
    async def note(ctx: PhaseContext) -> None:
        seen.append(ctx.messages[-1].text())

    await agent.run("Hello")
    assert seen == ["Hi."]

    for phase, hook, why in (
        ("step_end", note, "on takes one of Phase.RUN_START, "),
        (Phase.STEP_END, lambda ctx: None, "is not async: write `async def`"),
    ):
        with pytest.raises(ConfigError, match=why):
            agent.on(phase)(hook)  # type: ignore[arg-type,type-var]


@dataclass
class Deps:
    n: int


@tool(effect="read")
async def number(ctx: RunContext[Deps]) -> int:
    """The number."""
    return ctx.deps.n


async def test_an_agent_is_changed_for_the_code_within_a_block_alone() -> None:
    clerk = Agent("clerk", model=FunctionModel(lambda _: "real"), deps=Deps, tools=[number])
    calls: list[Any] = [tool_call_response("", "agent_run_clerk", "c", {"prompt": "go"}), "asked"]
    head = Agent("head", model=ScriptedModel(calls), deps=Deps, delegates=[clerk])
    scripted = ScriptedModel([tool_call_response("", "number", "c", {}), "scripted"] * 2)
    started, go_on = asyncio.Event(), asyncio.Event()

    async def beside(runtime: Runtime) -> str:
        started.set()
        await go_on.wait()
        return (await runtime.run("clerk", "go", deps=Deps(1))).response

    async with Runtime([clerk, head]) as runtime, asyncio.TaskGroup() as group:
        other = group.create_task(beside(runtime))
        await started.wait()
        async with clerk.override(model=scripted, deps=Deps(7)):
            changed = await runtime.run("clerk", "go", thread="t", deps=Deps(1))
            go_on.set()
            await asyncio.wait((other,))
            await runtime.run("head", "go", thread="h", deps=Deps(2))
        again = await runtime.run("clerk", "go", deps=Deps(1))
        said = [message.text() for message in await runtime.messages("t")]
        (beneath,) = [one for one in (await runtime.list_runs()) if one.parent_run_id]

    assert (changed.response, other.result(), again.response) == ("scripted", "real", "real")
    assert said[2] == "7"
    assert beneath.final_output == "scripted"
    with clerk.override(model=ScriptedModel(["there"]), system_prompt="Short.", tools=[]):
        assert (await clerk.run("go", deps=Deps(1))).unwrap() == "there"


def test_a_message_takes_files_and_content(tmp_path: Path) -> None:
    picture, text = tmp_path / "cat.png", tmp_path / "a.pdf"
    picture.write_bytes(b"png")
    text.write_bytes(b"pdf")
    message = Message.user("What is this?", picture, text)
    _, image, document = message.content
    again = Message.user("And this?", image)

    assert isinstance(image, Image)
    assert isinstance(document, Document)
    assert document.title == "a.pdf"
    assert again.content[1] == image
    with pytest.raises(ValueError, match="does not tell what it holds"):
        Message.user("?", tmp_path / "unknown")
    with pytest.raises(TypeError, match="a message has texts, paths and content"):
        Message.user("?", b"png")  # type: ignore[arg-type]


async def test_agents_that_are_given_as_objects_come_along_and_may_be_listed_again() -> None:
    clerk = Agent("clerk", model=FunctionModel(lambda _: "clerk"))
    judge = Agent("judge", model=FunctionModel(lambda _: "judge"), delegates=[clerk])
    aside = Agent("aside", model=FunctionModel(lambda _: "aside"))
    head = Agent(
        "head",
        model=FunctionModel(lambda _: "head"),
        delegates=[clerk],
        handoffs=[Handoff(judge)],
        background=[aside],
    )
    assert set(Runtime([head]).agent_ids) == {"head", "clerk", "judge", "aside"}
    assert set(Runtime([clerk, head, head, aside]).agent_ids) == {"head", "clerk", "judge", "aside"}
    other = Agent("clerk", model=FunctionModel(lambda _: "another"))
    async with Runtime([head, other]) as runtime:
        assert (await runtime.run("clerk", "go")).unwrap() == "another"
    mixed = Agent("mixed", model="demo", delegates=[clerk], handoffs=[other])
    with pytest.raises(BuildError, match="agent 'clerk' is registered twice"):
        Runtime([mixed])
