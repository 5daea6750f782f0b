"""Following a thread: whoever listens, from when, and in whichever process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from follow_kit import Reader

from awaken import Agent, Runtime, tool
from awaken.core.event import (
    ReasoningDelta,
    RunEvent,
    RunFinish,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    is_terminal,
)
from awaken.core.inference import StopReason, StreamResult
from awaken.core.lifecycle import Phase
from awaken.core.llm import ContentFiltered, InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.core.store.store import Store
from awaken.errors import InferenceFailed, InvalidCursor
from awaken.plugin.context import PhaseContext
from awaken.stores.bus.local import LocalBus
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, ScriptedModel, tool_call_response

T = "t"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "f.db")


class PacedModel:
    """Writes an answer delta by delta, each when the test says so."""

    name = "paced"

    def __init__(self, *answers: list[LlmStreamEvent]) -> None:
        self._answers = list(answers)
        self.given = asyncio.Semaphore(0)

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for event in self._answers.pop(0):
            await self.given.acquire()
            yield event


@tool(effect="read")
async def look(at: str) -> str:
    """Looks at something."""
    return f"saw {at}"


SPOKEN: list[LlmStreamEvent] = [
    ReasoningDelta(delta="hm, "),
    ReasoningDelta(delta="well"),
    TextDelta(delta="I will "),
    TextDelta(delta="look."),
    ToolCallStart(id="c1", name="look"),
    ToolCallDelta(id="c1", args_delta='{"at":'),
    ToolCallDelta(id="c1", args_delta='"it"}'),
    Stop(reason=StopReason.TOOL_USE),
]
LAST: list[LlmStreamEvent] = [
    TextDelta(delta="It "),
    TextDelta(delta="is there."),
    Stop(reason=StopReason.END_TURN),
]


async def read_to_the_end(
    events: AsyncGenerator[RunEvent, None], reader: Reader, until: Callable[[RunEvent], bool]
) -> None:
    async with aclosing(events) as told:
        async for event in told:
            reader.read(event)
            if until(event):
                return


def ends(event: RunEvent) -> bool:
    return is_terminal(event.event) and not event.ahead


@pytest.mark.parametrize("joined_after", range(len(SPOKEN) + len(LAST) + 1))
async def test_whoever_joins_late_holds_the_same_as_whoever_was_there(
    store: Store, joined_after: int
) -> None:
    """06/SV-3: text, reasoning and arguments, joined after each delta."""
    model = PacedModel(list(SPOKEN), list(LAST))
    async with Runtime([Agent("a", model=model, tools=[look])], store=store) as runtime:
        early, late = Reader(), Reader()
        async with asyncio.TaskGroup() as group:
            group.create_task(read_to_the_end(runtime.follow(T), early, ends))
            run = group.create_task(runtime.run("a", "look", thread=T))
            for _ in range(joined_after):
                model.given.release()
            if joined_after:
                await heard(early, joined_after)
            group.create_task(read_to_the_end(runtime.follow(T), late, ends))
            await asyncio.sleep(0)
            for _ in range(len(SPOKEN) + len(LAST)):
                model.given.release()
        assert run.result().response == "It is there."

    log = [m for m in await store.load_messages(T) if m.role is Role.ASSISTANT]
    for reader in (early, late):
        assert [e.seq for e in reader.durable.values()] == list(range(1, len(reader.durable) + 1))
        for message in log:
            assert reader.texts[message.id or ""] == message.text()
    assert late.texts == early.texts
    assert late.reasoning == early.reasoning


@pytest.mark.parametrize("left_after", range(1, len(SPOKEN)))
@pytest.mark.parametrize("stays", [True, False], ids=["another stays", "alone"])
@pytest.mark.parametrize("tree", [True, False], ids=["tree", "thread"])
async def test_a_reader_that_comes_back_within_a_step_goes_on_behind_its_last_event(
    left_after: int, stays: bool, tree: bool
) -> None:
    """Whether the deltas that it has missed were sent to another reader, or to none."""
    model = PacedModel(list(SPOKEN), list(LAST))
    async with Runtime([Agent("a", model=model, tools=[look])]) as runtime:
        reader, other = Reader(), Reader()
        async with asyncio.TaskGroup() as group:
            if stays:
                group.create_task(read_to_the_end(runtime.follow(T), other, ends))
            told = runtime.follow(T, tree=tree)
            leaves = group.create_task(anext(told))
            run = group.create_task(runtime.run("a", "look", thread=T))
            for _ in range(left_after):
                model.given.release()
            last = await leaves
            reader.read(last)
            while reader.size < said(left_after):
                last = await anext(told)
                reader.read(last)
            await told.aclose()
            live = last.live
            assert live is not None
            if left_after + 1 < len(SPOKEN):
                model.given.release()
            events = runtime.follow(T, after=reader.cursor, live=live, tree=tree)
            resets: list[RunEvent] = []

            def is_last(event: RunEvent) -> bool:
                resets.extend([event] if isinstance(event.event, StreamReset) else [])
                return ends(event)

            group.create_task(read_to_the_end(events, reader, is_last))
            for _ in range(len(SPOKEN) + len(LAST)):
                await asyncio.sleep(0)
                model.given.release()
        assert run.result().response == "It is there."
        log = [m for m in await runtime.messages(T) if m.role is Role.ASSISTANT]
    assert not resets
    assert [reader.texts[m.id or ""] for m in log] == [m.text() for m in log]
    assert not stays or (reader.texts, reader.reasoning) == (other.texts, other.reasoning)


def said(deltas: int) -> int:
    """How much of the answers so many deltas say."""
    told = [*SPOKEN, *LAST][:deltas]
    return sum(len(getattr(d, "delta", getattr(d, "args_delta", ""))) for d in told)


async def heard(reader: Reader, deltas: int) -> None:
    """Wait until a reader has what so many deltas say."""
    while reader.size < said(deltas):
        reader.news.clear()
        await reader.news.wait()


async def test_a_follower_of_another_process_gets_the_texts_from_the_log(tmp_path: Path) -> None:
    """Without the owner's bus: every durable event, and each answer as a snapshot."""
    file = tmp_path / "f.db"
    first, second = SqliteStore(file), SqliteStore(file)
    model = ScriptedModel([tool_call_response("so", "look", "c1", {"at": "it"}), "done"])
    reader = Reader()
    async with (
        Runtime([Agent("a", model=model, tools=[look])], store=first) as runtime,
        Runtime([], store=second, recover=False) as watcher,
    ):
        async with asyncio.TaskGroup() as group:
            group.create_task(read_to_the_end(watcher.follow(T), reader, ends))
            group.create_task(runtime.run("a", "look", thread=T))
        stored = await first.load_events(T)
        assert [e.event for e in reader.durable.values()] == [e.event for e in stored]
        log = [m for m in await first.load_messages(T) if m.role is Role.ASSISTANT]
        assert [reader.texts[m.id or ""] for m in log] == ["so", "done"]
    await first.close()
    await second.close()


