"""Agents that read only the last messages of a long thread (design §4)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from run_kit import told

from awaken import Agent, Message, Runtime, tool
from awaken.core.inference import ContextWindowPolicy
from awaken.core.llm import InferenceRequest
from awaken.core.message import CompactionInterval, MessageMetadata, Role
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.threads import ThreadContext
from awaken.ext.compaction import COMPACTION, CompactionState
from awaken.ext.compaction.state import CompactionBoundary
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, ScriptedModel, tool_calls_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


class Counting(MemoryStore):
    """Knows how many messages were read, at most in one go and altogether."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self.read = 0

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        context = await super().load_context(thread_id, tail=tail)
        self._count(context.messages if context is not None else ())
        return context

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[Message]:
        messages = await super().load_messages(thread_id, after=after, limit=limit, hidden=hidden)
        self._count(messages)
        return messages

    def _count(self, messages: Sequence[Message]) -> None:
        self.most = max(self.most, len(messages))
        self.read += len(messages)


class Forgetful:
    """An agent that reads the last `last` messages when a run begins."""

    def __init__(self, *script: Response, last: int) -> None:
        self.model = ScriptedModel(script)
        self.store = Counting()

        @tool(needs_approval=True)
        async def pay(n: int) -> str:
            """Pay."""
            return f"paid {n}"

        @tool
        async def look() -> str:
            """Look around."""
            return "seen"

        policy = ContextWindowPolicy(
            max_context_tokens=100_000,
            max_output_tokens=1_000,
            min_recent_messages=1,
            enable_prompt_cache=False,
            max_messages=last,
        )
        agent = Agent("a", model=self.model, tools=[pay, look], context_policy=policy)
        self.runtime = Runtime([agent], store=self.store)

    def asked(self, request: int) -> Sequence[Message]:
        return self.model.requests[request].messages


async def test_no_more_is_read_than_the_agent_wants() -> None:
    """Design §4: the thread has all of it, the model the end, the new message beside it."""
    forgetful = Forgetful(*["fine"] * 20, last=4)

    for number in range(20):
        await forgetful.runtime.run("a", f"n{number}", thread="t")

    assert told(forgetful.asked(19)) == [
        "user: n17",
        "assistant: fine",
        "user: n18",
        "assistant: fine",
        "user: n19",
    ]
    assert forgetful.store.most == 4
    assert len(await forgetful.runtime.messages("t")) == 40


async def test_a_turn_is_shown_whole_or_not_at_all() -> None:
    """02 §5.5: wherever the cut falls, no result stands without its call."""
    looks = tool_calls_response("", ("look", "c1", {}), ("look", "c2", {}))
    for last in range(1, 9):
        forgetful = Forgetful(looks, "seen", looks, "seen again", "bye", last=last)

        for text in ("look", "look again", "bye"):
            await forgetful.runtime.run("a", text, thread="t")

        open_calls: list[str] = []
        for message in forgetful.asked(4):
            if message.role is Role.TOOL:
                assert message.tool_call_id in open_calls
                open_calls.remove(message.tool_call_id)
            else:
                assert open_calls == []
                open_calls = [call.id for call in message.tool_calls or ()]
        assert open_calls == []


async def test_a_call_that_waits_is_found_however_far_back_it_is() -> None:
    """02/8.8: what was said meanwhile does not hide the question."""
    asks = tool_calls_response("", *[("pay", f"c{n}", {"n": n}) for n in range(1, 6)])
    forgetful = Forgetful(asks, "all paid", last=2)
    runtime = forgetful.runtime
    waiting = await runtime.run("a", "pay", thread="t")
    internal = [Message.internal_user(f"note {n}") for n in range(5)]
    await runtime.run("a", internal, thread="t")

    for ticket in waiting.tickets:
        result = await runtime.run(thread="t", answers={ticket: True})

    assert result.response == "all paid"
    assert told(forgetful.asked(1))[-10:-5] == [f"tool: paid {n}" for n in range(1, 6)]


# -- as much as fits --------------------------------------------------------------------------


