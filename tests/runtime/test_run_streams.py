"""Reading a run's events as they come: to the end, slowly, or not at all (design §8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from front_kit import Held, pay, told

from answer_kit import by_id
from awaken import Agent, RunEvent, Runtime, ToolCallContext, tool
from awaken.codec import Json
from awaken.core.event import (
    Error,
    InferenceComplete,
    RunFinish,
    RunStart,
    StateSnapshot,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolCallStreamDelta,
    is_terminal,
)
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.errors import (
    AgentNotFound,
    ConfigError,
    InferenceFailed,
    InvalidId,
    InvalidResume,
    ThreadAlreadyRunning,
)
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)
from awaken.worker.event_stream import BUFFER

pytestmark = pytest.mark.anyio


def runtime_of(*script: Any, **options: Any) -> Runtime:
    return Runtime([Agent("a", model=ScriptedModel(script, chunk=4), tools=[pay])], **options)


async def settled() -> None:
    """Let everything that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


# -- reading ----------------------------------------------------------------------------------


async def test_events_come_in_order_and_end_with_the_run() -> None:
    """Design §3: one place, one order; durable events carry their place in the thread."""
    runtime = runtime_of("hello, you")

    async with runtime.stream("a", "hi", thread="t") as events:
        read = [event async for event in events]

    assert [type(event.event) for event in read] == [
        RunStart,
        StepStart,
        TextDelta,
        TextDelta,
        TextDelta,
        InferenceComplete,
        StateSnapshot,
        StepEnd,
        RunFinish,
    ]
    assert {event.thread_id for event in read} == {"t"}
    seqs = [event.seq for event in read if event.seq is not None]
    assert seqs == sorted(seqs)
    assert read[-1].seq == len(await runtime.engine.store.load_events("t"))
    assert events.result.response == "hello, you"


async def test_text_is_only_the_answer() -> None:
    """Design §5: piece by piece."""
    async with runtime_of("hello, you").stream("a", "hi") as events:
        pieces = [piece async for piece in events.text()]

    assert pieces == ["hell", "o, y", "ou"]


async def test_done_reads_on_to_the_end() -> None:
    """Design §5: and says how the run ended."""
    async with runtime_of("hello").stream("a", "hi", thread="t") as events:
        first = await anext(events)
        result = await events.read_to_end()
        again = await events.read_to_end()

    assert isinstance(first.event, RunStart)
    assert result == again == events.result
    assert (result.thread_id, result.termination) == ("t", NATURAL_END)


async def test_the_result_is_not_there_before_the_end() -> None:
    """Bad input: and the message says how to wait for it."""
    held = Held()

    async with held.runtime.stream("held", "hi") as events:
        await anext(events)
        with pytest.raises(ConfigError, match=r"read its events, or await read_to_end"):
            events.result  # noqa: B018  # the property is what raises
        held.let_go.set()
        assert (await events.read_to_end()).response == "well, done"


async def test_a_stream_is_opened_once_and_with_a_block() -> None:
    """Bad input: each misuse says what to write."""
    runtime = runtime_of("one", "two")
    stream = runtime.stream("a", "hi")

    with pytest.raises(ConfigError, match="open the stream first: async with"):
        stream.result  # noqa: B018  # the property is what raises
    async with stream as events:
        await events.read_to_end()
    with pytest.raises(ConfigError, match="opened once"):
        async with stream:
            pass


# -- errors -----------------------------------------------------------------------------------


async def test_an_error_surfaces_after_all_events() -> None:
    """Design §3: every event was given before, the last of them terminal."""
    runtime = runtime_of([TextDelta(delta="half"), ValueError("no more words")])
    read: list[RunEvent] = []

    async def read_all() -> None:
        async with runtime.stream("a", "hi") as events:
            async for event in events:
                read.append(event)

    with pytest.raises(InferenceFailed, match="no more words"):
        await read_all()

    assert TextDelta(delta="half") in [event.event for event in read]
    assert is_terminal(read[-1].event)
    assert not isinstance(read[-1].event, Error)


async def test_an_error_that_was_handled_is_not_raised_again() -> None:
    """Design §8: who caught it inside the block leaves it in peace."""
    runtime = runtime_of(ValueError("no words"))

    async with runtime.stream("a", "hi") as events:
        with pytest.raises(InferenceFailed):
            await events.read_to_end()

    with pytest.raises(InferenceFailed):
        events.result  # noqa: B018  # the property is what raises


