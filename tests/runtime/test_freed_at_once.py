"""A run that has ended is freed at once: nothing of it waits for the garbage collector.

What does makes the collector run more often, and it looks at every object of the process.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awaken import Agent, Runtime, tool
from awaken.codec import Json
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.engine.live_run import LiveRun
from awaken.testing import FunctionModel, tool_calls_response

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def _wants(*calls: tuple[str, dict[str, Json]]) -> FunctionModel:
    """A model that wants these calls first, and then answers."""
    wanted = tool_calls_response(
        "", *[(name, f"c{n}", args) for n, (name, args) in enumerate(calls)]
    )

    def respond(request: InferenceRequest) -> StreamResult | str:
        return wanted if calls and len(request.messages) == 1 else "done"

    return FunctionModel(respond)


child = Agent("child", model=_wants())
AGENTS = [
    Agent("answers", model=_wants()),
    Agent("calls", model=_wants(("add", {"a": 1, "b": 2})), tools=[add]),
    Agent("calls-many", model=_wants(*[("add", {"a": n, "b": 2}) for n in range(5)]), tools=[add]),
    Agent("asks", model=_wants(("pay", {"amount": 1})), tools=[pay]),
    Agent("delegates", model=_wants(("agent_run_child", {"prompt": "go"})), delegates=[child]),
    child,
]


async def _run(runtime: Runtime, agent: str, thread: str) -> None:
    await runtime.run(agent, "go", thread=thread)


async def _stream(runtime: Runtime, agent: str, thread: str) -> None:
    async with runtime.stream(agent, "go", thread=thread) as events:
        async for _ in events:
            pass


@contextmanager
def _without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _live_runs(thread: str) -> list[LiveRun]:
    """The runs of a thread, and of those beneath it, that are in memory."""
    # By `type`: `isinstance` asks each object, and a lazy part of an SDK then loads its modules.
    return [
        each
        for each in gc.get_objects()
        if type(each) is LiveRun and each.identity.thread_id.startswith(thread)
    ]


@pytest.mark.parametrize("how", [_run, _stream])
@pytest.mark.parametrize("agent", [agent.id for agent in AGENTS])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_run_that_has_ended_leaves_nothing_to_the_garbage_collector(
    store: str, agent: str, how: Callable[[Runtime, str, str], Awaitable[None]], tmp_path: Path
) -> None:
    address = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/freed.db"
    thread = f"freed-{store}-{agent}-{how.__name__}"
    async with Runtime(AGENTS, store=address, recover=False) as runtime:
        with _without_collections():
            await how(runtime, agent, thread)
            assert _live_runs(thread) == []