async def test_history_tells_each_answer_once(store: Store) -> None:
    """A reader that comes when all is over gets the texts as well."""
    model = ScriptedModel(["one", "two"])
    async with Runtime([Agent("a", model=model)], store=store) as runtime:
        await runtime.run("a", "hi", thread=T)
        await runtime.run("a", "hi again", thread=T)
        seen: list[RunEvent] = []
        async with aclosing(runtime.follow(T)) as events:
            async for event in events:
                seen.append(event)
                if len([e for e in seen if isinstance(e.event, RunFinish)]) == 2:
                    break
        said = [e.event.text for e in seen if isinstance(e.event, StepSnapshot)]
        assert said == ["one", "two"]


@pytest.mark.parametrize("cursor", [3, 10**9])
async def test_a_cursor_beyond_the_end_is_refused(store: Store, cursor: int) -> None:
    async with Runtime([], store=store) as runtime:
        with pytest.raises(InvalidCursor, match=f"has no event {cursor}: its last one is 0"):
            async for _ in runtime.follow(T, after=cursor):
                pass


async def test_a_listener_that_reads_nothing_is_told_of_its_loss_and_slows_no_run() -> None:
    bus = LocalBus()
    model = ScriptedModel(["x" * 5_000], chunk=1)
    store = MemoryStore()
    runtime = Runtime([Agent("a", model=model)], store=store)
    runtime.engine.bus = bus
    async with runtime, bus.listen(T) as subscription:
        await runtime.run("a", "hi", thread=T)
        heard = await subscription.receive()
        assert heard.lost
        assert len(heard.events) <= 1_000