async def test_an_error_nobody_saw_is_raised_at_the_end_of_the_block() -> None:
    """Design §8: never swallowed."""
    runtime = runtime_of(ValueError("no words"))

    async def read_until_the_end() -> None:
        async with runtime.stream("a", "hi") as events:
            async for event in events:
                if is_terminal(event.event):
                    break
            await settled()

    with pytest.raises(InferenceFailed, match="no words"):
        await read_until_the_end()


@pytest.mark.parametrize(
    ("agent", "thread", "error"),
    [
        ("ghost", "new", AgentNotFound),
        ("held", "a b", InvalidId),
        ("held", "t", ThreadAlreadyRunning),
    ],
)
async def test_a_run_that_cannot_start_raises_when_the_block_is_entered(
    agent: str, thread: str, error: type[Exception]
) -> None:
    """A web handler can answer with a status of its own, because it has sent nothing yet."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t") as first:
        await held.speaking.wait()
        stream = held.runtime.stream(agent, "hi", thread=thread)
        with pytest.raises(error):
            await stream.__aenter__()
        held.let_go.set()
        assert (await first.read_to_end()).response == "well, done"

    assert [thread.id for thread in await held.runtime.list_threads()] == ["t"]


async def test_a_thread_that_another_process_owns_is_busy_when_the_block_is_entered(
    tmp_path: Path,
) -> None:
    """The claim is refused by the store, not by this process."""
    held = Held(store=f"sqlite:///{tmp_path / 'a.db'}")
    other = runtime_of("me", store=f"sqlite:///{tmp_path / 'a.db'}")

    async with held.runtime, other, held.runtime.stream("held", "hi", thread="t"):
        with pytest.raises(ThreadAlreadyRunning):
            await other.stream("a", "hi", thread="t").__aenter__()


async def test_an_answer_to_no_open_ticket_raises_when_the_block_is_entered() -> None:
    """What the store alone knows is raised there, too."""
    runtime = runtime_of("hello")
    await runtime.run("a", "hi", thread="t")

    with pytest.raises(InvalidResume):
        await runtime.stream(thread="t", answers={"c1": True}).__aenter__()


async def test_an_open_stream_has_its_thread() -> None:
    """Once the block is entered, another run of the thread is refused."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t"):
        with pytest.raises(ThreadAlreadyRunning):
            await held.runtime.run("held", "hi", thread="t")


async def test_a_stream_that_queues_opens_at_once() -> None:
    """Its run starts when the thread is free; only what never changes is raised on entering."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t") as first:
        await held.speaking.wait()
        for agent, thread, error in (("ghost", "t", AgentNotFound), ("held", "a b", InvalidId)):
            refused = held.runtime.stream(agent, "hi", thread=thread, when_busy="queue")
            with pytest.raises(error):
                await refused.__aenter__()
        async with held.runtime.stream("held", "me too", thread="t", when_busy="queue") as next:
            held.let_go.set()
            assert (await first.read_to_end()).response == "well, done"
            assert (await next.read_to_end()).response == "well, done"


class SlowToStart(MemoryStore):
    """A store whose first commit waits for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.asked.set()
        await self.go_on.wait()
        return await super().commit(commit)


@pytest.mark.parametrize("detached", [False, True])
async def test_a_caller_that_is_cancelled_while_a_stream_opens_leaves_it(detached: bool) -> None:
    """The run is cancelled, unless it is detached, as if the caller had left the block."""
    store = SlowToStart()
    runtime = runtime_of("hello", store=store)
    stream = runtime.stream("a", "hi", thread="t", detached=detached)

    opening = asyncio.ensure_future(stream.__aenter__())
    await store.asked.wait()
    opening.cancel()
    await settled()
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening

    live = runtime.engine.active.find("t")
    assert live is None or (detached and await live.wait_ended(5))
    [run] = await runtime.list_runs()
    assert run.termination_reason == (NATURAL_END if detached else CANCELLED)


# -- leaving early ----------------------------------------------------------------------------


async def test_leaving_early_cancels_the_run() -> None:
    """Design §8: its record is closed, what was said is kept, and the thread is free."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t") as events:
        await held.speaking.wait()

    assert events.result.termination == CANCELLED
    assert held.stopped
    assert told(await held.runtime.messages("t")) == ["user: hi", "assistant: well"]
    assert not await held.runtime.cancel("t")


async def test_leaving_at_once_cancels_the_run() -> None:
    """Design §8: a run of which no event was read does not go on behind the block."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t"):
        pass

    [run] = await held.runtime.list_runs()
    assert run.termination_reason == CANCELLED


