"""Stop conditions in real runs: when they fire, what still happens, and what is kept (01 §7)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from awaken import Agent, AgentSpec, RunResult, Runtime, tool
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.lifecycle import NATURAL_END, Stopped, StoppedReason
from awaken.core.llm import InferenceRequest, InvalidRequest
from awaken.core.message import Text, ToolCall
from awaken.core.spec import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopConditionSpec,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from awaken.core.state.run_keys import STOP_STATS, StopConditionStats
from awaken.errors import InferenceFailed, ValidationFailed
from awaken.ext.stop import StopConditionPlugin
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, ScriptedModel
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


class Worker:
    """A tool that counts, and an agent that has it."""

    def __init__(self, script: Sequence[Response], **options: object) -> None:
        self.worked = 0
        self.model = ScriptedModel(script)

        @tool
        async def work() -> str:
            """Work."""
            self.worked += 1
            return "worked"

        self.agent = Agent(  # type: ignore[call-overload]  # options by name
            "worker",
            model=self.model,
            tools=[work],
            **options,
        )

    async def run(self) -> RunResult:
        return await Runtime([self.agent]).run("worker", "go", thread="t")


def asks(text: str = "", tokens: int = 0) -> StreamResult:
    """An answer that wants the tool, and what it cost."""
    return StreamResult(
        content=(Text(text=text),) if text else (),
        tool_calls=(ToolCall(id="c", name="work", arguments={}),),
        usage=TokenUsage(prompt_tokens=tokens, completion_tokens=tokens),
        stop_reason=StopReason.TOOL_USE,
    )


def code_of(result: RunResult) -> str | None:
    return result.termination.value.code if isinstance(result.termination, Stopped) else None


async def stats_of(runtime: Runtime, run_id: str) -> StopConditionStats:
    record = await runtime.find_run(run_id)
    assert record is not None
    assert record.state is not None
    return STOP_STATS.load(record.state.extensions[STOP_STATS.name])


# -- rounds -----------------------------------------------------------------------------------


async def test_a_run_of_n_rounds_asks_the_model_n_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """01 §7 OURS, D-13: not n + 1; the tools of the last round are not run, its step counts."""
    worker = Worker([asks(), asks(), asks("one more")], max_rounds=3)

    result = await worker.run()

    assert result.steps == 3
    assert caplog.records == []

    assert code_of(result) == "max_rounds"
    assert worker.model.calls == 3
    assert worker.worked == 2


async def test_an_answer_in_the_last_round_is_a_natural_end() -> None:
    """01 §7 OURS, D-13: `max_rounds = 1` loses no answer."""
    worker = Worker(["the answer"], max_rounds=1)

    result = await worker.run()

    assert result.termination == NATURAL_END
    assert result.response == "the answer"


async def test_no_limit_is_no_limit() -> None:
    """01/L-1: 0 disables."""
    worker = Worker([*[asks()] * 30, "done"], max_rounds=0)

    assert (await worker.run()).termination == NATURAL_END
    assert worker.worked == 30


async def test_the_final_text_survives_a_stop() -> None:
    """01/L-7, D-13: in the result and in the log, without the calls that were not made."""
    worker = Worker([asks("so far: nothing")], max_rounds=1)
    runtime = Runtime([worker.agent])

    result = await runtime.run("worker", "go", thread="t")

    assert code_of(result) == "max_rounds"
    assert result.response == "so far: nothing"
    last = (await runtime.messages("t"))[-1]
    assert last.text() == "so far: nothing"
    assert last.tool_calls is None


async def test_a_message_behind_the_last_round_is_not_answered() -> None:
    """01 §7 OURS: the answer counts, and a further question would be one inference too many."""
    runtime: Runtime

    async def answer(_: InferenceRequest) -> str:
        assert await runtime.send("t", "one more thing")
        return "the answer"

    model = FunctionModel(answer)
    runtime = Runtime([Agent("a", model=model, max_rounds=1)])

    result = await runtime.run("a", "go", thread="t")

    assert code_of(result) == "max_rounds"
    assert result.response == "the answer"
    assert model.calls == 1
    assert [m.text() for m in await runtime.messages("t")] == [
        "go",
        "the answer",
        "one more thing",
    ]


async def test_rounds_go_on_after_a_pause_in_another_runtime() -> None:
    """D-10: rounds alone are counted over an approval, too."""

    @tool(needs_approval=True)
    async def work() -> str:
        """Work."""
        return "worked"

    store = MemoryStore()

    def fresh() -> Runtime:
        agent = Agent("a", model=ScriptedModel([asks("more")]), tools=[work], max_rounds=2)
        return Runtime([agent], store=store)

    first = await fresh().run("a", "go", thread="t")
    assert first.suspended

    second = await fresh().run(thread="t", answers={first.tickets[0]: True})

    assert second.run_id == first.run_id
    assert code_of(second) == "max_rounds"
    assert second.response == "more"


# -- the others -------------------------------------------------------------------------------

STOPS: list[tuple[StopConditionSpec, list[Response], int]] = [
    (StopOnTool(tool_name="work"), [asks("a"), "never"], 0),
    (ContentMatch(pattern="enough"), [asks("a"), asks("enough")], 1),
    (LoopDetection(window=2), [asks("a"), asks("b"), asks("b")], 2),
    (TokenBudget(max_total=5), [asks(tokens=2), asks(tokens=1)], 1),
    (MaxRounds(rounds=2), [asks(), asks()], 1),
]


@pytest.mark.parametrize(("policy", "script", "worked"), STOPS)
async def test_tools_do_not_run_once_a_policy_stopped(
    policy: StopConditionSpec, script: list[Response], worked: int
) -> None:
    """01/L-6: a stop prevents the tools of its inference."""
    worker = Worker(script, stop=[policy])

    result = await worker.run()

    assert code_of(result) == policy.__struct_config__.tag
    assert worker.worked == worked


async def test_the_reason_keeps_its_detail() -> None:
    """D-14: in the result, the record and the lifecycle, where the string loses it."""
    worker = Worker([asks(tokens=3)], stop=[TokenBudget(max_total=5)])
    runtime = Runtime([worker.agent])

    result = await runtime.run("worker", "go")

    expected = Stopped(value=StoppedReason(code="token_budget", detail="6 of 5 tokens"))
    assert result.termination == expected
    record = await runtime.find_run(result.run_id)
    assert record is not None
    assert record.termination_reason == expected
    assert record.outcome is not None
    assert record.outcome.termination_reason == expected
    assert record.state is not None
    lifecycle = record.state.extensions["__runtime.run_lifecycle"]
    assert lifecycle["status_reason"] == "stopped:token_budget"
    assert lifecycle["termination"]["value"]["detail"] == "6 of 5 tokens"


async def test_the_first_condition_of_the_list_is_told() -> None:
    """01/L-2: `max_rounds` comes first, then the agent's own, in their order."""
    budget, match = TokenBudget(max_total=1), ContentMatch(pattern="x")

    codes = [
        code_of(await Worker([asks("x", tokens=9)], stop=order).run())
        for order in ([budget, match], [match, budget])
    ]
    rounds = await Worker([asks("x", tokens=9)], max_rounds=1, stop=[budget]).run()

    assert codes == ["token_budget", "content_match"]
    assert code_of(rounds) == "max_rounds"