async def test_a_tree_is_followed_thread_by_thread(store: Store) -> None:
    """06 §2.4: each thread with its own numbers, the delegate's between those of its parent."""
    boss = ScriptedModel([tool_call_response("", "agent_run_ann", "c1", {"prompt": "go"}), "done"])
    ann = ScriptedModel([tool_call_response("", "look", "c1", {"at": "it"}), "seen"])
    agents = [
        Agent("boss", model=boss, delegates=["ann"]),
        Agent("ann", model=ann, tools=[look]),
    ]
    readers: dict[str, Reader] = {}
    async with Runtime(agents, store=store) as runtime:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(runtime.run("boss", "go", thread=T))
            async with aclosing(runtime.follow(T, tree=True)) as events:
                async for event in events:
                    readers.setdefault(event.thread_id, Reader()).read(event)
                    child = [name for name in readers if name != T]
                    ended = [r for r in readers.values() if r.has_ended]
                    if child and len(ended) == 2:
                        break
        assert run.result().response == "done"
        for thread_id, reader in readers.items():
            stored = await store.load_events(thread_id)
            assert [e.event for e in reader.durable.values()] == [e.event for e in stored]
    assert len(readers) == 2


async def test_a_delegate_is_told_before_the_call_that_it_answers(store: Store) -> None:
    """However slow the reader is: the delegate has ended before its thread was looked for."""
    rounds = 5
    heard, told_of, missing = asyncio.Event(), 0, 0

    async def next_call(request: InferenceRequest) -> StreamResult | str:
        await heard.wait()
        n = sum(message.role is Role.TOOL for message in request.messages)
        call = tool_call_response("", "agent_run_clerk", f"c{n}", {"prompt": "go"})
        return call if n < rounds else "All done."

    clerk = Agent("clerk", model=ScriptedModel(["Done."] * rounds))
    boss = Agent("boss", model=FunctionModel(next_call), delegates=[clerk])
    async with Runtime([boss, clerk], store=store) as runtime:
        taken = await runtime.submit("boss", "go", thread=T)
        async with aclosing(runtime.follow(T, after=taken.cursor, tree=True)) as events:
            async for told in events:
                if isinstance(told.event, StepStart) and not heard.is_set():
                    heard.set()
                    await runtime.wait(taken.run_id)
                elif isinstance(told.event, ToolCallDone):
                    missing += told_of < int(told.event.id.removeprefix("c")) + 1
                elif isinstance(told.event, RunFinish) and told.thread_id != T:
                    told_of += 1
                elif isinstance(told.event, RunFinish):
                    break
    assert (told_of, missing) == (rounds, 0)


class FilteredModel:
    """Its answer is stopped by a filter, in the middle of a word."""

    name = "filtered"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="I should not s")
        raise ContentFiltered("the answer was filtered")


async def join_while_a_step_ends(store: Store, agent: Agent) -> tuple[Reader, Reader]:
    """What a reader has that was there from the beginning, and what one has that joins while a
    hook at the end of the step works."""
    is_ending, may_end = asyncio.Event(), asyncio.Event()

    @agent.on(Phase.STEP_END)
    async def hold(ctx: PhaseContext) -> None:
        is_ending.set()
        await may_end.wait()

    async def run(runtime: Runtime) -> None:
        with suppress(InferenceFailed):
            await runtime.run("a", "go", thread=T)

    early, late = Reader(), Reader()
    async with Runtime([agent], store=store) as runtime, asyncio.TaskGroup() as group:
        group.create_task(read_to_the_end(runtime.follow(T), early, ends))
        group.create_task(run(runtime))
        await is_ending.wait()
        group.create_task(read_to_the_end(runtime.follow(T), late, ends))
        while not late.texts:  # it has joined within the step
            late.news.clear()
            await late.news.wait()
        may_end.set()
    return early, late


async def test_an_answer_is_shown_to_readers_that_join_while_its_step_ends(store: Store) -> None:
    early, late = await join_while_a_step_ends(store, Agent("a", model=ScriptedModel(["Hi."])))

    assert list(early.texts.values()) == list(late.texts.values()) == ["Hi."]


async def test_text_that_was_taken_back_is_not_shown_to_readers_that_join_after_it(
    store: Store,
) -> None:
    early, late = await join_while_a_step_ends(store, Agent("a", model=FilteredModel()))

    assert list(early.texts.values()) == list(late.texts.values()) == [""]