class Windowed:
    """An agent with a window of so many tokens, on a thread with so many messages."""

    def __init__(self, tokens: int, min_recent_messages: int = 10) -> None:
        self.store = Counting()
        self.requests: list[Sequence[Message]] = []
        policy = ContextWindowPolicy.of(
            tokens, max_output_tokens=100, min_recent_messages=min_recent_messages
        )
        agent = Agent("a", model=FunctionModel(self._answer), context_policy=policy)
        self.runtime = Runtime([agent], store=self.store)

    def _answer(self, request: InferenceRequest) -> str:
        self.requests.append(tuple(request.messages))
        return "fine"

    async def write(self, messages: Sequence[Message]) -> None:
        length = len(await self.store.load_messages("t"))
        self.store.most = self.store.read = 0
        commit = ThreadCommit(thread_id="t", expected_length=length, messages=tuple(messages))
        await self.store.commit(commit)

    async def ask(self) -> list[str]:
        await self.runtime.run("a", "hi", thread="t")
        return told(self.requests[-1])


@pytest.mark.parametrize("count", [10, 300, 20_000])
async def test_a_window_is_filled_and_no_more_is_read_than_that_takes(count: int) -> None:
    """Design §1: what a run reads depends on its window, not on the thread."""
    windowed = Windowed(10_000)
    await windowed.write([Message.user(f"{n} " + "word " * 20) for n in range(count)])

    shown = await windowed.ask()

    assert len(shown) == min(count + 1, len(shown))
    assert len(shown) > min(count, 200)
    assert windowed.store.read <= min(count, 1024) + 8
    assert shown[-1] == "user: hi"


async def test_a_summary_of_all_that_was_not_read_is_enough() -> None:
    """02 §7.3: on load, nothing before the last summary is wanted."""
    windowed = Windowed(100_000)
    covered = CompactionInterval(from_seq=1, to_seq=4_990)
    summary = msgspec.structs.replace(
        Message.internal_system("so far"), metadata=MessageMetadata(compaction=covered)
    )
    await windowed.write([Message.user(str(n)) for n in range(1, 5001)])
    await windowed.write([summary])

    shown = await windowed.ask()

    assert shown == ["system: so far", *[f"user: {n}" for n in range(4991, 5001)], "user: hi"]
    assert windowed.store.read <= 128 + 8


async def test_a_thread_is_read_back_to_its_summary() -> None:
    windowed = Windowed(100_000)
    covered = CompactionInterval(from_seq=1, to_seq=4_000)
    summary = msgspec.structs.replace(
        Message.internal_system("so far"), metadata=MessageMetadata(compaction=covered)
    )
    users = [Message.user(str(n)) for n in range(1, 5001)]
    await windowed.write([*users[:4100], summary, *users[4100:]])

    shown = await windowed.ask()

    assert shown == ["system: so far", *[f"user: {n}" for n in range(4001, 5001)], "user: hi"]
    assert windowed.store.read <= 1001 + 128


async def test_a_summary_that_is_further_back_than_the_window_is_shown_all_the_same() -> None:
    """02/X2: it stands for all that is not shown."""
    windowed = Windowed(2_000, min_recent_messages=2)
    await windowed.write([Message.user(str(n)) for n in range(10)])
    covered = CompactionInterval(from_seq=1, to_seq=8)
    summary = msgspec.structs.replace(
        Message.internal_system("so far"), metadata=MessageMetadata(compaction=covered)
    )
    boundary = CompactionBoundary(
        boundary_message_id="b",
        summary_message_id=summary.id or "",
        summary_seq=11,
        pre_tokens=1,
        post_tokens=1,
        at_ms=0,
    )
    state = COMPACTION.dump(CompactionState(boundaries=(boundary,)))
    length = 10
    await windowed.store.commit(
        ThreadCommit(
            thread_id="t",
            expected_length=length,
            messages=(summary,),
            thread_state={COMPACTION.name: state},
        )
    )
    await windowed.write([Message.user("word " * 100) for n in range(500)])

    shown = await windowed.ask()

    assert shown[0] == "system: so far"
    assert shown[-1] == "user: hi"


async def test_system_messages_at_the_beginning_are_shown_however_long_the_thread_is() -> None:
    """02 §7.1: keep all leading system messages."""
    windowed = Windowed(2_000, min_recent_messages=2)
    await windowed.write([Message.system("one"), Message.system("two")])
    await windowed.write([Message.user("word " * 100) for _ in range(1000)])

    shown = await windowed.ask()

    assert shown[:2] == ["system: one", "system: two"]
    assert windowed.store.read < 200


async def test_the_first_request_of_a_run_is_cut_where_the_last_one_was() -> None:
    """02/DB-29: what a provider has in its cache is of use to the next run."""
    windowed = Windowed(2_000, min_recent_messages=2)
    await windowed.write([Message.user("word " * 50) for _ in range(200)])
    for _ in range(3):
        await windowed.ask()

    first, second, third = windowed.requests
    assert second[: len(first)] == first
    assert third[: len(second)] == second
