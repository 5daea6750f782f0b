"""Dependencies: live objects that a run is given, in tools, hooks and prompts (09 §2.1)."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from front_kit import Piece

from awaken import (
    Agent,
    Command,
    Phase,
    PhaseContext,
    RunContext,
    Runtime,
    ToolCallContext,
    ToolError,
    tool,
)
from awaken.core.deps import RunDeps, RunInfo
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest, Overloaded
from awaken.core.message import Role, Text
from awaken.errors import ConfigError
from awaken.testing import (
    FakeClock,
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
)

pytestmark = pytest.mark.anyio


@dataclass
class Deps:
    customer: int


class Other:
    pass


@tool(effect="read")
async def balance(ctx: RunContext[Deps]) -> str:
    """The balance."""
    await asyncio.sleep(0)
    return f"balance of {ctx.deps.customer}"


@tool(effect="read")
def plain_balance(ctx: RunContext[Deps] | None) -> str:
    """The balance."""
    assert ctx is not None
    return f"balance of {ctx.deps.customer}"


@tool(effect="read", needs_approval=True)
def guarded(ctx: RunContext[Deps]) -> str:
    """The balance, once approved."""
    return f"balance of {ctx.deps.customer}"


def calling(request: InferenceRequest) -> StreamResult:
    """Calls the first tool, then answers with the prompt and its result."""
    last = request.messages[-1]
    if last.tool_call_id is None:
        name = request.tools[0].id
        return tool_call_response(
            "", name, "c", {"prompt": "go"} if name.startswith("agent_run") else {}
        )
    prompt = "".join(part.text for part in request.system if isinstance(part, Text))
    return text_response(f"{prompt}{last.text()}")


def bank(*tools: Any, **options: Any) -> Agent[Deps]:
    return Agent("bank", model=FunctionModel(calling), deps=Deps, tools=tools, **options)


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}"


async def test_a_value_of_another_type_is_refused_before_anything_is_written(address: str) -> None:
    """09/FD-1; 09/FD-2: a run without the dependencies is told their type."""
    async with Runtime([bank(balance), Agent("text", model="demo")], store=address) as runtime:
        for agent, deps, why in (
            ("bank", Other(), "the deps of agent 'bank' are a Deps, not a Other"),
            ("text", Deps(1), "agent 'text' takes no dependencies"),
            ("bank", None, "agent 'bank' needs its dependencies, a Deps: give run"),
        ):
            with pytest.raises(ConfigError, match=why):
                await runtime.run(agent, "go", thread="t", deps=deps)
            with pytest.raises(ConfigError, match=why):
                async with runtime.stream(agent, "go", thread="t", deps=deps) as events:
                    _ = [event async for event in events]
        with pytest.raises(ConfigError, match="deps_key is a small JSON value"):
            await runtime.run("bank", "go", deps=Deps(1), deps_key="x" * 5000)
        assert len(await runtime.list_runs()) == 0
        assert await runtime.store.load_thread("t") is None


@pytest.mark.parametrize("read", [balance, plain_balance])
async def test_runs_at_once_never_see_each_others_dependencies(address: str, read: Any) -> None:
    """09/FD-8"""
    async with Runtime([bank(read)], store=address) as runtime:
        runs = [runtime.run("bank", "go", deps=Deps(n)) for n in range(20)]
        results = await asyncio.gather(*runs)

    assert [result.response for result in results] == [f"balance of {n}" for n in range(20)]


async def test_prompts_are_asked_once_a_step_and_hooks_see_dependencies(address: str) -> None:
    """09/FD-7"""
    seen: list[str] = []

    async def prompt(ctx: PhaseContext[Deps]) -> str:
        seen.append(f"prompt for {ctx.deps.customer} after {len(ctx.messages)}")
        return f"Customer {ctx.deps.customer} after {len(ctx.messages)}: "

    async def hook(ctx: PhaseContext[Deps]) -> Command | None:
        seen.append(f"hook for {ctx.deps.customer}")
        return None

    piece = Piece("p", lambda registrar: registrar.hook(Phase.STEP_END, hook))
    agent = bank(balance, system_prompt=prompt, plugins=[piece])
    async with Runtime([agent], store=address) as runtime:
        result = await runtime.run("bank", "go", deps=Deps(7))
        messages = await runtime.messages(result.thread_id)
        answers = [message.id or "" for message in messages if message.role is Role.ASSISTANT]
        kept = [await runtime.load_request(result.thread_id, answer) for answer in answers]

    assert result.unwrap() == "Customer 7 after 3: balance of 7"
    assert seen == ["prompt for 7 after 1", "hook for 7", "prompt for 7 after 3", "hook for 7"]
    assert [request.system for request in kept] == [
        (Text(text="Customer 7 after 1: "),),
        (Text(text="Customer 7 after 3: "),),
    ]


async def test_a_prompt_is_not_asked_again_if_the_model_is() -> None:
    """09/FD-7"""
    model, asked = ScriptedModel([Overloaded("busy"), "done"]), list[int]()

    def prompt(ctx: PhaseContext) -> str:
        asked.append(len(asked))
        return f"Prompt {len(asked)}."

    agent = Agent("a", model=model, system_prompt=prompt)
    async with Runtime([agent], clock=FakeClock(auto=True)) as runtime:
        assert (await runtime.run("a", "go")).unwrap() == "done"
    assert len(asked) == 1
    assert [request.system for request in model.requests] == [(Text(text="Prompt 1."),)] * 2


async def test_a_prompt_that_raises_or_is_no_text_fails_the_run_and_says_so() -> None:
    def broken(ctx: PhaseContext) -> Any:
        return None

    async with Runtime([Agent("a", model="demo", system_prompt=broken)]) as runtime:
        with pytest.raises(Exception, match=r"system_prompt.*returned None: return a text"):
            await runtime.run("a", "go")
    with pytest.raises(ConfigError, match="system_prompt is a function of the run's context"):
        Agent("a", model="demo", system_prompt=lambda: "x")  # type: ignore[misc,arg-type]


async def test_a_suspended_run_answered_in_this_process_keeps_its_value(address: str) -> None:
    async with Runtime([bank(guarded)], store=address) as runtime:
        deps = Deps(7)
        asked = await runtime.run("bank", "go", thread="t", deps=deps)
        result = await runtime.run(thread="t", answers={asked.tickets[0]: True})
        assert result.unwrap() == "balance of 7"

        asked = await runtime.run("bank", "go", thread="u", deps=deps)
        await runtime.decide("u", {asked.tickets[0]: True})
        assert (await runtime.wait("u", timeout=30)).unwrap() == "balance of 7"


async def test_a_submitted_run_and_a_run_without_deps_get_them_from_the_maker(address: str) -> None:
    made: list[RunInfo] = []

    def make(run: RunInfo) -> Deps:
        made.append(run)
        return Deps(run.deps_key["customer"])

    async with Runtime([bank(balance)], store=address, deps={Deps: make}) as runtime:
        key = {"customer": 3}
        sent = await runtime.submit("bank", "go", deps_key=key, user="ann", labels={"a": "b"})
        assert (await runtime.wait(sent.run_id, timeout=30)).unwrap() == "balance of 3"
        result = await runtime.run("bank", "go", deps_key=key)

    assert result.unwrap() == "balance of 3"
    first = made[0]
    assert (first.user, first.labels, first.run_id) == ("ann", {"a": "b"}, sent.run_id)
    assert len(made) == 2


async def test_delegates_get_the_same_value_or_what_is_made_of_it(address: str) -> None:
    clerk = Agent("clerk", model=FunctionModel(calling), deps=Deps, tools=[balance])
    head = Agent("head", model=FunctionModel(calling), deps=Deps, delegates=[clerk])
    beneath = clerk.with_deps(lambda above: Deps(above.customer + 1))
    other = Agent("other", model=FunctionModel(calling), deps=Deps, delegates=[beneath])
    async with Runtime([head, other, clerk], store=address) as runtime:
        same = await runtime.run("head", "go", deps=Deps(7))
        changed = await runtime.run("other", "go", deps=Deps(7))

    assert (same.response, changed.response) == ("balance of 7", "balance of 8")


async def test_background_tools_and_agents_get_them(address: str) -> None:
    seen: list[int] = []

    @tool
    async def note(ctx: RunContext[Deps]) -> str:
        """Note."""
        seen.append(ctx.deps.customer)
        return "noted"

    model = ScriptedModel([tool_call_response("", "note", "c", {}), "started", "done"])
    agent = Agent("a", model=model, deps=Deps, background=[note])
    async with Runtime([agent], store=address) as runtime:
        started = await runtime.run("a", "go", thread="t", deps=Deps(7))
        await runtime.wait(started.run_id, timeout=30)

    assert seen == [7]


def test_agents_whose_dependencies_cannot_work_are_refused() -> None:
    """09/FD-6"""
    with pytest.raises(ConfigError, match="'isolated_one' is isolated, and dependencies do not"):
        tool(isolated_one, isolated=True)
    with pytest.raises(ConfigError, match=r"wants dependencies of type Deps.*write deps=Deps"):
        Agent("a", model="demo", tools=[balance])
    with pytest.raises(ConfigError, match="has Other: write deps=Deps"):
        Agent("a", model="demo", deps=Other, tools=[balance])
    with pytest.raises(ConfigError, match=r"the value itself goes to run\(…, deps=…\)"):
        Agent("a", model="demo", deps=Deps(1))  # type: ignore[call-overload]
    clerk = Agent("clerk", model="demo", deps=Deps)
    with pytest.raises(ConfigError, match=r"delegates=\[clerk.with_deps\(function\)\]"):
        Runtime([Agent("a", model="demo", deps=Other, delegates=[clerk])])
    with pytest.raises(ConfigError, match="may hand over to 'clerk', which needs other"):
        Runtime([Agent("a", model="demo", handoffs=[clerk])])
    with pytest.raises(ConfigError, match="is a function of the run"):
        Runtime([clerk], deps={Deps: lambda: Deps(1)})  # type: ignore[dict-item,misc]


def isolated_one(ctx: RunContext[Deps]) -> str:
    """One."""
    return ""


async def test_a_holder_shows_nothing_of_its_value_and_is_not_pickled() -> None:
    """09/FD-5: neither contexts, events, the log and the state nor errors show it."""
    shown: list[str] = []

    async def hook(ctx: PhaseContext[Deps]) -> None:
        shown.extend([repr(ctx), str(ctx)])

    @tool(effect="read")
    async def look(ctx: ToolCallContext) -> str:
        """Look."""
        shown.append(repr(ctx))
        raise ToolError.execution_failed("no")

    agent = bank(look, plugins=[Piece("p", lambda registrar: registrar.hook(Phase.STEP_END, hook))])
    text = Agent("text", model="demo")
    async with Runtime([agent, text]) as runtime:
        async with runtime.stream("bank", "go", thread="t", deps=Deps(987654)) as events:
            shown.extend([repr(event) async for event in events])
        shown.extend(repr(message) for message in await runtime.messages("t"))
        shown.append(repr(await runtime.store.load_context("t")))
        for name, deps in (("text", Deps(987654)), ("bank", 987654)):
            with pytest.raises(ConfigError) as refused:
                await runtime.run(name, "go", deps=deps)
            shown.append(str(refused.value))
    assert len(shown) > 10
    assert not any("987654" in text for text in shown)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(RunDeps(Deps(1)))


async def test_a_tool_of_an_agent_without_dependencies_is_told_what_to_write() -> None:
    @tool(effect="read")
    async def look(ctx: ToolCallContext) -> str:
        """Look."""
        return str(ctx.deps)

    agent = Agent("a", model=FunctionModel(calling), tools=[look])
    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go")
    assert (
        "this run of agent 'a' has no dependencies: write Agent('a', deps=Deps" in result.response
    )
