"""What moves a conversation to another model of its pool, and what does not (02 §6.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import log
from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.codec import from_json
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import (
    InferenceRequest,
    LlmExecutor,
    LlmStreamEvent,
    Overloaded,
    ProviderError,
    RateLimited,
    Stop,
    Unauthorized,
)
from awaken.core.message import Base64Source, Image, Message
from awaken.core.spec import ModelPoolSpec
from awaken.errors import InferenceFailed
from awaken.models import pool as pools
from awaken.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio

CUT = ProviderError("connection reset by peer")
FIRST: dict[str, Any] = {"routing": {"home": "first_healthy"}}
TURNS: dict[str, Any] = {"routing": {"home": "round_robin"}}


class Model:
    """Says its name, unless something else is due: an error, or a text it breaks off after."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.due: list[Exception | tuple[str, Exception]] = []
        self.free, self.asked = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.calls += 1
        self.asked.set()
        await self.free.wait()
        due = self.due.pop(0) if self.due else None
        if isinstance(due, tuple):
            yield TextDelta(delta=due[0])
            due = due[1]
        if due is not None:
            raise due
        yield TextDelta(delta=self.name)
        yield Stop(reason=StopReason.END_TURN)


class Pool:
    """A runtime with one agent, whose models are named a, b and c."""

    def __init__(self, *members: dict[str, Any], retries: int = 0, **spec: Any) -> None:
        rows = [{"model_id": chr(97 + i), **row} for i, row in enumerate(members or ({}, {}, {}))]
        self.spec = from_json({"id": "pool", "members": rows, **spec}, ModelPoolSpec)
        self.models = {member.model_id: Model(member.model_id) for member in self.spec.members}
        self.clock = FakeClock(auto=True)
        given: dict[str, LlmExecutor | ModelPoolSpec] = {**self.models, "pool": self.spec}
        sections = {"retry": {"max_retries": retries}}
        agent = Agent("agent", model="pool", sections=sections)
        self.runtime = Runtime([agent], models=given, clock=self.clock)

    async def ask(self, thread: str = "t") -> str:
        return (await self.runtime.run("agent", "go", thread=thread)).response

    def calls(self) -> list[int]:
        return [model.calls for model in self.models.values()]


# -- home -------------------------------------------------------------------------------------


async def test_a_thread_begins_with_the_model_of_the_highest_score() -> None:
    """02/6.5: FNV-1a64 over key, 0x00, model id; u = (h+1)/(2^64+1); weight / -ln u."""
    weights = {"openai:gpt-5-mini": 1.0, "anthropic:claude-sonnet": 2.5, "google:gemini-3": 0.5}
    pool = Pool(*({"model_id": id, "weight": weight} for id, weight in weights.items()))

    def score(thread: str, model: str) -> float:
        hashed = 14695981039346656037
        for byte in f"{thread}\x00{model}".encode():
            hashed = (hashed ^ byte) * 1099511628211 % 2**64
        return weights[model] / -log((hashed + 1) / (2**64 + 1))

    threads = [f"thread-{number}" for number in range(40)]
    asked = {thread: await pool.ask(thread) for thread in threads}

    assert asked == {t: max(weights, key=lambda m: score(t, m)) for t in threads}
    assert set(asked.values()) == set(weights)


# -- moving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RateLimited("full"), Overloaded("busy")])
async def test_a_pool_may_wait_for_its_quota(error: ProviderError) -> None:
    """02/6.5: `on_quota` false; then it is an error that may pass, as any."""
    pool = Pool(retries=1, **FIRST, switch={"on_quota": False})
    pool.models["a"].due = [error]
    assert await pool.ask() == "a"
    assert pool.calls() == [2, 0, 0]
    pool.models["a"].due = [error, error]
    with pytest.raises(InferenceFailed, match=error.message):
        await pool.ask()
    assert pool.calls() == [4, 0, 0]


