"""Several models behind one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from awaken.codec import from_json
from awaken.core.answer_stream import StreamListener
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import (
    AllModelsUnavailable,
    InferenceExecutionError,
    InferenceRequest,
    InvalidRequest,
    LlmStreamEvent,
    ModelAbilities,
    ModelMissing,
    Overloaded,
    PoolAttemptsExhausted,
    ProviderError,
    RateLimited,
    RoutingKey,
    Stop,
    Unauthorized,
)
from awaken.core.spec import ModelPoolSpec, PoolHome, PoolRole, StickyScope
from awaken.models.circuit_breaker import CircuitBreaker
from awaken.models.pool import (
    MAX_SESSIONS,
    QUARANTINE,
    PoolExecutor,
    PoolMember,
    fnv1a_64,
    should_switch_model,
)
from awaken.models.retry import LlmRetryPolicy, RetryingExecutor
from awaken.models.stream_recovery import MendingExecutor
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio


class Model:
    """Says its name, unless an error is due; one with a text breaks off after it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[InferenceRequest] = []
        self.due: list[Exception | tuple[str, Exception]] = []
        self.always: Exception | None = None
        self.says = ModelAbilities()

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return self.says

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.asked.append(request)
        due = self.due.pop(0) if self.due else self.always
        if isinstance(due, tuple):
            yield TextDelta(delta=due[0])
            due = due[1]
        if due is not None:
            raise due
        yield TextDelta(delta=self.name)
        yield Stop(reason=StopReason.END_TURN)


class Pool:
    """A pool of models named a, b, c … and who answered."""

    def __init__(self, *members: dict[str, object], retries: int = 0, **spec: Any) -> None:
        self.clock = FakeClock(auto=True)
        self.breaker = CircuitBreaker(clock=self.clock)
        given = members or ({}, {}, {})
        rows = [{"model_id": chr(97 + i), **member} for i, member in enumerate(given)]
        self.spec = from_json({"id": "pool", "members": rows, **spec}, ModelPoolSpec)
        self.models = [Model(member.model_id) for member in self.spec.members]
        self.policy = LlmRetryPolicy(max_retries=retries)
        self.executor = PoolExecutor(
            self.spec, [self._member(model) for model in self.models], clock=self.clock
        )

    def _member(self, model: Model) -> PoolMember:
        retrying = RetryingExecutor(
            model,
            self.policy,
            self.clock,
            self.breaker,
            leaves=lambda error: should_switch_model(self.spec.switch, error),
        )
        return PoolMember(
            model.name, model.name, retrying, lambda: self.breaker.refusal(model.name)
        )

    def break_down(self, *names: str) -> None:
        for name in names:
            for _ in range(5):
                with pytest.raises(ProviderError), self.breaker.call(name):
                    raise ProviderError("down")

    async def ask(self, thread: str | None = "t", run: str | None = None) -> str:
        key = RoutingKey(thread_id=thread, run_id=run)
        request = InferenceRequest(upstream_model="pool", messages=(), routing_key=key)
        listener = StreamListener()
        await MendingExecutor(self.executor, self.policy, self.clock).drive(request, listener)
        return listener.finish().text()

    def calls(self) -> list[int]:
        return [len(model.asked) for model in self.models]


FIRST: dict[str, Any] = {"routing": {"home": "first_healthy"}}


# -- who is asked -----------------------------------------------------------------------------


async def test_a_thread_stays_with_its_model_and_threads_are_spread() -> None:
    """02/E7: same thread same member."""
    pool = Pool()
    by_thread = {f"t{n}": await pool.ask(f"t{n}") for n in range(60)}
    assert {t: await pool.ask(t) for t in by_thread} == by_thread
    assert set(Counter(by_thread.values())) == {"a", "b", "c"}
    other = Pool()
    assert {t: await other.ask(t) for t in by_thread} == by_thread