async def test_time_counts_from_the_start_of_the_run() -> None:
    """01/L-1 as 0.6 has it: one long inference is enough, one short is not."""
    for seconds, expected in ((9.0, None), (11.0, "timeout")):
        clock = FakeClock()

        def answer(_: InferenceRequest, clock: FakeClock = clock, by: float = seconds) -> str:
            clock.advance(by)
            return "took its time"

        agent = Agent("slow", model=FunctionModel(answer), stop=[Timeout(seconds=10)])

        result = await Runtime([agent], clock=clock).run("slow", "go")

        assert code_of(result) == expected
        assert result.response == "took its time"


async def test_time_adds_up_over_steps() -> None:
    """01/L-1: the third step passes the limit."""
    clock = FakeClock()

    def answer(_: InferenceRequest) -> StreamResult:
        clock.advance(4)
        return asks()

    worker = Worker([])
    agent = Agent(
        "slow", model=FunctionModel(answer), tools=worker.agent.tools, stop=[Timeout(seconds=10)]
    )

    result = await Runtime([agent], clock=clock).run("slow", "go")

    assert code_of(result) == "timeout"
    assert worker.worked == 2


# -- errors -----------------------------------------------------------------------------------


async def test_two_errors_in_a_row_stop_and_a_success_between_forgives() -> None:
    """01/L-4, D-12: error, success, error, error with a limit of 2 stops on the fourth."""
    broken = InvalidRequest("not now")
    worker = Worker([broken, asks(), broken, broken, "never"], stop=[ConsecutiveErrors(max=2)])

    result = await worker.run()

    assert code_of(result) == "consecutive_errors"
    assert worker.model.calls == 4
    assert worker.model.remaining == 1
    assert worker.worked == 1


