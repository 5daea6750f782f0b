"""Reading a thread back, forking it, going on with it, and throwing it away (design §4, §8)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from front_kit import told

from answer_kit import by_id
from awaken import (
    Agent,
    Command,
    Message,
    RunEvent,
    RunRequest,
    RunResult,
    Runtime,
    Scope,
    StateKey,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.event import RunFinish
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import PersistedState
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.threads import ChildStrategy
from awaken.errors import (
    AlreadyExists,
    ConfigError,
    InferenceFailed,
    InvalidRecord,
    NotFound,
    RunOpen,
    StorageError,
    StoreError,
    ThreadOwned,
)
from awaken.runtime.result import RecoveredRun
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_calls_response

pytestmark = pytest.mark.anyio

T = "t"

TOTAL: StateKey[int, int] = StateKey(
    "till.total", initial=int, apply=lambda old, more: old + more, scope=Scope.THREAD
)


class Recorder(MemoryStore):
    """Keeps, for every commit, how the thread looked after it; refuses all when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[tuple[int, list[Message], PersistedState]] = []
        self.alive, self.doomed = True, False

    async def commit(self, commit: ThreadCommit) -> Committed:
        if not self.alive:
            raise StoreError("killed")
        committed = await super().commit(commit)
        if commit.thread_id == T:
            events = len(await self.load_events(T))
            messages = list(await self.load_messages(T))
            self.pictures.append((events, messages, await self.load_thread_state(T)))
        return committed


class Shop:
    """An agent that adds what it is told to, three steps for `buy`, and dies for `die`."""

    def __init__(self, store: Recorder | None = None, **options: Any) -> None:
        self.store = store or Recorder()
        self.requests: list[list[Message]] = []

        @tool
        async def add(n: int) -> ToolOutput:
            """Add."""
            return ToolOutput(ToolResult.success("add", n), Command().update(TOTAL, n))

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            return "paid"

        @tool(effect="read")
        async def die() -> str:
            """The last that is heard of this process."""
            if self.store.doomed:
                self.store.alive = self.store.doomed = False
            return "still alive"

        agent = Agent(
            "shop", model=FunctionModel(self._answer), tools=[add, pay, die], state=[TOTAL]
        )
        self.runtime = Runtime([agent], store=self.store, **options)

    def _answer(self, request: InferenceRequest) -> StreamResult:
        log = list(request.messages)
        self.requests.append(log)
        asked = max(place for place, m in enumerate(log) if m.role is Role.USER)
        turns = sum(m.role is Role.ASSISTANT for m in log[asked:])
        if log[asked].text() == "buy" and turns < 3:
            one, two = ("add", "a", {"n": 1}), ("add", "b", {"n": 10})
            return tool_calls_response("", *[(one,), (two,), (("pay", "p", {}),)][turns])
        if log[asked].text().startswith("die"):
            if turns < 1:
                return tool_calls_response("", ("die", "d", {}))
            if log[asked].text() == "die for good":
                raise ValueError("no network")
        return text_response("done")

    async def buy(self, thread: str = T) -> None:
        """Four steps and a pause."""
        await self.runtime.run("shop", "buy", thread=thread)
        await self.runtime.run(thread=thread, answers=await by_id(self.runtime, {"p": True}))

    async def die(self, thread: str = T, text: str = "die") -> None:
        """A run that is left in the middle of its first step."""
        self.store.doomed = True
        with pytest.raises(StorageError):
            await self.runtime.run("shop", text, thread=thread)
        self.store.alive = True


def assert_paired(messages: list[Message]) -> None:
    """Every call has its result right behind it."""
    open_calls: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in open_calls
            open_calls.remove(message.tool_call_id)
            continue
        assert open_calls == []
        open_calls = [call.id for call in message.tool_calls or ()]
    assert open_calls == []


# -- events -----------------------------------------------------------------------------------


async def read(runtime: Runtime, **options: Any) -> list[RunEvent]:
    return [event async for event in runtime.events(T, follow=False, **options)]


async def test_events_are_read_back_from_any_point() -> None:
    """Design §8: durable ones, by `seq`, without gap or repeat; none where there is no thread."""
    shop = Shop()
    await shop.buy()

    events = await read(shop.runtime)

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for after in range(len(events) + 2):
        assert await read(shop.runtime, after=after) == events[after:]
    assert [event async for event in shop.runtime.events("ghost", follow=False)] == []


async def test_events_are_followed_from_what_was_into_what_comes() -> None:
    """Design §8: somebody who comes in the middle misses nothing and sees nothing twice."""
    shop = Shop()
    first = await shop.runtime.run("shop", "hello", thread=T)
    reader = shop.runtime.events(T)
    seen = [await anext(reader) for _ in range(2)]

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(shop.buy())
        async for event in reader:
            seen.append(event)
            end = event.event.termination if isinstance(event.event, RunFinish) else None
            if event.run_id != first.run_id and end == NATURAL_END:
                break

    assert seen == await read(shop.runtime)


