"""The parameters for the length of an answer, and for the reasoning before it."""

from __future__ import annotations

from typing import Any

import msgspec

from awaken.core.inference import InferenceOverride, ReasoningBudget, ReasoningEffort
from awaken.models.anthropic.model_names import Claude

DEFAULT_MAX_TOKENS = 32_768
"""The default length of an answer; with reasoning it is the most that the model allows."""

MIN_BUDGET = 1_024
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576, "max": 49_152}


class ThinkingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that is about thinking.

    `replay` says whether the reasoning of earlier answers is sent back.
    """

    max_tokens: int
    thinking: dict[str, Any] | None = None
    effort: str | None = None
    replay: bool = False

    @property
    def thinks(self) -> bool:
        """Whether the model is asked to reason; it then takes no sampling parameters."""
        return self.thinking is not None and self.thinking["type"] in ("enabled", "adaptive")


def plan_of(
    model: Claude, overrides: InferenceOverride | None, default_max_tokens: int | None = None
) -> ThinkingPlan:
    """How to ask `model` for the wanted effort, or for the nearest that the model allows."""
    wanted = overrides.reasoning_effort if overrides is not None else None
    limit = (overrides.max_tokens if overrides is not None else None) or default_max_tokens
    if model.takes_budget:
        return _with_budget(model, wanted, limit)
    return _adaptive(model, _level(wanted), limit)


def _with_budget(model: Claude, wanted: ReasoningEffort | None, limit: int | None) -> ThinkingPlan:
    budget = wanted.budget if isinstance(wanted, ReasoningBudget) else BUDGETS.get(wanted or "", 0)
    if budget <= 0:
        return ThinkingPlan(max_tokens=limit or min(DEFAULT_MAX_TOKENS, model.max_output))
    most = limit or model.max_output
    # Thinking counts towards the limit, so a part of the limit is left for the answer.
    budget = min(max(budget, MIN_BUDGET), most - MIN_BUDGET)
    if budget < MIN_BUDGET:
        return ThinkingPlan(max_tokens=most)
    thinking = {"type": "enabled", "budget_tokens": budget}
    return ThinkingPlan(max_tokens=most, thinking=thinking, replay=True)


def _adaptive(model: Claude, level: str | None, limit: int | None) -> ThinkingPlan:
    if level == "none" and model.always_thinks:
        level = "low"
    if level == "none" or (level is None and model.known and not model.thinks_unasked):
        return ThinkingPlan(
            max_tokens=limit or min(DEFAULT_MAX_TOKENS, model.max_output),
            thinking=_off(model) if level == "none" else None,
        )
    most = model.max_output if level is not None else min(DEFAULT_MAX_TOKENS, model.max_output)
    if level is None and not model.known:
        return ThinkingPlan(max_tokens=limit or most, replay=True)
    # Newer models do not return their reasoning unless they are asked for it.
    thinking = {"type": "adaptive", "display": "summarized"}
    return ThinkingPlan(max_tokens=limit or most, thinking=thinking, effort=level, replay=True)


def _off(model: Claude) -> dict[str, Any] | None:
    if model.version < (5, 0):
        return None
    if model.family == "sonnet" and model.version >= (5, 5):
        return {"type": "between_tools"}
    return {"type": "disabled"}


def _level(wanted: ReasoningEffort | None) -> str | None:
    """The effort that is nearest to a token budget, for models that take no budget."""
    if not isinstance(wanted, ReasoningBudget):
        return wanted
    if wanted.budget <= 0:
        return "none"
    return next((level for level, most in BUDGETS.items() if wanted.budget <= most), "max")