async def test_an_agent_that_tolerates_no_errors_fails_on_the_first() -> None:
    """01/L-4, 01/L-1: without the policy, or with 0, an error ends the run."""
    for stop in ([], [ConsecutiveErrors(max=0)]):
        worker = Worker([InvalidRequest("not now"), "never"], stop=stop)

        with pytest.raises(InferenceFailed, match="not now"):
            await worker.run()


# -- sums -------------------------------------------------------------------------------------


async def test_tokens_add_up_over_steps() -> None:
    """01/L-3: and the statistics say so."""
    script: list[Response] = [asks(tokens=1), asks(tokens=2), "done"]
    worker = Worker(script, stop=[TokenBudget(max_total=100)])
    runtime = Runtime([worker.agent])

    result = await runtime.run("worker", "go")

    stats = await stats_of(runtime, result.run_id)
    assert (stats.total_input_tokens, stats.total_output_tokens) == (3, 3)
    assert stats.step_count == 3
    assert result.usage.total_tokens == 6


async def test_tokens_and_rounds_go_on_after_a_pause_in_another_runtime() -> None:
    """01/L-3, D-10: a limit does not start over at an approval."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def wants(tokens: int) -> StreamResult:
        return StreamResult(
            tool_calls=(ToolCall(id=f"c{tokens}", name="pay", arguments={}),),
            usage=TokenUsage(prompt_tokens=tokens, completion_tokens=0),
            stop_reason=StopReason.TOOL_USE,
        )

    store = MemoryStore()

    def fresh(*script: Response) -> Runtime:
        agent = Agent(
            "payer",
            model=ScriptedModel(script),
            tools=[pay],
            max_rounds=3,
            stop=[TokenBudget(max_total=100)],
        )
        return Runtime([agent], store=store)

    first = await fresh(wants(40)).run("payer", "pay twice", thread="t")
    assert first.suspended
    second = await fresh(wants(41)).run(thread="t", answers={first.tickets[0]: True})
    assert second.suspended
    assert second.run_id == first.run_id

    third = await fresh(wants(42)).run(thread="t", answers={second.tickets[0]: True})

    assert code_of(third) == "max_rounds"
    assert third.usage.prompt_tokens == 123
    stats = await stats_of(fresh(), first.run_id)
    assert (stats.step_count, stats.total_input_tokens) == (3, 123)


# -- one statistics hook ----------------------------------------------------------------------


async def test_many_policies_count_each_step_once() -> None:
    """D-20: one statistics hook, many policies."""
    policies = [TokenBudget(max_total=99), LoopDetection(window=9), MaxRounds(rounds=50)]
    worker = Worker([asks(tokens=1), "done"], stop=policies)
    runtime = Runtime([worker.agent])

    result = await runtime.run("worker", "go")

    stats = await stats_of(runtime, result.run_id)
    assert (stats.step_count, stats.total_input_tokens) == (2, 1)


def test_a_second_statistics_plugin_is_refused() -> None:
    """D-20: rather than counting everything twice; the clash is named."""
    agent = Agent(
        "a", model=ScriptedModel([]), plugins=[StopConditionPlugin([MaxRounds(rounds=3)])]
    )

    with pytest.raises(ValidationFailed, match=r"'a'.*'stop-condition"):
        Runtime([agent])


async def test_a_hook_filter_does_not_lift_the_limit() -> None:
    """D-19: built-ins are exempt."""
    worker = Worker([])
    spec = AgentSpec(
        id="filtered",
        model_id="m",
        system_prompt="",
        max_rounds=2,
        active_hook_filter=frozenset({"somebody"}),
    )
    model = ScriptedModel([asks()] * 5)
    runtime = Runtime([spec], models={"m": model}, tools=worker.agent.tools)

    result = await runtime.run("filtered", "go")

    assert code_of(result) == "max_rounds"
    assert model.calls == 2