async def test_a_heavier_member_gets_more_threads() -> None:
    one, other = "openai:gpt-5-mini", "anthropic:claude-sonnet"
    pool = Pool({"model_id": one, "weight": 9}, {"model_id": other, "weight": 1})
    answers = Counter([await pool.ask(f"thread-{n}") for n in range(200)])
    assert answers[one] > 150
    assert answers[other] > 5


def test_the_hash_is_the_known_one() -> None:
    assert fnv1a_64(b"") == 0xCBF29CE484222325
    assert fnv1a_64(b"a") == 0xAF63DC4C8601EC8C
    assert fnv1a_64(b"foobar") == 0x85944171F73967E8


async def test_with_the_scope_run_each_run_has_its_own_model() -> None:
    pool = Pool(routing={"home": "round_robin", "sticky_scope": "run"})
    assert pool.spec.routing.sticky_scope is StickyScope.RUN
    assert [await pool.ask("t", run) for run in ("1", "2", "1", "2")] == ["a", "b", "a", "b"]


async def test_round_robin_goes_by_turns() -> None:
    """02/E7: round robin 0,1,2."""
    pool = Pool(routing={"home": "round_robin"})
    assert [await pool.ask(f"t{n}") for n in range(4)] == ["a", "b", "c", "a"]


async def test_round_robin_counts_weights_and_leaves_out_who_is_down() -> None:
    """02/E7: weights [2,–,1] with the middle unhealthy give 0,0,2."""
    pool = Pool({"weight": 2}, {}, {"weight": 1}, routing={"home": "round_robin"})
    pool.break_down("b")
    assert [await pool.ask(f"t{n}") for n in range(3)] == ["a", "a", "c"]


async def test_failover_members_are_asked_only_when_no_other_can_be() -> None:
    pool = Pool({"role": "failover_only"}, {})
    assert pool.spec.members[0].role is PoolRole.FAILOVER_ONLY
    assert {await pool.ask(f"t{n}") for n in range(20)} == {"b"}
    pool.break_down("b")
    assert await pool.ask("t0") == "a"
    assert await pool.ask("new") == "a"


# -- moving -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [RateLimited("slow"), Overloaded("full"), Unauthorized("no"), ModelMissing("gone")]
)
async def test_quota_and_permanent_errors_move_the_conversation_at_once(
    error: InferenceExecutionError,
) -> None:
    """02/E7: quota and permanent switch."""
    pool = Pool(retries=2, **FIRST)
    pool.models[0].due = [error]
    assert await pool.ask() == "b"
    assert pool.calls() == [1, 1, 0]
    assert await pool.ask() == "b"
    assert pool.clock.sleeps == []


async def test_an_error_that_may_pass_is_tried_again_where_it_came_from() -> None:
    """02/E7: transient does not switch."""
    pool = Pool(retries=2, **FIRST)
    pool.models[0].due = [ProviderError("oops")]
    assert await pool.ask() == "a"
    assert pool.calls() == [2, 0, 0]


async def test_a_request_nobody_understands_is_not_passed_round() -> None:
    pool = Pool(**FIRST)
    pool.models[0].due = [InvalidRequest("what?")]
    with pytest.raises(InvalidRequest):
        await pool.ask()
    assert pool.calls() == [1, 0, 0]


async def test_with_one_move_allowed_there_are_two_calls_and_the_last_error() -> None:
    """02/E7: budget 1 gives two calls and the rate-limit error."""
    pool = Pool(**FIRST, switch={"max_switches_per_session": 1})
    for model in pool.models:
        model.always = RateLimited(f"{model.name} is full")
    with pytest.raises(RateLimited, match="b is full"):
        await pool.ask()
    assert pool.calls() == [1, 1, 0]


async def test_an_answer_gives_the_moves_back() -> None:
    pool = Pool(**FIRST, switch={"max_switches_per_session": 1})
    pool.models[0].due = [RateLimited("full")]
    pool.models[1].due = []
    assert await pool.ask() == "b"
    pool.models[1].due = [RateLimited("full")]
    assert await pool.ask() == "a"


