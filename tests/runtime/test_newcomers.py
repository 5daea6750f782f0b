"""The mistakes of a newcomer: each is answered with the next move (09/FD-20)."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

import pytest

from awaken import Agent, RunResult, Runtime, tool
from awaken.errors import ConfigError
from awaken.testing import ScriptedModel


def agent(**options: Any) -> Any:
    made: Any = Agent
    return made("a", **{"model": "demo", **options})


def run(**options: Any) -> Any:
    return asyncio.run(Runtime([agent()]).run("a", "hi", **options))


def result() -> RunResult[str]:
    return Agent("a", model=ScriptedModel(["hi"])).run_sync("hi")


def untyped(ctx, n: int):  # type: ignore[no-untyped-def]
    """A tool as people write it who come from elsewhere."""


def forgetful(ctx: object) -> None:
    """A prompt function without a `return`."""


def imported(name: str) -> Any:
    return getattr(importlib.import_module("awaken"), name)


async def in_a_loop() -> None:
    agent().run_sync("hi")


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "instructions=": (lambda: agent(instructions="Be brief."), TypeError, "write system_prompt=…"),
    "deps_type=": (lambda: agent(deps_type=int), TypeError, "write deps=…"),
    "output_type=": (lambda: agent(output_type=int), TypeError, "write output=…"),
    "model_settings=": (lambda: agent(model_settings={}), TypeError, "write settings=…"),
    "temperature=": (
        lambda: agent(temperature=0),
        TypeError,
        "write settings=ModelSettings(temperature=…)",
    ),
    "max_turns=": (lambda: agent(max_turns=3), TypeError, "write max_rounds=…"),
    "settings as a dict": (
        lambda: agent(settings={"temperature": 0}),
        ConfigError,
        "settings are ModelSettings, such as ModelSettings(temperature=0.2)",
    ),
    "a model alone": (
        lambda: imported("Agent")("openai:gpt-5"),
        TypeError,
        "write Agent('helper', model='openai:gpt-5')",
    ),
    "no model": (
        lambda: imported("Agent")("helper"),
        TypeError,
        "Agent() has no model: write Agent('helper', model=",
    ),
    "a name instead of an id": (
        lambda: imported("Agent")(model="demo"),
        TypeError,
        "Agent() has no id: write Agent('helper', model=",
    ),
    "a model without a provider": (
        lambda: Runtime([agent(model="gpt-5")]),
        Exception,
        "openai:gpt-5",
    ),
    "a number as context_policy": (
        lambda: agent(context_policy=4000),
        ConfigError,
        "context_policy is a ContextWindowPolicy, as in ContextWindowPolicy.of(200_000), not 4000",
    ),
    "a prompt of the wrong arity": (
        lambda: agent(system_prompt=lambda: "x"),
        ConfigError,
        "system_prompt is a function of the run's context",
    ),
    "dependencies instead of their class": (
        lambda: agent(deps=7),
        ConfigError,
        "the value itself goes to run(…, deps=…)",
    ),
    "a context without a type": (
        lambda: tool(untyped),
        ConfigError,
        "write `ctx: ToolCallContext` to get the call's context",
    ),
    "mcp_servers=": (lambda: agent(mcp_servers=[]), TypeError, "tools of MCP servers"),
    "guardrails=": (lambda: agent(guardrails=[]), TypeError, "write plugins=[…] with a gate"),
    "input_guardrails=": (lambda: agent(input_guardrails=[]), TypeError, "write @agent.on(Phase."),
    "memory=": (lambda: agent(memory=True), TypeError, "write profile=[…]"),
    "skills=": (lambda: agent(skills=[]), TypeError, "write tools=[…]"),
    "history_processors=": (lambda: agent(history_processors=[]), TypeError, "context_policy="),
    "name=": (lambda: agent(name="helper"), TypeError, "write Agent('helper', …)"),
    "store=": (lambda: agent(store="memory:"), TypeError, "write Runtime([agent], store="),
    "checkpointer=": (lambda: agent(checkpointer=1), TypeError, "write Runtime([agent], store="),
    "instrument=": (lambda: agent(instrument=True), TypeError, "events and requests are kept"),
    "instructions= of a run": (lambda: run(instructions="x"), TypeError, "agent.override("),
    "system_prompt= of a run": (lambda: run(system_prompt="x"), TypeError, "agent.override("),
    "tools= of a run": (lambda: run(tools=[]), TypeError, "agent.override(tools=[…])"),
    "callbacks=": (lambda: run(callbacks=[]), TypeError, "Agent(…, plugins=[…])"),
    "config=": (lambda: run(config={}), TypeError, "the options themselves"),
    "MemorySaver": (lambda: imported("MemorySaver"), ImportError, "store='memory:'"),
    "InMemoryStore": (lambda: imported("InMemoryStore"), ImportError, "store='memory:'"),
    "BinaryContent": (lambda: imported("BinaryContent"), ImportError, "Image.from_bytes(…)"),
    "ImageUrl": (lambda: imported("ImageUrl"), ImportError, "awaken.models.UrlSource("),
    "handoff": (lambda: imported("handoff"), ImportError, "Agent(…, handoffs=[…])"),
    "DeferredToolRequests": (
        lambda: imported("DeferredToolRequests"),
        ImportError,
        "use @awaken.tool(needs_approval=True)",
    ),
    "MCPServerStdio": (lambda: imported("MCPServerStdio"), ImportError, "tools of MCP servers"),
    "a prompt that is a number": (
        lambda: imported("Agent")("a", model="demo", system_prompt=lambda ctx: 7).run_sync("Hi"),
        Exception,
        "agent 'a': the system_prompt function <lambda> returned an int: return a text",
    ),
    "a prompt that is None": (
        lambda: imported("Agent")("a", model="demo", system_prompt=forgetful).run_sync("Hi"),
        Exception,
        "agent 'a': the system_prompt function forgetful returned None: return a text",
    ),
    "usage_limits=": (lambda: run(usage_limits=1), TypeError, "write budget=Budget(…)"),
    "message_history=": (lambda: run(message_history=[]), TypeError, "write thread='…'"),
    "session=": (lambda: run(session="s"), TypeError, "write thread='…'"),
    "context=": (lambda: run(context=1), TypeError, "write deps=…"),
    "thred=": (lambda: run(thred="t"), TypeError, "write thread"),
    "result.data": (lambda: result().data, AttributeError, "read output"),  # type: ignore[attr-defined]
    "result.final_output": (lambda: result().final_output, AttributeError, "read output"),  # type: ignore[attr-defined]
    "ModelRetry": (lambda: imported("ModelRetry"), ImportError, "use awaken.Retry"),
    "Runner": (lambda: imported("Runner"), ImportError, "use awaken.Runtime, or agent.run_sync(…)"),
    "function_tool": (lambda: imported("function_tool"), ImportError, "use awaken.tool"),
    "run_sync in a loop": (
        lambda: asyncio.run(in_a_loop()),
        ConfigError,
        "await agent.run(…) instead",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_the_next_move(mistake: str) -> None:
    make, kind, told = MISTAKES[mistake]
    with pytest.raises(kind) as raised:
        make()
    assert told in str(raised.value)
