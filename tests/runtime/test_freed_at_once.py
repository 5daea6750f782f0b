"""A run that has ended is freed at once: nothing of it waits for the garbage collector.

What does makes the collector run more often, and it looks at every object of the process.
"""

from __future__ import annotations

import asyncio
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
from awaken.errors import InferenceFailed, InvalidResume
from awaken.events import CancelledEnd
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


def _fail(request: InferenceRequest) -> str:
    raise ValueError("no model today")


child = Agent("child", model=_wants())
AGENTS = [
    Agent("answers", model=_wants()),
    Agent("calls", model=_wants(("add", {"a": 1, "b": 2})), tools=[add]),
    Agent("calls-many", model=_wants(*[("add", {"a": n, "b": 2}) for n in range(5)]), tools=[add]),
    Agent("asks", model=_wants(("pay", {"amount": 1})), tools=[pay]),
    Agent("delegates", model=_wants(("agent_run_child", {"prompt": "go"})), delegates=[child]),
    child,
]


def _unlucky(started: asyncio.Event) -> list[Agent]:
    @tool
    async def wait() -> None:
        """Wait for a caller that leaves."""
        started.set()
        await asyncio.Event().wait()

    return [
        Agent("fails", model=FunctionModel(_fail)),
        Agent("waits", model=_wants(("wait", {})), tools=[wait]),
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


async def _fails(runtime: Runtime, thread: str, started: asyncio.Event) -> None:
    with pytest.raises(InferenceFailed, match="no model today"):
        await runtime.run("fails", "go", thread=thread)


async def _fails_in_a_stream(runtime: Runtime, thread: str, started: asyncio.Event) -> None:
    with pytest.raises(InferenceFailed, match="no model today"):
        await _stream(runtime, "fails", thread)


async def _is_left_by_its_caller(runtime: Runtime, thread: str, started: asyncio.Event) -> None:
    run = asyncio.create_task(runtime.run("waits", "go", thread=thread))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def _is_cancelled(runtime: Runtime, thread: str, started: asyncio.Event) -> None:
    run = asyncio.create_task(runtime.run("waits", "go", thread=thread))
    await started.wait()
    await runtime.cancel(thread)
    assert (await run).termination == CancelledEnd()


async def _is_refused(runtime: Runtime, thread: str, started: asyncio.Event) -> None:
    with pytest.raises(InvalidResume):
        await runtime.run("fails", thread=thread, answers={"no such ticket": True})


@pytest.mark.parametrize(
    "how", [_fails, _fails_in_a_stream, _is_left_by_its_caller, _is_cancelled, _is_refused]
)
async def test_a_run_that_breaks_off_leaves_nothing_to_the_garbage_collector(
    how: Callable[[Runtime, str, asyncio.Event], Awaitable[None]],
) -> None:
    """An error's traceback holds the frames of the run, and the run's task the error."""
    thread = f"freed-{how.__name__}"
    started = asyncio.Event()
    async with Runtime(_unlucky(started), recover=False) as runtime:
        with _without_collections():
            await how(runtime, thread, started)
            await asyncio.sleep(0)  # the loop's own handle of the task is gone then
            assert _live_runs(thread) == []


async def test_the_frames_of_users_code_keep_their_variables() -> None:
    """A debugger, or a service that collects errors, shows them."""
    async with Runtime(_unlucky(asyncio.Event()), recover=False) as runtime:
        with pytest.raises(InferenceFailed) as failed:
            await runtime.run("fails", "go")
    error: BaseException | None = failed.value
    while not isinstance(error, ValueError):
        assert error is not None
        error = error.__cause__ or error.__context__
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code is not _fail.__code__:
        traceback = traceback.tb_next
    assert traceback is not None
    assert "request" in traceback.tb_frame.f_locals