async def test_when_all_are_down_none_is_called() -> None:
    """02/E7: all open, zero calls."""
    pool = Pool()
    pool.break_down("a", "b", "c")
    with pytest.raises(AllModelsUnavailable, match="all models unavailable"):
        await pool.ask()
    assert pool.calls() == [0, 0, 0]


async def test_when_all_were_asked_it_says_so_and_why() -> None:
    pool = Pool(**FIRST)
    for model in pool.models:
        model.always = RateLimited("full")
    with pytest.raises(PoolAttemptsExhausted) as caught:
        await pool.ask()
    assert isinstance(caught.value.__cause__, RateLimited)
    assert pool.calls() == [1, 1, 1]


async def test_a_provider_that_wants_little_time_gets_it() -> None:
    pool = Pool(retries=1, **FIRST, switch={"quota_retry_after_threshold_secs": 10})
    pool.models[0].due = [RateLimited("soon", retry_after=2)]
    assert await pool.ask() == "a"
    assert pool.clock.sleeps == [2]
    pool.models[0].due = [RateLimited("later", retry_after=10)]
    assert await pool.ask() == "b"


async def test_a_member_that_was_refused_is_left_alone_for_a_while() -> None:
    pool = Pool(**FIRST)
    pool.models[0].due = [Unauthorized("expired")]
    assert await pool.ask("one") == "b"
    assert await pool.ask("two") == "b"
    pool.clock.advance(QUARANTINE + 1)
    assert await pool.ask("three") == "a"


async def test_a_conversation_moves_when_its_models_circuit_opens() -> None:
    pool = Pool(**FIRST)
    assert await pool.ask() == "a"
    pool.break_down("a")
    assert await pool.ask() == "b"
    assert pool.calls() == [1, 1, 0]


async def test_a_stream_that_breaks_is_gone_on_with_by_another_model() -> None:
    """Issue 4/4: the same across a pool's members."""
    pool = Pool(**FIRST)
    pool.models[0].due = [("half of ", Overloaded("busy"))]
    assert await pool.ask() == "half of b"
    assert pool.models[1].asked[0].messages[0].text() == "half of "
    assert await pool.ask() == "b"


# -- what it says of itself -------------------------------------------------------------------


def test_a_pool_can_do_what_all_its_members_can() -> None:
    pool = Pool()
    a, b, c = pool.models
    a.says = ModelAbilities(
        native_output=True,
        input=frozenset({"image", "audio"}),
        context_window=200,
        max_output_tokens=9,
    )
    b.says = msgspec.structs.replace(a.says, context_window=100)
    c.says = msgspec.structs.replace(a.says, input=frozenset({"image"}), max_output_tokens=None)
    assert pool.executor.abilities("pool") == ModelAbilities(
        native_output=True, input=frozenset({"image"}), context_window=100
    )
    c.says = ModelAbilities()
    assert pool.executor.abilities("pool") == ModelAbilities()


async def test_old_conversations_are_forgotten() -> None:
    pool = Pool(routing={"home": "round_robin"})
    assert await pool.ask("first") == "a"
    for n in range(MAX_SESSIONS):
        await pool.ask(f"t{n}")
    assert await pool.ask("first") != "a"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([], "has no members"),
        ([{"model_id": "a"}, {"model_id": "a"}], "has a member twice: a"),
        ([{"model_id": "a", "weight": 0}], "the weight 0"),
        ([{"model_id": "a", "role": "failover_only"}], "only failover_only"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(members: list[object], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        from_json({"id": "p", "members": members}, ModelPoolSpec)


def test_a_pool_has_defaults() -> None:
    spec = from_json({"id": "p", "members": [{"model_id": "a"}]}, ModelPoolSpec)
    assert spec.routing.home is PoolHome.DETERMINISTIC
    assert spec.switch.on_quota
    assert spec.switch.on_permanent
