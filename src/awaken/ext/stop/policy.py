"""The policies as pure functions of the statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

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
from awaken.core.state.run_keys import StopConditionStats

StopDecision = StoppedReason | None
"""Why to stop, or `None` to go on."""


def evaluate(policy: StopConditionSpec, stats: StopConditionStats) -> StopDecision:
    """The decision of one policy; a limit of 0 switches it off."""
    match policy:
        case MaxRounds(rounds=limit):
            return _limit(limit, stats.step_count, "max_rounds", "rounds")
        case Timeout(seconds=seconds):
            over = 0 < seconds * 1000 < stats.elapsed_ms
            return _stop("timeout", f"{stats.elapsed_ms} ms of {seconds} s") if over else None
        case TokenBudget(max_total=limit):
            spent = stats.total_input_tokens + stats.total_output_tokens
            over = 0 < limit < spent
            return _stop("token_budget", f"{spent} of {limit} tokens") if over else None
        case ConsecutiveErrors(max=limit):
            return _limit(limit, stats.consecutive_errors, "consecutive_errors", "errors in a row")
        case StopOnTool(tool_name=name):
            return _stop("stop_on_tool", name) if name in stats.last_tool_names else None
        case ContentMatch(pattern=pattern):
            return _content_match(pattern, stats.last_response_text)
        case LoopDetection(window=window):
            return _loop(window, stats.recent_response_texts)
        case _:
            assert_never(policy)


def first_stop(
    policies: Sequence[StopConditionSpec], stats: StopConditionStats
) -> tuple[StopConditionSpec, StoppedReason] | None:
    """The first policy in the list that decides to stop, and its reason; `None` if none does."""
    for policy in policies:
        decision = evaluate(policy, stats)
        if decision is not None:
            return policy, decision
    return None


def _stop(code: str, detail: str) -> StoppedReason:
    return StoppedReason(code=code, detail=detail)


def _limit(limit: int, reached: int, code: str, what: str) -> StopDecision:
    return _stop(code, f"{reached} of {limit} {what}") if 0 < limit <= reached else None


def _loop(window: int, texts: Sequence[str]) -> StopDecision:
    last = texts[-window:] if window >= 2 else ()
    same = len(last) == window and len(set(last)) == 1 and bool(last[0])
    return _stop("loop_detection", f"the last {window} answers are the same") if same else None


def _content_match(pattern: str, text: str) -> StopDecision:
    if not pattern:
        return None
    try:
        found = re.search(pattern, text)
    except re.error as error:
        return StoppedReason(code="content_match_invalid_regex", detail=str(error))
    return _stop("content_match", pattern) if found is not None else None