async def test_a_pool_may_stay_with_a_model_that_refuses() -> None:
    """02/6.5: `on_permanent` false."""
    pool = Pool(**FIRST, switch={"on_permanent": False})
    pool.models["a"].due = [Unauthorized("expired")]
    with pytest.raises(InferenceFailed, match="unauthorized: expired"):
        await pool.ask()
    assert await pool.ask() == "a"
    assert pool.calls() == [2, 0, 0]


async def fail(pool: Pool, times: int) -> None:
    pool.models["a"].due = [ProviderError("down")] * times
    for _ in range(times):
        with pytest.raises(InferenceFailed, match="down"):
            await pool.ask()


async def test_errors_that_may_pass_move_nobody_until_the_circuit_opens() -> None:
    """02/E7, 6.5: they only feed the breaker, whose opening moves the next call."""
    pool = Pool(**FIRST)
    await fail(pool, 5)
    assert pool.calls() == [5, 0, 0]
    assert await pool.ask() == "b"
    assert pool.calls() == [5, 1, 0]
    assert await pool.ask("another") == "b"


async def test_a_pool_may_stay_with_a_model_whose_circuit_is_open() -> None:
    """02/6.5: `on_circuit_open` false; it is not asked, and neither is another."""
    pool = Pool(**FIRST, switch={"on_circuit_open": False})
    await fail(pool, 5)
    with pytest.raises(InferenceFailed, match="circuit breaker open for model"):
        await pool.ask()
    assert pool.calls() == [5, 0, 0]
    pool.clock.advance(30)
    assert await pool.ask() == "a"


async def test_a_stream_that_breaks_is_charged_to_the_model_that_opened_it() -> None:
    """02/6.5: five of them open its circuit, and no other's; the answer is gone on with by b."""
    pool = Pool(**FIRST)
    pool.models["a"].due = [(f"{number} ", CUT) for number in range(5)]
    with pytest.raises(InferenceFailed, match="stream interrupted"):
        await pool.ask()
    assert pool.calls() == [3, 0, 0]
    assert await pool.ask() == "3 4 b"
    assert pool.calls() == [5, 1, 0]
    pool.models["b"].due = [ProviderError("down")] * 4
    for _ in range(4):
        with pytest.raises(InferenceFailed, match="down"):
            await pool.ask()
    assert await pool.ask() == "b"


# -- conversations ----------------------------------------------------------------------------


async def test_the_conversation_that_was_silent_longest_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """02/6.5: LRU."""
    monkeypatch.setattr(pools, "MAX_SESSIONS", 2)
    pool = Pool(**TURNS)
    assert [await pool.ask(thread) for thread in ("one", "two", "one", "three")] == list("abac")
    assert await pool.ask("one") == "a"
    assert await pool.ask("two") == "a", "its turn has come again"
    assert await pool.ask("two") == "a"


async def test_a_conversation_that_waits_for_an_answer_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """02/6.5: never evicting in-flight."""
    monkeypatch.setattr(pools, "MAX_SESSIONS", 1)
    pool = Pool(**TURNS)
    held = pool.models["a"]
    held.free.clear()
    waiting = asyncio.ensure_future(pool.ask("held"))
    await held.asked.wait()
    assert [await pool.ask(thread) for thread in ("one", "two")] == list("bc")
    held.free.set()
    assert await waiting == "a"
    assert [await pool.ask("held"), await pool.ask("three"), await pool.ask("four")] == list("aab")


# -- what a model reads -----------------------------------------------------------------------


async def test_a_model_of_which_nothing_is_declared_is_sent_everything() -> None:
    """02/6.6: the guard wraps only when input modalities are declared."""
    model = ScriptedModel(["nice"])
    picture = Image(source=Base64Source(media_type="image/png", data="aGk="))
    runtime = Runtime([Agent("a", model=model)])
    assert (await runtime.run("a", [Message.user_with_content([picture])])).response == "nice"
    assert model.requests[0].messages[0].content == (picture,)
