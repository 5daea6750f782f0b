"""What is kept of an answer while it comes, who goes on with it, and when it is dropped (02 §6.4).

One process here stands for several: the store forsakes whoever held the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.event import (
    RunEvent,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CANCELLED
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ProviderError, RateLimited, Stop
from awaken.core.message import Role
from awaken.core.store.commits import StreamLogEntry
from awaken.errors import AwakenError, InferenceFailed
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, ScriptedModel
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio

CUT = ProviderError("connection reset by peer")
END = Stop(reason=StopReason.END_TURN)
EIGHT = [f"piece {number}, " for number in range(8)]


class LastingStore(MemoryStore):
    """One that takes its time to write, as those do that outlive a process."""

    immediate = False


def text(*pieces: str) -> list[LlmStreamEvent]:
    return [TextDelta(delta=piece) for piece in pieces]


def call(id: str, written: str) -> list[LlmStreamEvent]:
    return [ToolCallStart(id=id, name="add"), ToolCallDelta(id=id, args_delta=written)]


WHOLE, HALF = call("a", '{"n": 1}'), call("b", '{"n')


@tool(effect="read")
async def add(n: int) -> int:
    """Add one."""
    return n + 1


class Halting:
    """A model that says something and then falls silent, until it is told to break."""

    def __init__(self, *said: LlmStreamEvent, name: str = "m") -> None:
        self.said = said
        self.spoke, self.breaks = asyncio.Event(), asyncio.Event()
        self.model = FunctionModel(self._speak, name=name)

    async def _speak(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        if self.spoke.is_set():
            yield TextDelta(delta="and so on")
            yield END
            return
        for event in self.said:
            yield event
        self.spoke.set()
        await self.breaks.wait()
        raise CUT


class Ear:
    """Hears what a runtime tells."""

    def __init__(self) -> None:
        self.events: list[object] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event.event)

    async def close(self) -> None: ...


def agent(model: FunctionModel | ScriptedModel) -> Agent:
    return Agent("a", model=model, tools=[add])


async def stream(store: MemoryStore) -> Sequence[StreamLogEntry]:
    context = await store.load_context("t")
    return context.stream_log if context is not None else ()


async def until_kept(store: MemoryStore, clock: FakeClock) -> Sequence[StreamLogEntry]:
    """Let time pass until all that was said is kept."""
    for _ in range(40):
        clock.advance(0.25)
        for _ in range(5):
            await asyncio.sleep(0)
        if pieces := await stream(store):
            return pieces
    raise AssertionError("nothing was kept")


@asynccontextmanager
async def killed(*said: LlmStreamEvent) -> AsyncIterator[MemoryStore]:
    """The store of a process that died when all of that had come and was kept."""
    store, clock, model = LastingStore(), FakeClock(), Halting(*said)
    runtime = Runtime([agent(model.model)], store=store, clock=clock)
    run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
    await model.spoke.wait()
    await until_kept(store, clock)
    store.forsake()
    try:
        yield store
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError, AwakenError):
            await run


async def taken_up(
    store: MemoryStore, model: FunctionModel | ScriptedModel, ear: Ear | None = None
) -> str:
    """What the run says that the next process goes on with."""
    runtime = Runtime([agent(model)], store=store, clock=FakeClock(auto=True), recover=False)
    context = await store.load_context("t")
    assert context is not None
    assert context.open_run is not None
    request = RunRequest(thread_id="t", continue_run_id=context.open_run.run_id)
    result = await runtime.engine.run(request, ear or Ear())
    return result.response


# -- kept -------------------------------------------------------------------------------------


async def test_all_that_came_is_kept_and_gone_on_with() -> None:
    """02/E5: it holds all 8 deltas; restoring sends prefix and prompt once, and deletes."""
    async with killed(*text(*EIGHT)) as store:
        assert "".join(piece.text for piece in await stream(store)) == "".join(EIGHT)
        model = ScriptedModel([[*text("the end"), END], "new"], name="m")

        assert await taken_up(store, model) == "".join(EIGHT) + "the end"

        (request,) = model.requests
        assert [m.text() for m in request.messages[:-1]] == ["go", "".join(EIGHT)]
        assert "interrupted mid-stream" in request.messages[-1].text()
        assert await stream(store) == ()
        runtime = Runtime([agent(model)], store=store)
        await runtime.run("a", "more", thread="t")
        texts = [m.text() for m in model.requests[-1].messages]
        assert texts == ["go", "".join(EIGHT) + "the end", "more"]


async def test_a_call_that_was_half_written_is_taken_back_as_what_it_is() -> None:
    """02/6.4: the cause is `resumed from checkpoint`."""
    async with killed(*text("I add"), *HALF) as store:
        ear = Ear()
        await taken_up(store, ScriptedModel([[*text(" nothing"), END]], name="m"), ear)
    cancelled = [event for event in ear.events if isinstance(event, ToolCallCancel)]
    assert cancelled == [ToolCallCancel(id="b", name="add", reason="resumed from checkpoint")]


async def test_calls_that_were_whole_need_no_stream_and_leave_nothing_behind() -> None:
    """02/E5, 6.4: never opens a stream; deleted on P2."""
    async with killed(*text("I add. "), *WHOLE, *HALF) as store:
        model = ScriptedModel(["two"], name="m")

        assert await taken_up(store, model) == "two"

        assert model.calls == 1, "the next step's"
        log = await store.load_messages("t")
        assert [m.text() for m in log] == ["go", "I add. ", "2", "two"]
        assert await stream(store) == ()


async def test_what_was_kept_costs_none_of_the_attempts() -> None:
    """02/6.4: free of budget. Three attempts are left to the next process, as to any."""
    async with killed(*text("one, ")) as store:
        model = ScriptedModel(
            [[*text("two, "), CUT], [*text("three, "), CUT], [*text("four"), END]], name="m"
        )

        assert await taken_up(store, model) == "one, two, three, four"
        assert model.calls == 3


async def test_another_model_answers_anew() -> None:
    """02/DB-27: kept by question, and whom it was put to."""
    async with killed(*text("half")) as store:
        model = ScriptedModel(["all of it"], name="another")

        assert await taken_up(store, model) == "all of it"

        assert [m.text() for m in model.requests[0].messages] == ["go"]
        assert [m.text() for m in await store.load_messages("t")] == ["go", "all of it"]
        assert await stream(store) == ()


async def test_a_provider_that_asks_for_time_in_the_middle_gets_it() -> None:
    """02/6.3, 6.4: Retry-After wins when longer, also for a stream that is gone on with."""
    clock = FakeClock(auto=True)
    busy = RateLimited("slow down", retry_after=5)
    model = ScriptedModel([[*text("one, "), busy], [*text("two"), END]])
    runtime = Runtime([agent(model)], clock=clock)

    assert (await runtime.run("a", "go")).response == "one, two"
    assert clock.sleeps == [5]


# -- dropped ----------------------------------------------------------------------------------


async def test_a_run_that_is_cancelled_leaves_nothing_behind() -> None:
    """02/6.4: deleted on cancel; 02/E4: the hanging stream ends, and what was said stays."""
    store, clock, model = LastingStore(), FakeClock(), Halting(*text(*EIGHT), *WHOLE)
    runtime = Runtime([agent(model.model)], store=store, clock=clock)
    run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
    await model.spoke.wait()
    await until_kept(store, clock)

    await runtime.cancel("t")

    assert (await run).termination == CANCELLED
    assert await stream(store) == ()
    said = (await store.load_messages("t"))[-1]
    assert (said.text(), said.tool_calls) == ("".join(EIGHT), None)


@pytest.mark.parametrize("calls", [[], WHOLE, HALF], ids=["text", "a call", "half a call"])
async def test_an_answer_that_broke_off_and_was_mended_leaves_nothing_behind(
    calls: list[LlmStreamEvent],
) -> None:
    """02/6.4: deleted on completion and on P2, in the process that kept it, too."""
    store, clock, model = LastingStore(), FakeClock(), Halting(*text("Well, "), *calls)
    runtime = Runtime([agent(model.model)], store=store, clock=clock)
    run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
    await model.spoke.wait()
    await until_kept(store, clock)
    clock.auto = True
    model.breaks.set()

    response = (await run).response

    assert response == ("and so on" if calls is WHOLE else "Well, and so on")
    assert await stream(store) == ()
    log = await store.load_messages("t")
    assert "".join(m.text() for m in log if m.role is Role.ASSISTANT) == "Well, and so on"


async def test_an_answer_that_could_not_be_had_leaves_what_was_said_of_it_in_the_log() -> None:
    """02/E3, E5: exhaustion after 3; none of the 8 deltas is lost, nor kept beside the log."""
    store = LastingStore()
    script = [[*text(*EIGHT[:3]), CUT], [*text(*EIGHT[3:6]), CUT], [*text(*EIGHT[6:]), CUT]]
    model = ScriptedModel(script)
    runtime = Runtime([agent(model)], store=store, clock=FakeClock(auto=True))

    with pytest.raises(InferenceFailed, match=r"stream interrupted \(connection reset\)"):
        await runtime.run("a", "go", thread="t")

    assert model.calls == 3
    assert [m.text() for m in await store.load_messages("t")] == ["go", "".join(EIGHT)]
    assert await stream(store) == ()
