"""Submissions: runs that are asked for durably (06 §2.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Budget, Runtime, tool
from awaken.core.event import RunFinish, RunStart
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.store.commands import KEY_KEPT_MS, Submitted
from awaken.core.store.store import Store
from awaken.core.tool import ToolDescriptor
from awaken.errors import (
    AgentNotFound,
    ConfigError,
    InvalidResume,
    KeyReused,
    ThreadBusy,
    ThreadDeleted,
    ThreadOwned,
    ToolIdConflict,
)
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"
PATIENCE = 100


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield store
    await store.close()


class Desk:
    """An agent that answers `echo: <prompt>`; told to dig, it digs until it is let go; told to pay,
    it asks first."""

    def __init__(self) -> None:
        self.digging, self.dug = asyncio.Event(), asyncio.Event()
        self.asked: list[str] = []

        @tool(effect="read")
        async def dig() -> str:
            """Dig."""
            self.digging.set()
            await self.dug.wait()
            return "dug"

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            return "paid"

        self.agent = Agent("desk", model=FunctionModel(self.answer), tools=[dig, pay])

    def answer(self, request: InferenceRequest) -> StreamResult:
        prompt = next(m for m in reversed(request.messages) if m.is_visible_user()).text()
        last = request.messages[-1]
        if last.tool_call_id is None:
            self.asked.append(prompt)
            if prompt in ("dig", "pay"):
                return tool_call_response("", prompt, f"c{len(self.asked)}", {})
        return text_response(f"echo: {prompt}")

    def runtime(self, store: Store, **more: Any) -> Runtime:
        return Runtime([self.agent], store=store, **more)


async def outcome(runtime: Runtime, submitted: Submitted) -> tuple[Any, str | None]:
    result = await runtime.wait(submitted.run_id, timeout=PATIENCE)
    return result.termination, result.response


async def test_a_submission_is_carried_out_without_a_caller(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        submitted = await runtime.submit("desk", "hello", thread=T)
        assert (submitted.thread_id, submitted.is_new, submitted.cursor) == (T, True, 0)
        assert await outcome(runtime, submitted) == (NATURAL_END, "echo: hello")
        log = [m.text() for m in await runtime.messages(T)]

    assert log == ["hello", "echo: hello"]
    assert not await store.load_commands(T)


async def test_a_submitted_thread_exists_before_its_run_starts(store: Store) -> None:
    """Its record says `created`, and moves neither the open nor the active run."""
    desk = Desk()
    closed = desk.runtime(store, recover=False)
    submitted = await closed.submit("desk", "hello", thread=T)

    thread = await store.load_thread(T)
    run = await store.load_run(submitted.run_id)
    assert thread is not None
    assert (thread.open_run_id, thread.active_run_id, thread.event_count) == (None, None, 0)
    assert run is not None
    assert run.status is RunStatus.CREATED
    assert [one.id for one in (await closed.list_threads()).items] == [T]
    assert list(await store.list_interrupted(now_ms=0)) == []
    assert desk.asked == []

    async with desk.runtime(store) as runtime:
        assert await outcome(runtime, submitted) == (NATURAL_END, "echo: hello")
        again = await store.load_run(submitted.run_id)
        assert again is not None
        assert again.created_at == run.created_at


async def test_submissions_run_one_after_the_other_and_an_interrupt_ends_them(
    store: Store,
) -> None:
    """06/SV-10: three in their order; a fourth ends the running one, and those that waited have a
    record that says they were cancelled."""
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        first = [await runtime.submit("desk", word, thread=T) for word in ("a", "b", "c")]
        for submitted, word in zip(first, "abc", strict=True):
            assert await outcome(runtime, submitted) == (NATURAL_END, f"echo: {word}")
        assert desk.asked == ["a", "b", "c"]

        digs = await runtime.submit("desk", "dig", thread=T)
        await desk.digging.wait()
        waiting = [await runtime.submit("desk", word, thread=T) for word in ("d", "e")]
        last = await runtime.submit("desk", "f", thread=T, mode="interrupt")
        assert (await outcome(runtime, digs))[0] == CANCELLED
        assert await outcome(runtime, last) == (NATURAL_END, "echo: f")
        for submitted in waiting:
            assert (await outcome(runtime, submitted))[0] == CANCELLED
        # A cancel stays until the events of its run are written.
        while await store.load_commands(T):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert desk.asked == ["a", "b", "c", "dig", "f"]


async def test_an_interrupt_ends_all_that_wait_though_an_owner_is_starting_the_first(
    store: Store,
) -> None:
    """06/SV-10: it has claimed the thread and made no commit, so the cancels wait for it."""
    desk = Desk()
    closed = desk.runtime(store, recover=False)
    waiting = [await closed.submit("desk", prompt, thread=T) for prompt in ("one", "two", "three")]
    fence = await store.claim(T, at_ms=1)
    last = await closed.submit("desk", "four", thread=T, mode="interrupt")
    await store.release(fence)

    async with desk.runtime(store) as runtime:
        assert await outcome(runtime, last) == (NATURAL_END, "echo: four")
        ends = [(await outcome(runtime, each))[0] for each in waiting]

    assert ends == [CANCELLED] * 3
    assert desk.asked == ["four"]
    assert not await store.load_commands(T)


async def test_a_queued_submission_starts_when_a_programs_own_run_has_ended(store: Store) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.run("desk", "dig", thread=T))
            await desk.digging.wait()
            submitted = await runtime.submit("desk", "next", thread=T)
            assert submitted.cursor > 0
            desk.dug.set()
        assert await outcome(runtime, submitted) == (NATURAL_END, "echo: next")

    assert desk.asked == ["dig", "next"]


async def test_steering_gives_the_messages_to_the_open_run(store: Store) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        digs = await runtime.submit("desk", "dig", thread=T, mode="steer")
        await desk.digging.wait()
        steers = await runtime.submit("desk", "left", thread=T, mode="steer")
        assert steers.run_id == digs.run_id
        desk.dug.set()
        assert await outcome(runtime, digs) == (NATURAL_END, "echo: left")


async def test_a_refusing_submission_needs_a_thread_at_rest(store: Store) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        digs = await runtime.submit("desk", "dig", thread=T, mode="refuse")
        await desk.digging.wait()
        with pytest.raises(ThreadBusy, match="has not ended") as refused:
            await runtime.submit("desk", "no", thread=T, mode="refuse")
        assert isinstance(refused.value, ThreadOwned)
        assert len(await runtime.list_runs()) == 1
        desk.dug.set()
        await outcome(runtime, digs)
        await store.wait_released(T)
        yes = await runtime.submit("desk", "yes", thread=T, mode="refuse")
        assert await outcome(runtime, yes) == (NATURAL_END, "echo: yes")


async def test_an_answer_that_is_submitted_goes_to_the_run_that_asked(store: Store) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        pays = await runtime.submit("desk", "pay", thread=T)
        asking = await runtime.wait(pays.run_id)
        waits = await runtime.submit("desk", "next", thread=T)
        (ticket,) = asking.tickets
        answered = await runtime.submit("desk", thread=T, answers={ticket: True})
        assert answered.run_id == pays.run_id
        assert await outcome(runtime, pays) == (NATURAL_END, "echo: pay")
        assert await outcome(runtime, waits) == (NATURAL_END, "echo: next")
        with pytest.raises(InvalidResume):
            await runtime.submit("desk", thread=T, answers={ticket: False})


async def test_a_submission_that_waits_can_be_cancelled_alone(store: Store) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        digs = await runtime.submit("desk", "dig", thread=T)
        await desk.digging.wait()
        waits = await runtime.submit("desk", "never", thread=T)
        receipt = await runtime.cancel(waits.run_id)
        assert receipt.accepted
        assert [item.id for item in receipt.items] == [waits.run_id]
        assert (await outcome(runtime, waits))[0] == CANCELLED
        desk.dug.set()
        assert await outcome(runtime, digs) == (NATURAL_END, "echo: dig")

    assert desk.asked == ["dig"]


async def test_a_submission_does_not_start_before_its_time(store: Store) -> None:
    desk, clock = Desk(), FakeClock()
    later = clock.now_ms() + 60_000
    runtime = desk.runtime(store, recover=False, clock=clock)
    submitted = await runtime.submit("desk", "later", thread=T, not_before_ms=later)
    agents = ["desk"]
    for now, due in ((later - 1, []), (later, [submitted.run_id])):
        claimed = await store.claim_next(agents, limit=9, at_ms=now, overdue_ms=now)
        assert [run.run_id for _, run in claimed] == due


# -- keys -------------------------------------------------------------------------------------


async def test_the_same_key_is_taken_once(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        first = await runtime.submit("desk", "hello", thread=T, key="k")
        await outcome(runtime, first)
        again = await runtime.submit("desk", "hello", thread=T, key="k")
        assert again == Submitted(thread_id=T, run_id=first.run_id, cursor=0, is_new=False)
        other = await runtime.submit("desk", "hello", thread="u", key="k")
        assert other.is_new
        await outcome(runtime, other)

    assert desk.asked == ["hello", "hello"]


async def test_the_same_key_sent_by_ten_at_once_makes_one_run(store: Store) -> None:
    """06/SV-9: ten equal answers."""
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        nodes = [runtime, *(desk.runtime(store, recover=False) for _ in range(9))]
        async with asyncio.TaskGroup() as group:
            sent = [
                group.create_task(node.submit("desk", "hello", thread=T, key="k")) for node in nodes
            ]
        answers = [task.result() for task in sent]
        assert len({(one.thread_id, one.run_id, one.cursor) for one in answers}) == 1
        assert sum(one.is_new for one in answers) == 1
        await outcome(runtime, answers[0])
        assert len(await runtime.list_runs()) == 1


async def test_two_runtimes_with_one_store_run_each_submission_once(store: Store) -> None:
    """06/SV-12, within one process."""
    desks = (Desk(), Desk())
    prompts = [f"hello {number}" for number in range(10)]
    async with desks[0].runtime(store) as one, desks[1].runtime(store) as two:
        submitted = [
            await (one, two)[place % 2].submit("desk", prompt, thread=f"t{place}")
            for place, prompt in enumerate(prompts)
        ]
        for each, prompt in zip(submitted, prompts, strict=True):
            assert await outcome(one, each) == (NATURAL_END, f"echo: {prompt}")

    assert sorted(desks[0].asked + desks[1].asked) == prompts


async def test_a_key_is_forgotten_after_seven_days(store: Store) -> None:
    desk, clock = Desk(), FakeClock()
    runtime = desk.runtime(store, recover=False, clock=clock)
    first = await runtime.submit("desk", "hello", thread=T, key="k")
    clock.advance(KEY_KEPT_MS / 1000)
    assert (await runtime.submit("desk", "hello", thread=T, key="k")).run_id == first.run_id
    clock.advance(1)
    assert (await runtime.submit("desk", "another", thread=T, key="k")).is_new


# -- what is refused --------------------------------------------------------------------------


async def test_a_key_that_was_used_for_something_else_is_refused(store: Store) -> None:
    runtime = Desk().runtime(store, recover=False)
    await runtime.submit("desk", "hello", thread=T, key="k")
    with pytest.raises(KeyReused, match="'k' was used for another submission") as refused:
        await runtime.submit("desk", "goodbye", thread=T, key="k")
    assert (refused.value.thread_id, refused.value.key) == (T, "k")
    assert len(await store.load_commands(T)) == len(await runtime.list_runs()) == 1


async def test_a_deleted_thread_takes_no_submission(store: Store) -> None:
    runtime = Desk().runtime(store, recover=False)
    await runtime.submit("desk", "hello", thread=T, key="k")
    await runtime.delete_thread(T)
    with pytest.raises(ThreadDeleted, match="was deleted") as refused:
        await runtime.submit("desk", "hello", thread=T, key="k")
    assert refused.value.thread_id == T
    assert await store.load_thread(T) is None
    assert len(await runtime.list_runs()) == 0
    assert (await runtime.run("desk", "again", thread=T)).response == "echo: again"
    assert (await runtime.submit("desk", "hello", thread=T, key="k")).is_new


async def test_a_tool_of_the_client_that_the_agent_has_is_refused_at_once(store: Store) -> None:
    """Accepted, it could never start, and all that is submitted later would wait for it."""
    desk = Desk()
    runtime = desk.runtime(store, recover=False)
    own = ToolDescriptor(id="dig", name="dig", description="Dig.")
    look = ToolDescriptor(id="look", name="look", description="Look.")
    for tools in ([own], [look, look]):
        with pytest.raises(ToolIdConflict):
            await runtime.submit("desk", "hello", thread=T, frontend_tools=tools)
    assert await store.load_thread(T) is None
    assert (await runtime.submit("desk", "hello", thread=T, frontend_tools=[look])).is_new


async def test_an_unknown_agent_is_refused(store: Store) -> None:
    runtime = Desk().runtime(store, recover=False)
    with pytest.raises(AgentNotFound, match="'nobody'"):
        await runtime.submit("nobody", "hello", thread=T)
    with pytest.raises(ConfigError, match="mode is one of"):
        await runtime.submit("desk", "hello", thread=T, mode="push")  # type: ignore[arg-type]
    assert await store.load_thread(T) is None


async def test_a_submission_that_cannot_start_ends_once_and_the_next_one_runs(
    store: Store,
) -> None:
    """A budget in money for a model without a price: the run's record says why, its messages are
    in the log, and nothing is tried again."""
    desk = Desk()
    async with asyncio.timeout(PATIENCE), desk.runtime(store) as runtime:
        submitted = await runtime.submit("desk", "costly", thread=T, budget=Budget(money=1.0))
        behind = await runtime.submit("desk", "hello", thread=T)
        end, _ = await outcome(runtime, submitted)
        assert await outcome(runtime, behind) == (NATURAL_END, "echo: hello")
        run = await store.load_run(submitted.run_id)
        events = [told for told in await store.load_events(T) if told.run_id == submitted.run_id]

    assert run is not None
    assert run.status is RunStatus.DONE
    assert run.termination_reason == end
    assert isinstance(end, Failed)
    assert "price" in end.value
    assert [type(told.event) for told in events] == [RunStart, RunFinish]
    assert [m.text() for m in await store.load_messages(T)] == ["costly", "hello", "echo: hello"]
    assert desk.asked == ["hello"]
