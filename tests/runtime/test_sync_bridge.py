"""`Runtime.run_sync`, and a runtime used in one event loop after another, with background tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from front_kit import pay

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.task import TaskStatus
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

T = "t"


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'a.db'}"


def caller(name: str, args: Any, **options: Any) -> Agent:
    """An agent that calls a tool once, and repeats the last it was told."""

    def answer(request: InferenceRequest) -> Any:
        if not any(message.tool_calls for message in request.messages):
            return tool_call_response("", name, "c", args)
        return text_response(request.messages[-1].text())

    return Agent("caller", model=FunctionModel(answer), **options)


@tool(effect="idempotent")
async def bake() -> str:
    """Bake a cake."""
    await asyncio.sleep(0.01)
    return "a cake"


def test_a_run_is_over_with_its_tasks_when_it_returns(store: str) -> None:
    """Its tasks would end with the event loop; so would what tells it of them."""
    runtime = Runtime([caller("bake", {}, background=[bake])], store=store)

    first = runtime.run_sync("caller", "go", thread=T)
    answers = [runtime.run_sync("caller", text, thread=T).response for text in ("one", "two")]
    (task,) = asyncio.run(runtime.tasks())
    asyncio.run(runtime.close())

    assert (first.waiting, first.termination) == (False, NATURAL_END)
    assert "a cake" in first.response
    assert answers == ["one", "two"]
    assert task.status is TaskStatus.COMPLETED


def test_a_task_whose_agent_asks_is_left_and_goes_on_with_the_answer(store: str) -> None:
    """Nobody could answer while the caller waits."""
    clerk = Agent(
        "clerk",
        model=FunctionModel(
            lambda request: (
                text_response(request.messages[-1].text())
                if any(message.tool_calls for message in request.messages)
                else tool_call_response("", "pay", "p", {"n": 5})
            )
        ),
        tools=[pay],
    )
    runtime = Runtime(
        [caller("agent_run_clerk", {"prompt": "pay"}, background=[clerk]), clerk], store=store
    )

    first = runtime.run_sync("caller", "go", thread=T)

    async def answer() -> str:
        async with runtime:
            (ticket,) = await runtime.list_tickets()
            await runtime.decide(ticket.run_id, {ticket.key: True})
            return (await runtime.wait(T, timeout=5)).response

    assert first.waiting
    assert "paid 5" in asyncio.run(answer())


def test_commands_are_heard_in_the_next_event_loop_too() -> None:
    """A loop that ends while a task is under way takes along whoever listened in it."""
    store = MemoryStore()
    begun = asyncio.Event()

    @tool(effect="idempotent")
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    aside = caller("wait", {}, background=[wait])
    model = FunctionModel(lambda _: tool_call_response("", "wait", "c", {}))
    here = Agent("here", model=model, tools=[wait])
    runtime = Runtime([aside, here], store=store)

    async def first() -> None:
        await runtime.run("caller", "go", thread=T)
        await begun.wait()

    async def second() -> Any:
        nonlocal begun
        begun = asyncio.Event()  # one belongs to the loop that waited for it
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            run = group.create_task(runtime.run("here", "go", thread="u"))
            await begun.wait()
            assert await Runtime([], store=store, recover=False).cancel("u")
        return run.result().termination

    asyncio.run(first())
    assert asyncio.run(second()) == CANCELLED