async def test_leaving_a_queued_stream_cancels_no_other_run() -> None:
    """Design §8: the thread is busy with another stream's run, which goes on."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t") as events:
        await held.speaking.wait()
        async with held.runtime.stream("held", "me too", thread="t", when_busy="queue"):
            pass
        held.let_go.set()
        result = await events.read_to_end()

    assert result.termination == NATURAL_END
    assert told(await held.runtime.messages("t")) == ["user: hi", "assistant: well, done"]


async def test_leaving_while_somebody_is_asked_ends_the_stream() -> None:
    """Design §8: an approval nobody will read the outcome of is not waited for; the run stays
    suspended and can be answered later."""
    runtime = runtime_of(tool_call_response("", "pay", "c1", {"n": 1}), "done")
    asked = asyncio.Event()

    async def never(_: object) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async with asyncio.timeout(100), runtime.stream("a", "go", thread="t", on_approval=never):
        await asked.wait()

    [run] = await runtime.list_runs()
    assert run.status.value == "waiting"
    assert (
        await runtime.run(thread="t", answers=await by_id(runtime, {"c1": True}))
    ).response == "done"


async def test_an_error_in_the_block_cancels_the_run_and_passes_through() -> None:
    """Design §8: the reader's own error, not the run's."""
    held = Held()

    async def stumble() -> None:
        async with held.runtime.stream("held", "hi", thread="t"):
            await held.speaking.wait()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await stumble()

    assert held.stopped


async def test_a_cancelled_reader_cancels_the_run() -> None:
    """Design §8: structured; nothing is left running."""
    held = Held()

    async def read() -> None:
        async with held.runtime.stream("held", "hi", thread="t") as events:
            await events.read_to_end()

    task = asyncio.ensure_future(read())
    await held.speaking.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await held.runtime.close()
    [run] = await held.runtime.list_runs()
    assert (run.status.value, run.termination_reason) == ("done", CANCELLED)


async def test_a_detached_run_goes_on_alone() -> None:
    """Design §8: unless it was started detached."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t", detached=True) as events:
        await held.speaking.wait()
    run = held.runtime.engine.active.find("t")
    assert run is not None
    held.let_go.set()
    assert await run.wait_ended(5)

    assert told(await held.runtime.messages("t")) == ["user: hi", "assistant: well, done"]
    assert not held.stopped
    await settled()
    assert events.result.termination == NATURAL_END


async def test_a_detached_run_that_was_read_to_its_end_raises_its_error() -> None:
    """Design §8: detached is about leaving early."""
    runtime = runtime_of(ValueError("no words"))

    with pytest.raises(InferenceFailed):
        async with runtime.stream("a", "hi", detached=True) as events:
            await events.read_to_end()


# -- reading slowly ---------------------------------------------------------------------------


