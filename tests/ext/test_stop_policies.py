"""The policies, as pure functions of the statistics (01 §7)."""

from __future__ import annotations

import pytest

from awaken.core.lifecycle import StoppedReason
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
from awaken.core.state.run_keys import StopConditionStats as Stats
from awaken.ext.stop.policy import evaluate, first_stop

BOUNDARIES: list[tuple[StopConditionSpec, Stats, Stats, str]] = [
    (MaxRounds(rounds=3), Stats(step_count=2), Stats(step_count=3), "max_rounds"),
    (Timeout(seconds=2), Stats(elapsed_ms=2000), Stats(elapsed_ms=2001), "timeout"),
    (Timeout(seconds=0.5), Stats(elapsed_ms=500), Stats(elapsed_ms=501), "timeout"),
    (
        TokenBudget(max_total=10),
        Stats(total_input_tokens=4, total_output_tokens=6),
        Stats(total_input_tokens=5, total_output_tokens=6),
        "token_budget",
    ),
    (
        ConsecutiveErrors(max=2),
        Stats(consecutive_errors=1),
        Stats(consecutive_errors=2),
        "consecutive_errors",
    ),
    (
        StopOnTool(tool_name="pay"),
        Stats(last_tool_names=("pays", "repay")),
        Stats(last_tool_names=("look", "pay")),
        "stop_on_tool",
    ),
    (
        ContentMatch(pattern=r"done\b"),
        Stats(last_response_text="not donee"),
        Stats(last_response_text="well, done."),
        "content_match",
    ),
    (
        LoopDetection(window=3),
        Stats(recent_response_texts=("a", "b", "a", "a")),
        Stats(recent_response_texts=("b", "a", "a", "a")),
        "loop_detection",
    ),
    (
        LoopDetection(window=3),
        Stats(recent_response_texts=("a", "a")),
        Stats(recent_response_texts=("a", "a", "a")),
        "loop_detection",
    ),
]


@pytest.mark.parametrize(("policy", "below", "at", "code"), BOUNDARIES)
def test_each_policy_stops_at_its_boundary(
    policy: StopConditionSpec, below: Stats, at: Stats, code: str
) -> None:
    """01/L-1: max_rounds counts this inference (0.6's `>=`); a stop has a code and a detail."""
    assert evaluate(policy, below) is None
    stop = evaluate(policy, at)
    assert stop is not None
    assert stop.code == code
    assert stop.detail


EXTREME = Stats(
    step_count=10**6,
    total_input_tokens=10**9,
    total_output_tokens=10**9,
    elapsed_ms=10**9,
    consecutive_errors=10**6,
    last_tool_names=("pay",),
    last_response_text="text",
    recent_response_texts=("text",) * 64,
)


@pytest.mark.parametrize(
    "policy",
    [
        MaxRounds(rounds=0),
        Timeout(seconds=0),
        TokenBudget(max_total=0),
        ConsecutiveErrors(max=0),
        StopOnTool(tool_name=""),
        ContentMatch(pattern=""),
        LoopDetection(window=0),
        LoopDetection(window=1),
    ],
)
def test_a_limit_of_nothing_switches_a_policy_off(policy: StopConditionSpec) -> None:
    """01/L-1: 0 disables; a loop needs two answers."""
    assert evaluate(policy, EXTREME) is None


def test_a_bad_pattern_stops_with_its_own_code() -> None:
    """01 §7: and says what is wrong with it."""
    stop = evaluate(ContentMatch(pattern="("), Stats(last_response_text="x"))

    assert stop is not None
    assert stop.code == "content_match_invalid_regex"
    assert stop.detail


def test_the_first_policy_in_the_list_wins() -> None:
    """01/L-2: whatever else would stop, too."""
    stats = Stats(step_count=5, total_input_tokens=100)
    rounds, budget = MaxRounds(rounds=1), TokenBudget(max_total=1)

    found = [first_stop(order, stats) for order in ((rounds, budget), (budget, rounds))]

    assert [stop[1].code for stop in found if stop] == ["max_rounds", "token_budget"]
    assert first_stop((MaxRounds(rounds=0), budget), stats) == (
        budget,
        StoppedReason(code="token_budget", detail="100 of 1 tokens"),
    )
    assert first_stop((), stats) is None
