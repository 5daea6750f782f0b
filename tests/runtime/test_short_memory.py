"""Agents that read only the last messages of a long thread (design §4)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from run_kit import told

from awaken import Agent, Message, Runtime, tool
from awaken.contract.threads import ThreadContext
from awaken.domain.inference import ContextWindowPolicy
from awaken.domain.message import Role
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_calls_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


class Counting(MemoryStore):
    """Knows how many messages were read at most in one go."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        context = await super().load_context(thread_id, tail=tail)
        if context is not None:
            self.most = max(self.most, len(context.messages))
        return context


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
        result = await runtime.run(thread="t", answers={ticket.ticket_id: True})

    assert result.response == "all paid"
    assert told(forgetful.asked(1))[-10:-5] == [f"tool: paid {n}" for n in range(1, 6)]