class Chatty:
    """A model that counts how many pieces it was let say."""

    def __init__(self, pieces: int) -> None:
        self.said = 0
        self._pieces = pieces
        self.model = FunctionModel(self._speak)

    async def _speak(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for _ in range(self._pieces):
            self.said += 1
            yield TextDelta(delta="x")
        yield Stop(reason=StopReason.END_TURN)


async def test_a_slow_reader_slows_the_model() -> None:
    """Design §8: a bounded buffer; nothing is lost."""
    chatty = Chatty(BUFFER * 4)
    runtime = Runtime([Agent("a", model=chatty.model)])

    async with runtime.stream("a", "hi") as events:
        await anext(events)
        for _ in range(BUFFER * 2):
            await asyncio.sleep(0)
        assert chatty.said <= BUFFER + 1
        result = await events.read_to_end()

    assert chatty.said == BUFFER * 4
    assert result.response == "x" * BUFFER * 4


class Counting(MemoryStore):
    """Counts commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.commits += 1
        return await super().commit(commit)


async def test_a_slow_reader_never_blocks_a_commit() -> None:
    """Design §8: what is committed is told whether or not there is room; the buffer stays within
    its bound but for those."""
    store = Counting()

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    calls: list[tuple[str, str, Json]] = [("look", f"c{n}", {}) for n in range(BUFFER)]
    agent = Agent("a", model=ScriptedModel([tool_calls_response("", *calls), "done"]), tools=[look])
    runtime = Runtime([agent], store=store)

    async with runtime.stream("a", "hi", thread="t") as events:
        for _ in range(3):
            await anext(events)
        before = store.commits
        read = 0
        # Only as much is read as lets the calls be written; their outcomes need no reader.
        while store.commits < before + 2:
            await anext(events)
            read += 1
            await settled()
        assert read < 3 * BUFFER
        await events.read_to_end()

    assert len(await runtime.messages("t")) == BUFFER + 3


async def test_tools_that_talk_at_once_all_get_through_to_a_slow_reader() -> None:
    """Design §8: several writers may wait for room; each of them is woken."""
    everybody = 6

    @tool
    async def talk(ctx: ToolCallContext) -> str:
        """Talk."""
        for _ in range(BUFFER):
            await ctx.stream_output("x")
        return "talked"

    calls: list[tuple[str, str, Json]] = [("talk", f"c{n}", {}) for n in range(everybody)]
    agent = Agent("a", model=ScriptedModel([tool_calls_response("", *calls), "done"]), tools=[talk])
    heard = 0

    async with asyncio.timeout(100), Runtime([agent]).stream("a", "hi") as events:
        async for event in events:
            heard += isinstance(event.event, ToolCallStreamDelta)
            if heard % 50 == 0:
                await asyncio.sleep(0)

    assert heard == everybody * BUFFER
    assert events.result.response == "done"


async def test_a_run_can_be_cancelled_while_its_reader_is_slow() -> None:
    """Design §8: the model waits for room; a cancel does not wait with it."""
    chatty = Chatty(BUFFER * 4)
    runtime = Runtime([Agent("a", model=chatty.model)])

    async with runtime.stream("a", "hi", thread="t") as events:
        await anext(events)
        await settled()
        assert await runtime.cancel("t")
        result = await events.read_to_end()

    assert result.termination == CANCELLED
    assert chatty.said <= BUFFER + 2


# -- answering while reading ------------------------------------------------------------------


async def test_a_stream_that_waits_is_answered_and_goes_on() -> None:
    """Design §8: a pause is a `run_finish` with termination `suspended`, and the stream stays."""
    runtime = runtime_of(tool_call_response("", "pay", "c1", {"n": 2}), "done")
    ends: list[str] = []

    async with runtime.stream("a", "go", thread="t", wait=True) as events:
        async for event in events:
            if isinstance(event.event, RunFinish):
                ends.append(str(event.event.termination.__struct_config__.tag))
                if ends[-1] == "suspended":
                    await runtime.decide("t", await by_id(runtime, {"c1": True}))

    assert ends == ["suspended", "natural_end"]
    assert events.result.response == "done"


async def test_a_stream_that_does_not_wait_ends_with_the_pause() -> None:
    """Design §8: the result has the tickets."""
    runtime = runtime_of(tool_call_response("", "pay", "c1", {"n": 2}), text_response("done"))

    async with runtime.stream("a", "go", thread="t") as events:
        result = await events.read_to_end()

    assert result.suspended
    assert [ticket.tool_call_id for ticket in result.tickets] == ["c1"]
    async with runtime.stream(thread="t", answers=await by_id(runtime, {"c1": True})) as events:
        assert [piece async for piece in events.text()] == ["done"]


async def test_a_message_sent_while_reading_is_answered() -> None:
    """Design §5: `send`; the model reads it at its next step."""
    held = Held()

    async with held.runtime.stream("held", "hi", thread="t") as events:
        await held.speaking.wait()
        assert await held.runtime.send("t", "and quickly")
        held.let_go.set()
        await events.read_to_end()

    assert told(await held.runtime.messages("t")) == [
        "user: hi",
        "assistant: well, done",
        "user: and quickly",
        "assistant: well, done",
    ]


@pytest.mark.parametrize("deltas", range(240, 256))
async def test_a_stalled_reader_holds_up_no_cancel(deltas: int) -> None:
    """Wherever the buffer is full, at a delta or at a border of a step."""

    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    first: list[LlmStreamEvent] = [
        *[TextDelta(delta="x") for _ in range(deltas)],
        ToolCallStart(id="c1", name="work"),
        ToolCallDelta(id="c1", args_delta="{}"),
        Stop(reason=StopReason.TOOL_USE),
    ]
    model = ScriptedModel([first, [TextDelta(delta="y") for _ in range(600)]])
    runtime = Runtime([Agent("a", model=model, tools=[work])])
    async with runtime, runtime.stream("a", "go", thread="t") as events:
        await anext(events)
        for _ in range(20):
            await asyncio.sleep(0)

        assert await runtime.cancel("t", deadline=3)
