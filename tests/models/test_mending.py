"""Streams that break off: what was said stays, what is whole is used, the rest is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from awaken import Agent, Budget, Runtime, tool
from awaken.core.event import (
    ReasoningDelta,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.lifecycle import CANCELLED, Stopped
from awaken.core.llm import (
    ContentFiltered,
    InferenceExecutionError,
    InferenceRequest,
    InferenceTimeout,
    InvalidRequest,
    LlmStreamEvent,
    Overloaded,
    ProviderError,
    RateLimited,
    Stop,
    StreamInterrupted,
    StreamSnapshot,
    Unauthorized,
    Usage,
)
from awaken.core.message import Role
from awaken.errors import InferenceFailed
from awaken.models.stream_recovery import MendPlan, cause_of, plan_for
from awaken.testing import FakeClock, FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio

CUT = ProviderError("connection reset by peer")
END = Stop(reason=StopReason.END_TURN)


def text(*pieces: str) -> list[LlmStreamEvent]:
    return [TextDelta(delta=piece) for piece in pieces]


def call(id: str, arguments: str, name: str = "add") -> list[LlmStreamEvent]:
    return [ToolCallStart(id=id, name=name), ToolCallDelta(id=id, args_delta=arguments)]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Heard:
    """One run of a scripted model: its events, its answer, its log."""

    def __init__(self, *script: Sequence[LlmStreamEvent | Exception] | Exception) -> None:
        self.model = ScriptedModel(script)
        self.clock = FakeClock(auto=True)
        self.events: list[object] = []
        self.response = ""
        self.said: list[str] = []

    async def run(self, **retry: object) -> Heard:
        agent = Agent("a", model=self.model, tools=[add], sections={"retry": retry})
        async with Runtime([agent], clock=self.clock) as runtime:
            async with runtime.stream("a", "go", thread="t") as events:
                async for envelope in events:
                    self.events.append(envelope.event)
            assert events.result is not None
            self.response = events.result.response
            log = await runtime.messages("t")
            self.said = [m.text() for m in log if m.role is Role.ASSISTANT]
        return self

    def of(self, *kinds: type) -> list[object]:
        return [event for event in self.events if isinstance(event, kinds)]

    def seen(self) -> str:
        """The text as a client shows it: deltas, less what a reset took back."""
        shown = ""
        for event in self.events:
            if isinstance(event, StreamReset):
                shown = ""
            elif isinstance(event, TextDelta):
                shown += event.delta
        return shown


# -- the plans --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heard", "plan"),
    [
        (StreamSnapshot(), MendPlan.START_OVER),
        (StreamSnapshot(in_flight_call=("b", "add", '{"a"')), MendPlan.START_OVER),
        (StreamSnapshot(text="so"), MendPlan.CONTINUE),
        (StreamSnapshot(text="so", in_flight_call=("b", "add", "{")), MendPlan.DROP_CALL),
        (StreamSnapshot(completed_calls=(("a", "add", "{}"),)), MendPlan.USE_CALLS),
        (StreamSnapshot(text="so", completed_calls=(("a", "add", "{}"),)), MendPlan.USE_CALLS),
    ],
)
def test_what_has_arrived_decides_how_to_go_on(heard: StreamSnapshot, plan: MendPlan) -> None:
    """02/E6: the plan table of 6.4."""
    assert plan_for(heard) is plan


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ProviderError("server sent GOAWAY"), "goaway"),
        (ProviderError("connection reset by peer"), "connection reset"),
        (Overloaded("HTTP 503: try later"), "provider 503 mid-stream"),
        (ProviderError("502 bad gateway"), "provider 503 mid-stream"),
        (RateLimited("slow down"), "connection reset"),
        (InferenceTimeout("no answer"), "connection reset"),
        (StreamInterrupted("idle stall"), "idle stall"),
        (Unauthorized("no"), None),
        (InvalidRequest("no"), None),
        (ContentFiltered("no"), None),
    ],
)
def test_a_cause_is_told_in_few_words_and_permanent_errors_have_none(
    error: InferenceExecutionError, cause: str | None
) -> None:
    """02/E6: causes and classification of 6.4."""
    assert cause_of(error) == cause


async def test_text_that_broke_off_is_gone_on_with() -> None:
    """02/E3 P1: two attempts, neither reset nor cancel; 02/DB-10: the log holds both halves."""
    heard = await Heard([*text("Hello ", "wor"), CUT], [*text("ld", "!"), END]).run()
    assert heard.model.calls == 2
    assert heard.response == heard.seen() == "Hello world!"
    assert heard.said == ["Hello world!"]
    assert heard.of(StreamReset, ToolCallCancel) == []
    before, now = heard.model.requests
    assert [m.role for m in now.messages[len(before.messages) :]] == [Role.ASSISTANT, Role.USER]
    assert now.messages[-2].text() == "Hello wor"
    assert "interrupted mid-stream" in now.messages[-1].text()


async def test_calls_that_are_whole_are_used_and_the_half_one_is_dropped() -> None:
    """02/E3 P2: one attempt, cancel b, ready a."""
    heard = await Heard(
        [*text("I add. "), *call("a", '{"a": 1, "b": 2}'), *call("b", '{"a": 3'), CUT],
        [*text("3"), END],
    ).run()
    assert heard.model.calls == 2  # the second is the next step's
    assert heard.of(ToolCallCancel) == [
        ToolCallCancel(id="b", name="add", reason="connection reset")
    ]
    ready = heard.of(ToolCallReady)
    assert [event.id for event in ready if isinstance(event, ToolCallReady)] == ["a"]
    assert heard.of(StreamReset) == []
    assert heard.said == ["I add. ", "3"]


async def test_a_half_written_call_behind_text_is_dropped_and_the_text_gone_on_with() -> None:
    """02/E3 P3: cancel, no reset."""
    heard = await Heard(
        [*text("I add"), *call("a", '{"a": 1'), CUT],
        [*text(": "), *call("a", '{"a": 1, "b": 2}'), Stop(reason=StopReason.TOOL_USE)],
        [*text("3"), END],
    ).run()
    assert [type(event) for event in heard.of(ToolCallCancel, StreamReset)] == [ToolCallCancel]
    assert heard.said == ["I add: ", "3"]


@pytest.mark.parametrize("first", [[ReasoningDelta(delta="hm")], call("a", '{"a"')])
async def test_what_is_of_no_use_is_taken_back_and_asked_for_again(
    first: list[LlmStreamEvent],
) -> None:
    """02/E3 P4: reset, and the same request again."""
    heard = await Heard([*first, CUT], [*text("fine"), END]).run()
    assert heard.of(StreamReset) == [StreamReset(reason="connection reset")]
    assert heard.response == heard.seen() == "fine"
    one, other = heard.model.requests
    assert one.messages == other.messages


async def test_after_three_attempts_it_is_given_up_and_what_was_said_stays() -> None:
    """02/E3: exhaustion after 3."""
    heard = Heard([*text("a"), CUT], [*text("b"), CUT], [*text("c"), CUT])
    with pytest.raises(InferenceFailed, match=r"stream interrupted \(connection reset\)"):
        await heard.run()
    assert heard.model.calls == 3
    assert heard.clock.sleeps == [0.5, 1.0]


async def test_the_agents_own_retry_settings_hold_for_streams() -> None:
    """02/DB-26"""
    heard = Heard([*text("a"), CUT])
    with pytest.raises(InferenceFailed, match="stream interrupted"):
        await heard.run(max_stream_retries=0)
    assert heard.model.calls == 1


async def test_a_permanent_error_mid_stream_is_not_mended() -> None:
    """02/6.4"""
    heard = Heard([*text("a"), Unauthorized("expired")])
    with pytest.raises(InferenceFailed, match="unauthorized: expired"):
        await heard.run()
    assert heard.model.calls == 1


async def test_what_all_streams_of_an_answer_took_is_told_together() -> None:
    usage = [Usage(usage=TokenUsage(prompt_tokens=n, completion_tokens=1)) for n in (10, 20)]
    heard = Heard([usage[0], *text("a"), CUT], [usage[1], *text("b"), END])
    agent = Agent("a", model=heard.model)
    async with Runtime([agent], clock=heard.clock) as runtime:
        result = await runtime.run("a", "go", budget=Budget(tokens=100_000))
    assert result.usage is not None
    assert result.usage.prompt_tokens == 30
    assert result.spent is not None
    assert result.spent.tokens == 32


async def test_a_stream_that_cannot_be_paid_again_ends_with_what_was_said() -> None:
    heard = Heard([*text("x" * 4000), CUT], [*text("more"), END])
    agent = Agent("a", model=heard.model)
    async with Runtime([agent], clock=heard.clock) as runtime:
        result = await runtime.run("a", "go", thread="t", budget=Budget(tokens=1100))
        log = await runtime.messages("t")
    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "budget"
    assert heard.model.calls == 1
    assert log[-1].text().startswith("xxx")


async def test_one_that_cannot_be_paid_again_asks_and_goes_on_once_it_may() -> None:
    heard = Heard([*text("x" * 4000), CUT], [*text("more"), END])
    agent = Agent("a", model=heard.model, budget=Budget(tokens=1100, at_limit="ask"))
    async with Runtime([agent], clock=heard.clock) as runtime:
        result = await runtime.run("a", "go", thread="t")
        assert result.suspended
        while result.suspended:
            result = await runtime.run(thread="t", answers={result.tickets[0]: True})
        log = await runtime.messages("t")
    assert result.response == "more"
    assert [m.text()[:4] for m in log if m.role is Role.ASSISTANT] == ["xxxx", "more"]
    assert "interrupted" in heard.model.requests[-1].messages[-1].text()


# -- silence ----------------------------------------------------------------------------------


class Silent:
    """A model whose first stream falls silent after some pieces."""

    def __init__(self, *pieces: str, name: str = "silent") -> None:
        self.pieces = pieces
        self.asked = 0
        self.quiet = asyncio.Event()
        self.model = FunctionModel(self._speak, name=name)

    async def _speak(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.asked += 1
        if self.asked > 1:
            yield TextDelta(delta=" then")
            yield END
            return
        for piece in self.pieces:
            yield TextDelta(delta=piece)
        self.quiet.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("pieces", "name", "window", "answer"),
    [
        (("now",), "silent", 60, "now then"),
        ((), "silent", 60, " then"),
        (("now",), "o3-mini", 120, "now then"),
    ],
    ids=["mid-stream", "before it speaks", "a model that thinks"],
)
async def test_a_stream_that_falls_silent_is_gone_on_with(
    pieces: tuple[str, ...], name: str, window: float, answer: str
) -> None:
    """02/E4: stall at 60 s recovers; 02/6.4: the idle window doubles for a model that thinks."""
    silent, clock = Silent(*pieces, name=name), FakeClock()
    async with Runtime([Agent("a", model=silent.model)], clock=clock) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go"))
        await silent.quiet.wait()
        clock.advance(0.25)
        await asyncio.sleep(0)
        clock.advance(window - 1)
        await asyncio.sleep(0)
        assert clock.sleeping == 0
        clock.advance(2)
        await clock.until_sleeping()
        clock.advance(0.2)
        assert (await run).response == answer
    assert clock.sleeps == [0.2]


async def test_a_run_that_is_cancelled_between_two_attempts_is_cancelled() -> None:
    """02/E4: cancel during backoff raises cancelled after one attempt."""
    model, clock = ScriptedModel([[*text("a"), CUT], [*text("b"), END]]), FakeClock()
    async with Runtime([Agent("a", model=model)], clock=clock) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
        await clock.until_sleeping()
        await runtime.cancel("t")
        result = await run
    assert result.termination == CANCELLED
    assert model.calls == 1
    assert result.response == "a"