async def test_a_long_history_is_read_in_pages_nobody_notices() -> None:
    """Design §4: what is there is there, however much."""
    shop = Shop()
    store = shop.store
    await shop.runtime.run("shop", "hello", thread=T)
    (first, *_) = await store.load_events(T)
    length = len(await store.load_messages(T))
    for _ in range(3):
        await store.commit(
            ThreadCommit(thread_id=T, expected_length=length, events=tuple([first] * 400))
        )

    events = await read(shop.runtime, after=3)

    assert [event.seq for event in events] == list(range(4, len(events) + 4))
    assert len(events) > 1200


async def test_whoever_follows_sees_a_run_go_on_after_a_crash() -> None:
    """Design §8: also over the crash of the process that wrote."""
    shop = Shop()
    await shop.die()
    reader = shop.runtime.events(T)
    before = [await anext(reader) for _ in await read(shop.runtime)]

    (run,) = await shop.runtime.recover()
    assert (await run).response == "done"
    seen = [*before, *[await anext(reader) for _ in (await read(shop.runtime))[len(before) :]]]

    assert seen == await read(shop.runtime)
    assert len({event.run_id for event in seen}) == 1


# -- forks ------------------------------------------------------------------------------------


async def test_a_fork_is_the_thread_as_it_was() -> None:
    """Design §8: at every event of a run: log and state of then, a log a model takes, and the
    thread itself untouched."""
    shop = Shop()
    await shop.buy()
    pictures, events = list(shop.store.pictures), await read(shop.runtime)
    assert await shop.runtime.state(T, TOTAL) == 11
    before = (list(await shop.runtime.messages(T)), events)

    for at in range(1, len(events) + 1):
        _, messages, state = next(picture for picture in pictures if picture[0] >= at)
        name = f"fork-{at}"
        fork = await shop.runtime.fork(T, at=at, new=name)

        assert (fork.id, fork.forked_from, fork.owner) == (name, T, None)
        assert list(await shop.runtime.messages(name)) == messages
        assert await shop.store.load_thread_state(name) == state
        assert await shop.runtime.state(name, TOTAL) == state.extensions.get(TOTAL.name, 0)
        told_there = [e async for e in shop.runtime.events(name, follow=False)]
        assert [e.event for e in told_there] == [e.event for e in events[: len(told_there)]]
        assert at <= len(told_there) == fork.forked_at
        assert (await shop.runtime.run("shop", "and now?", thread=name)).response == "done"
        assert_paired(shop.requests[-1])

    assert (list(await shop.runtime.messages(T)), await read(shop.runtime)) == before


async def test_a_fork_goes_its_own_way() -> None:
    """Design §8: what is added there is not added here."""
    shop = Shop()
    await shop.buy()

    fork = await shop.runtime.fork(T)
    await shop.buy(fork.id)

    assert await shop.runtime.state(fork.id, TOTAL) == 22
    assert await shop.runtime.state(T, TOTAL) == 11
    assert told(shop.requests[-1])[:2] == ["user: buy", "assistant: "]


async def test_a_fork_of_a_thread_that_waits_has_nothing_to_answer() -> None:
    """Design §8: tickets stay where they were asked; the fork goes on without the call."""
    shop = Shop()
    await shop.runtime.run("shop", "buy", thread=T)
    fork = await shop.runtime.fork(T, new="other")

    assert (await shop.runtime.run("shop", "hello", thread=fork.id)).response == "done"
    assert_paired(shop.requests[-1])
    (ticket,) = await shop.runtime.list_tickets()
    assert ticket.thread_id == T
    assert (
        await shop.runtime.run(thread=T, answers=await by_id(shop.runtime, {"p": True}))
    ).response == "done"


async def test_what_cannot_be_forked_is_refused() -> None:
    """Bad input: no such thread, no such event, a name that is taken."""
    shop = Shop()
    await shop.buy()

    with pytest.raises(NotFound, match="ghost"):
        await shop.runtime.fork("ghost")
    for at in (0, 10_000):
        with pytest.raises(NotFound, match=str(at)):
            await shop.runtime.fork(T, at=at)
    with pytest.raises(AlreadyExists, match=T):
        await shop.runtime.fork(T, new=T)
    assert len(await shop.runtime.list_threads()) == 1


# -- recovery ---------------------------------------------------------------------------------


async def test_opening_a_runtime_goes_on_with_what_was_left() -> None:
    """Design §8: in the background; awaiting each says how it ended."""
    shop = Shop()
    for thread in ("one", "two"):
        await shop.die(thread)

    async with Shop(shop.store).runtime as runtime:
        recovered = runtime.recovered
        assert all(isinstance(run, RecoveredRun) for run in recovered)
        assert [(run.thread_id, run.agent_id) for run in recovered] == [
            ("one", "shop"),
            ("two", "shop"),
        ]
        results = [await run for run in recovered]
        assert [result.run_id for result in results] == [run.run_id for run in recovered]
        assert [result.response for result in results] == ["done", "done"]
        assert await runtime.recover() == []


