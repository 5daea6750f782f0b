"""The policies: pure functions of the statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from awaken.domain.lifecycle import StoppedReason
from awaken.domain.spec import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopConditionSpec,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from awaken.state.runtime_keys import StopConditionStats

StopDecision = StoppedReason | None
"""Why to stop, or `None` to go on."""


def evaluate(policy: StopConditionSpec, stats: StopConditionStats) -> StopDecision:
    """What one policy says; a limit of 0 switches it off."""
    match policy:
        case MaxRounds(rounds=rounds):
            hit = 0 < rounds <= stats.step_count
            return _stop(hit, "max_rounds", f"{stats.step_count} of {rounds} rounds")
        case Timeout(seconds=seconds):
            hit = seconds > 0 and stats.elapsed_ms > seconds * 1000
            return _stop(hit, "timeout", f"{stats.elapsed_ms} ms of {seconds} s")
        case TokenBudget(max_total=limit):
            spent = stats.total_input_tokens + stats.total_output_tokens
            return _stop(0 < limit < spent, "token_budget", f"{spent} of {limit} tokens")
        case ConsecutiveErrors(max=limit):
            errors = stats.consecutive_errors
            return _stop(0 < limit <= errors, "consecutive_errors", f"{errors} errors in a row")
        case StopOnTool(tool_name=name):
            return _stop(name in stats.last_tool_names, "stop_on_tool", name)
        case ContentMatch(pattern=pattern):
            return _content_match(pattern, stats.last_response_text)
        case LoopDetection(window=window):
            last = stats.recent_response_texts[-window:] if window >= 2 else ()
            hit = len(last) == window and len(set(last)) == 1 and bool(last and last[0])
            return _stop(hit, "loop_detection", f"the last {window} answers are the same")
        case _:
            assert_never(policy)


def first_stop(
    policies: Sequence[StopConditionSpec], stats: StopConditionStats
) -> tuple[StopConditionSpec, StoppedReason] | None:
    """The first policy in the list that wants to stop."""
    for policy in policies:
        decision = evaluate(policy, stats)
        if decision is not None:
            return policy, decision
    return None


def _stop(hit: bool, code: str, detail: str) -> StopDecision:
    return StoppedReason(code=code, detail=detail) if hit else None


def _content_match(pattern: str, text: str) -> StopDecision:
    if not pattern:
        return None
    try:
        found = re.search(pattern, text)
    except re.error as error:
        return StoppedReason(code="content_match_invalid_regex", detail=str(error))
    return _stop(found is not None, "content_match", pattern)
