"""The outline of a run: a row a step, read by page (07 §6.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from awaken import Agent, Message, Runtime, tool
from awaken.codec import Json
from awaken.core.event import InferenceComplete, RunStart, StepEnd, StepStart
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest
from awaken.core.message import MessageRecord
from awaken.core.run import MessageSeqRange, RunMessageOutput
from awaken.core.store.store import Store
from awaken.core.store.threads import CommitView
from awaken.errors import NotFound
from awaken.runtime.live.outline import StepOutline, outline
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_calls_response
from awaken.testing.conformance.helpers import event, record, says, write

pytestmark = pytest.mark.anyio

T = "t"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    await store.open()
    yield store
    await store.close()


def worker() -> tuple[Agent, FakeClock]:
    """An agent whose prompt names the tools of its steps: `look look+fail pay`."""
    clock = FakeClock()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        clock.advance(2)
        return "seen"

    @tool(effect="read")
    async def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: InferenceRequest) -> StreamResult:
        places = [i for i, message in enumerate(request.messages) if message.is_visible_user()]
        prompt, made = request.messages[places[-1]].text(), request.messages[places[-1] :]
        steps = prompt.split()
        done = sum(1 for message in made if message.tool_calls)
        usage = TokenUsage(prompt_tokens=10, completion_tokens=done + 1)
        if done == len(steps):
            return text_response("Done with\nall of it. " + "word " * 40, usage)
        names = steps[done].split("+")
        calls: list[tuple[str, str, Json]] = [
            (name, f"c{done}.{n}", {}) for n, name in enumerate(names)
        ]
        return replace(tool_calls_response(f"Step {done + 1}", *calls), usage=usage)

    return Agent("worker", model=FunctionModel(answer), tools=[look, fail, pay]), clock


async def pages(store: Store, run_id: str, size: int) -> list[StepOutline]:
    rows: list[StepOutline] = []
    while page := await outline(store, run_id, after_step=len(rows), limit=size):
        assert len(page) <= size
        rows += page
    return rows


async def test_each_step_has_a_row_however_it_is_read(store: Store) -> None:
    agent, clock = worker()
    async with Runtime([agent], store=store, clock=clock) as runtime:
        other = await runtime.run("worker", "look", thread=T)
        asked = await runtime.run("worker", "look look+fail pay look", thread=T)
        waiting = await outline(store, asked.run_id)
        await runtime.run(thread=T, answers={asked.tickets[0]: True})
        await runtime.run("worker", "look", thread=T)
        whole = await runtime.outline(asked.run_id)

        assert [row.outcome.value for row in waiting] == ["succeeded", "failed", "waits"]
        assert [row.step for row in whole] == [1, 2, 3, 4, 5]
        assert [row.calls for row in whole] == [
            ("look",),
            ("look", "fail"),
            ("pay",),
            ("look",),
            (),
        ]
        assert [row.outcome.value for row in whole] == ["succeeded", "failed"] + ["succeeded"] * 3
        assert [row.words for row in whole[:2]] == ["Step 1", "Step 2"]
        assert whole[4].words.startswith("Done with all of it. word")
        assert len(whole[4].words) <= 80
        assert [(row.input_tokens, row.output_tokens) for row in whole[:2]] == [(10, 1), (10, 2)]
        assert [row.duration_ms for row in whole[:2]] == [2000, 2000]
        for row in whole:
            (begin,) = await store.load_events(T, after=row.seq - 1, limit=1)
            assert begin.event == StepStart(message_id=row.message_id, agent_id="worker")
        for size in (1, 2, 3, 5, 9):
            assert await pages(store, asked.run_id, size) == whole, size
        assert len(await pages(store, other.run_id, 1)) == 2
        assert await runtime.outline(asked.run_id, after_step=5) == []
        assert await runtime.outline(asked.run_id, limit=0) == []
        with pytest.raises(NotFound):
            await runtime.outline("ghost")


async def test_a_run_that_was_rewound_has_its_outline_and_so_has_its_successor(
    store: Store,
) -> None:
    agent, clock = worker()
    async with Runtime([agent], store=store, clock=clock) as runtime:
        first = await runtime.run("worker", "look look", thread=T)
        before = await pages(store, first.run_id, 2)
        answer = (await runtime.messages(T))[1]
        again = await runtime.run("worker", thread=T, rewind_to=answer.id)
        assert await pages(store, first.run_id, 2) == before
        rows = await pages(store, again.run_id, 2)
        assert [row.words[:6] for row in rows] == [row.words[:6] for row in before]
        assert rows[0].seq > before[-1].seq


class Counting(MemoryStore):
    """A store that counts the commits and messages it gives."""

    read = 0

    async def load_commits(
        self, thread_id: str, *, after: int = 0, limit: int = 200
    ) -> Sequence[CommitView]:
        found = await super().load_commits(thread_id, after=after, limit=limit)
        self.read += len(found)
        return found

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[MessageRecord]:
        found = await super().load_records(thread_id, after=after, limit=limit, hidden=hidden)
        self.read += len(found)
        return found


async def test_a_page_of_ten_thousand_steps_is_read_by_itself() -> None:
    store, many = Counting(), 10_000
    begin = event(RunStart(thread_id=T, run_id="r"))
    await write(store, messages=says("go"), run=record("r"), events=(begin,))
    for step in range(many):
        answer = Message.assistant(f"step {step + 1}", id=f"a{step}")
        marked = answer.mark_produced_by("r", step)
        wrote = RunMessageOutput(thread_id=T, range=MessageSeqRange.new(2, step + 2))
        begun = event(StepStart(message_id=f"a{step}"))
        told = (begun, event(InferenceComplete(model="m", duration_ms=1)), event(StepEnd()))
        run = record("r", steps=step + 1, output=wrote)
        await write(store, messages=(marked,), run=run, events=told)

    for after in (0, 1, 4_999, 9_950, many - 1):
        store.read = 0
        rows = await outline(store, "r", after_step=after, limit=50)
        assert [row.step for row in rows] == list(range(after + 1, min(after + 50, many) + 1))
        assert [row.words for row in rows] == [f"step {row.step}" for row in rows]
        assert store.read < 600, after