async def test_a_runtime_may_be_told_not_to() -> None:
    """Design §8: then somebody else does, or it does when asked."""
    shop = Shop()
    await shop.die()

    async with Shop(shop.store, recover=False).runtime as runtime:
        assert runtime.recovered == []
        (run,) = await runtime.list_runs()
        assert run.status is RunStatus.RUNNING
        (recovered,) = await runtime.recover()
        assert (await recovered).response == "done"


async def test_a_run_that_cannot_go_on_says_so_to_whoever_asks() -> None:
    """Design §8: it is logged; the others go on."""
    shop = Shop()
    await shop.die("bad", "die for good")
    await shop.die("good")

    bad, fine = await shop.runtime.recover()

    with pytest.raises(InferenceFailed, match="no network"):
        await bad
    assert (await fine).response == "done"


async def recover_twice() -> tuple[list[Any], list[Shop]]:
    """Two processes open at once and find the same run."""
    shop = Shop()
    await shop.die()
    shops = [Shop(shop.store) for _ in range(2)]
    found = await asyncio.gather(*(shop.runtime.recover() for shop in shops))
    return [await run for runs in found for run in runs], shops


async def test_two_runtimes_do_not_recover_one_run_twice() -> None:
    """Design §8: one of them claims it; the other finds nothing, and asks no model."""
    ends, shops = await recover_twice()

    assert [type(end) for end in ends] == [RunResult]
    assert sorted(len(shop.requests) for shop in shops) == [0, 1]


async def test_that_another_was_quicker_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Design §8: every process of many finds the same runs when it opens."""
    await recover_twice()

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# -- upkeep -----------------------------------------------------------------------------------


async def test_a_deleted_thread_is_gone() -> None:
    """Design §4: with runs, events, tickets; its name may be used again. 04/DB-19: not before its
    run is over."""
    shop = Shop()
    await shop.runtime.run("shop", "buy", thread=T)
    (run,) = await shop.runtime.list_runs()
    with pytest.raises(RunOpen, match=f"run '{run.run_id}' is open: cancel"):
        await shop.runtime.delete_thread(T)
    assert await shop.runtime.cancel(T)

    freed = await shop.runtime.delete_thread(T)

    assert (freed.threads, freed.runs) == (1, 1)
    assert freed.commits > 1
    assert list(await shop.runtime.messages(T)) == []
    assert await shop.runtime.find_run(run.run_id) is None
    assert len(await shop.runtime.list_tickets()) == 0
    assert await shop.runtime.state(T, TOTAL) == 0
    with pytest.raises(NotFound, match=T):
        await shop.runtime.delete_thread(T)
    assert (await shop.runtime.run("shop", "hello", thread=T)).response == "done"
    assert told(shop.requests[-1]) == ["user: hello"]


async def test_a_thread_that_runs_is_not_deleted() -> None:
    """Design §4: it has an owner."""
    refused: list[str] = []

    async def answer(_: InferenceRequest) -> str:
        with pytest.raises(ThreadOwned):
            await runtime.delete_thread(T)
        refused.append(T)
        return "still here"

    runtime = Runtime([Agent("a", model=FunctionModel(answer))])

    assert (await runtime.run("a", "hi", thread=T)).response == "still here"
    assert refused == [T]
    assert (await runtime.delete_thread(T)).threads == 1


@pytest.mark.parametrize("children", list(ChildStrategy))
async def test_what_becomes_of_children_has_to_be_said(children: ChildStrategy) -> None:
    """04 §4.1: reject, detach, or cascade."""
    shop = Shop()
    await shop.runtime.run("shop", "hello", thread=T)
    child = RunRequest(
        thread_id="child",
        parent_thread_id=T,
        messages=(Message.user("hello"),),
        wait_for_decisions=False,
    )
    await shop.runtime.engine.run(child)

    if children is ChildStrategy.REJECT:
        with pytest.raises(InvalidRecord, match="child"):
            await shop.runtime.delete_thread(T, children=children)
    else:
        await shop.runtime.delete_thread(T, children=children)

    left = {thread.id: thread.parent_thread_id for thread in await shop.runtime.list_threads()}
    assert (
        left
        == {
            ChildStrategy.REJECT: {T: None, "child": T},
            ChildStrategy.DETACH: {"child": None},
            ChildStrategy.CASCADE: {},
        }[children]
    )


async def test_old_threads_are_pruned_and_open_ones_stay() -> None:
    """Design §4: by when they were last written; one that waits is not old."""
    clock = FakeClock()
    shop = Shop(clock=clock)
    await shop.runtime.run("shop", "hello", thread="old")
    await shop.runtime.run("shop", "buy", thread="waiting")
    await shop.die("left")
    clock.advance(3600)
    await shop.runtime.run("shop", "hello", thread="new")

    assert (await shop.runtime.prune(older_than=3600)).threads == 0
    assert (await shop.runtime.prune(older_than=timedelta(minutes=59))).threads == 1

    left = {thread.id for thread in await shop.runtime.list_threads()}
    assert left == {"waiting", "left", "new"}


async def test_no_time_at_all_is_an_error() -> None:
    """Bad input: a length of time, not a point in it."""
    for wrong in (-1, float("nan")):
        with pytest.raises(ConfigError, match="older_than"):
            await Shop().runtime.prune(older_than=wrong)
