"""Edited and regenerated answers: a thread is rewound to before a message (06 §2.11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Command, Runtime, Scope, StateKey, ToolCallContext, ToolOutput, tool
from awaken.core.event import MessagesRewound
from awaken.core.inference import ContextWindowPolicy, StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.store.commits import KEPT_IN_REWINDS
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.core.tool import ToolResult
from awaken.errors import ConfigError, RewindRefused, ThreadAlreadyRunning, ThreadBusy
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE, FAILED_MESSAGES, OUTBOX
from awaken.runtime.replay import read_recording
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"
PATIENCE = 100
SEEN = StateKey[int, int]("seen", initial=int, scope=Scope.THREAD)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield store
    await store.close()


class Desk:
    """An agent that answers `<number>: <prompt>`. It can dig until it is let go, pay if it may, and
    note how many prompts it has seen."""

    def __init__(self, **options: Any) -> None:
        self.digging, self.dug = asyncio.Event(), asyncio.Event()
        self.requests: list[list[str]] = []
        self.paid = 0

        @tool(effect="read")
        async def dig() -> str:
            """Dig."""
            self.digging.set()
            await self.dug.wait()
            return "dug"

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        @tool
        async def note(ctx: ToolCallContext) -> ToolOutput:
            """Note it."""
            seen = ctx.snapshot.get(SEEN) or 0
            return ToolOutput(ToolResult.success("note", "noted"), Command().update(SEEN, seen + 1))

        self.agent = Agent(
            "desk",
            model=FunctionModel(self.answer),
            tools=[dig, pay, note],
            state=[SEEN],
            **options,
        )

    def answer(self, request: InferenceRequest) -> StreamResult:
        self.requests.append([message.text() for message in request.messages])
        prompt = next(m for m in reversed(request.messages) if m.is_visible_user()).text()
        if request.messages[-1].tool_call_id is None and prompt in ("dig", "pay", "note"):
            return tool_call_response("", prompt, f"c{len(self.requests)}", {})
        return text_response(f"{len(self.requests)}: {prompt}")

    def runtime(self, store: Store, **more: Any) -> Runtime:
        return Runtime([self.agent], store=store, **more)


async def said(runtime: Runtime, thread: str = T, **more: Any) -> list[str]:
    return [message.text() for message in await runtime.messages(thread, **more)]


async def id_of(runtime: Runtime, text: str) -> str:
    found = [m.id for m in await runtime.messages(T, hidden=True) if m.text() == text]
    return found[-1] or ""


async def rewinds(runtime: Runtime) -> list[MessagesRewound]:
    events = [told.event async for told in runtime.events(T, follow=False)]
    return [event for event in events if isinstance(event, MessagesRewound)]


# -- what becomes of the conversation ---------------------------------------------------------


@pytest.mark.parametrize("way", ["run", "submit", "stream"])
async def test_an_edited_message_takes_the_place_of_all_behind_it(store: Store, way: str) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        for prompt in ("one", "two", "three"):
            await runtime.run("desk", prompt, thread=T)
        edited = await id_of(runtime, "two")
        if way == "submit":
            submitted = await runtime.submit("desk", "zwei", thread=T, rewind_to=edited)
            await runtime.wait(submitted.run_id, timeout=PATIENCE)
        elif way == "run":
            await runtime.run("desk", "zwei", thread=T, rewind_to=edited)
        else:
            async with runtime.stream("desk", "zwei", thread=T, rewind_to=edited) as events:
                told = [event.event async for event in events]
            assert any(isinstance(event, MessagesRewound) for event in told)

        assert desk.requests[-1] == ["one", "1: one", "zwei"]
        assert await said(runtime) == ["one", "1: one", "zwei", "4: zwei"]
        log = await said(runtime, hidden=True)
        assert log == ["one", "1: one", "two", "2: two", "three", "3: three", "zwei", "4: zwei"]
        assert await rewinds(runtime) == [MessagesRewound(message_id=edited, from_seq=3, to_seq=6)]
        assert not await store.load_commands(T)
        await runtime.run("desk", "more", thread=T)
        assert desk.requests[-1] == ["one", "1: one", "zwei", "4: zwei", "more"]


async def test_an_answer_is_made_anew_without_input(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        await runtime.run("desk", "one", thread=T)
        for number in (1, 2):
            answer = (await runtime.messages(T))[-1]
            result = await runtime.run("desk", thread=T, rewind_to=answer.id)
            assert result.response == f"{number + 1}: one"
        submitted = await runtime.submit(thread=T, rewind_to=await id_of(runtime, "3: one"))
        assert (await runtime.wait(submitted.run_id, timeout=PATIENCE)).response == "4: one"
        assert await said(runtime) == ["one", "4: one"]
    assert desk.requests == [["one"]] * 4


async def test_state_of_the_thread_goes_back_and_a_fork_keeps_its_own(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        for _ in range(3):
            await runtime.run("desk", "note", thread=T)
        assert await runtime.state(T, SEEN) == 3
        before = await runtime.fork(T, new="before")
        second = (await runtime.messages(T))[4]
        await runtime.run("desk", "again", thread=T, rewind_to=second.id)
        assert await runtime.state(T, SEEN) == 1
        after = await runtime.fork(T, new="after")
        for thread, seen in ((before.id, 4), (after.id, 2), (T, 2)):
            await runtime.run("desk", "note", thread=thread)
            assert await runtime.state(thread, SEEN) == seen
        assert (await said(runtime, "after"))[:5] == (await said(runtime))[:5]
        assert "again" not in await said(runtime, "before")


async def test_an_agent_with_a_short_memory_reads_what_is_in_view(store: Store) -> None:
    policy = ContextWindowPolicy(
        max_context_tokens=100_000,
        max_output_tokens=1_000,
        min_recent_messages=1,
        enable_prompt_cache=False,
        max_messages=4,
    )
    desk = Desk(context_policy=policy)
    async with desk.runtime(store) as runtime:
        for number in range(8):
            await runtime.run("desk", str(number), thread=T)
        await runtime.run("desk", "new", thread=T, rewind_to=await id_of(runtime, "2"))
        assert desk.requests[-1] == ["0", "1: 0", "1", "2: 1", "new"]
        await runtime.run("desk", "next", thread=T)
        assert desk.requests[-1] == ["1", "2: 1", "new", "9: new", "next"]


async def test_a_run_that_was_rewound_can_still_be_read(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        first = await runtime.run("desk", "one", thread=T)
        second = await runtime.run("desk", "two", thread=T)
        edit = await runtime.run("desk", "zwei", thread=T, rewind_to=await id_of(runtime, "two"))
        last = await runtime.run("desk", "drei", thread=T, rewind_to=await id_of(runtime, "one"))
        for result, history in (
            (first, []),
            (second, ["one", "1: one"]),
            (edit, ["one", "1: one"]),
            (last, []),
        ):
            recording = await read_recording(store, result.run_id)
            assert [message.text() for message in recording.history] == history
            record = await runtime.find_run(result.run_id)
            assert record is not None
            assert record.output is not None
            assert len(record.output.message_ids) == 1


def test_a_rewind_leaves_tasks_and_messages_to_others_alone() -> None:
    kept = {OUTBOX.name, BACKGROUND_TASK_STATE.name, FAILED_MESSAGES.name}
    assert kept == KEPT_IN_REWINDS


# -- what is in the way -----------------------------------------------------------------------


async def test_a_message_that_is_not_in_view_is_refused(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        await runtime.run("desk", "one", thread=T)
        old = await id_of(runtime, "one")
        await runtime.run("desk", "uno", thread=T, rewind_to=old)
        log = await said(runtime, hidden=True)
        for id, is_hidden in ((old, True), ("ghost", False)):
            for ask in (runtime.run, runtime.submit):
                with pytest.raises(RewindRefused) as refused:
                    await ask("desk", "x", thread=T, rewind_to=id)
                assert refused.value.is_hidden is is_hidden
        with pytest.raises(RewindRefused):
            await runtime.submit("desk", "x", thread="new", rewind_to=old)
        assert await store.load_thread("new") is None
        with pytest.raises(ConfigError, match="give the thread"):
            await runtime.run("desk", "x", rewind_to=old)
        assert await said(runtime, hidden=True) == log
        result = await runtime.run("desk", "two", thread=T)
        assert result.response.endswith("two")


async def test_a_live_run_is_interrupted_or_in_the_way(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        await runtime.run("desk", "one", thread=T)
        first = await id_of(runtime, "one")
        digging = await runtime.submit("desk", "dig", thread=T)
        await desk.digging.wait()
        with pytest.raises(ThreadAlreadyRunning):
            await runtime.run("desk", "uno", thread=T, rewind_to=first)
        with pytest.raises(ThreadBusy):
            await runtime.submit("desk", "uno", thread=T, rewind_to=first)
        new = await runtime.submit("desk", "uno", thread=T, rewind_to=first, mode="interrupt")
        assert (await runtime.wait(digging.run_id, timeout=PATIENCE)).termination == CANCELLED
        result = await runtime.wait(new.run_id, timeout=PATIENCE)
        assert result.termination == NATURAL_END
        assert desk.requests[-1] == ["uno"]
        assert (await said(runtime))[0] == "uno"
        assert len(await said(runtime)) == 2


async def test_open_tickets_behind_the_message_are_closed(store: Store) -> None:
    desk = Desk()
    async with desk.runtime(store) as runtime:
        await runtime.run("desk", "one", thread=T)
        asked = await runtime.run("desk", "pay", thread=T)
        assert asked.suspended
        edited = await id_of(runtime, "pay")
        with pytest.raises(ThreadBusy):
            await runtime.run("desk", "rest", thread=T, rewind_to=edited)
        new = await runtime.submit("desk", "rest", thread=T, rewind_to=edited, mode="interrupt")
        assert (await runtime.wait(new.run_id, timeout=PATIENCE)).response.endswith("rest")
        (ticket,) = await runtime.list_tickets(TicketQuery(thread_id=T))
        assert ticket.status is TicketStatus.CLOSED
        assert desk.requests[-1] == ["one", "1: one", "rest"]
    assert desk.paid == 0


async def test_two_edits_of_one_message_at_once_leave_one_of_them_in_view(store: Store) -> None:
    """The second was taken while the first one was about to begin."""
    desk = Desk()
    runtime = desk.runtime(store, recover=False)
    await runtime.run("desk", "one", thread=T)
    await runtime.run("desk", "two", thread=T)
    edited = await id_of(runtime, "two")
    first = await runtime.submit("desk", "zwei", thread=T, rewind_to=edited)
    fence = await store.claim(T, at_ms=1)  # an owner that may be starting the first one
    second = await runtime.submit("desk", "deux", thread=T, rewind_to=edited, mode="interrupt")
    await store.release(fence)
    async with desk.runtime(store) as runtime:
        await runtime.wait(first.run_id, timeout=PATIENCE)
        await runtime.wait(second.run_id, timeout=PATIENCE)
        assert (await said(runtime))[:3] == ["one", "1: one", "deux"]
        assert desk.requests[-1] == ["one", "1: one", "deux"]


async def test_a_suspended_call_from_before_the_message_is_not_taken_up_again(
    store: Store,
) -> None:
    """The state goes back to when the call had its approval, and was about to be made."""
    desk = Desk()
    async with desk.runtime(store) as runtime:
        asked = await runtime.run("desk", "pay", thread=T)
        await runtime.run(thread=T, answers={asked.tickets[0]: True})
        paid = next(m for m in await runtime.messages(T) if m.tool_call_id is not None)
        result = await runtime.run("desk", "and now?", thread=T, rewind_to=paid.id)
        assert result.termination == NATURAL_END
        assert desk.requests[-1] == ["pay", "and now?"], "a call without a result is not shown"
        assert await said(runtime) == ["pay", "", "and now?", result.response]
        again = await runtime.run("desk", thread=T, rewind_to=(await runtime.messages(T))[-1].id)
        assert again.termination == NATURAL_END
    assert desk.paid == 1
