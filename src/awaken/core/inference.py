"""Values of requests to a model, and of its answers.

A request has parameters, a context window policy, and perhaps a format for structured output. An
answer has its content, the reason why the model stopped, and its token usage.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, Self, get_args

import msgspec

from awaken.core.message import ContentBlock, Text, Thinking, ToolCall
from awaken.core.value import Value, nullable


class StopReason(StrEnum):
    """Why the model stopped."""

    END_TURN = "EndTurn"
    MAX_TOKENS = "MaxTokens"
    TOOL_USE = "ToolUse"
    STOP_SEQUENCE = "StopSequence"


# A constant, because on Python 3.11 reading an enum member costs as much as a function call.
_MAX_TOKENS, _END_TURN = StopReason.MAX_TOKENS, StopReason.END_TURN


class TokenUsage(Value, frozen=True, kw_only=True):
    """The tokens of a model call, as reported by the provider; `None` means not reported."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    thinking_tokens: int | None = None


class StreamResult(Value, frozen=True, kw_only=True):
    """The complete answer of a model."""

    content: tuple[ContentBlock, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage | None = None
    stop_reason: StopReason | None = None
    has_incomplete_tool_calls: bool = False

    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def needs_tools(self) -> bool:
        return bool(self.tool_calls)

    @property
    def is_empty(self) -> bool:
        """Whether a whole answer holds neither text nor calls, at most reasoning."""
        if self.tool_calls or self.stop_reason is not _END_TURN or self.has_incomplete_tool_calls:
            return False
        for block in self.content:
            if isinstance(block, Text):
                if block.text and not block.text.isspace():
                    return False
            elif not isinstance(block, Thinking):
                return False
        return True

    @property
    def needs_truncation_recovery(self) -> bool:
        return self.stop_reason is _MAX_TOKENS and (
            self.has_incomplete_tool_calls or (not self.tool_calls and bool(self.text()))
        )


class InferenceError(Value, frozen=True, kw_only=True):
    """The error of a failed model call, as hooks see it."""

    type: str
    message: str
    error_class: str | None = None


class LLMResponse(Value, frozen=True, kw_only=True):
    """The answer of a model call or its error: exactly one of the two is set."""

    success: StreamResult | None = None
    error: InferenceError | None = None


class ReasoningBudget(Value, frozen=True, kw_only=True):
    """Reasoning effort as a number of tokens."""

    budget: int


EffortWord = Literal["none", "low", "medium", "high", "max"]
ReasoningEffort = EffortWord | ReasoningBudget
_EFFORTS = ", ".join(repr(word) for word in get_args(EffortWord))


def effort_problem(effort: object) -> str | None:
    """The error text if a reasoning effort is invalid, or `None`."""
    if isinstance(effort, ReasoningBudget):
        if _is_number(effort.budget, whole=True) and effort.budget >= 0:
            return None
        return (
            f"the budget of reasoning_effort is a whole number of 0 or more, not {effort.budget!r}"
        )
    if effort is None or effort in get_args(EffortWord):
        return None
    return f"reasoning_effort is {_EFFORTS} or a ReasoningBudget, not {effort!r}"


def _is_number(value: Any, *, whole: bool = False) -> bool:
    kinds = int if whole else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool):
        return False
    # `isfinite` would fail on an integer that no float can hold.
    return bool(abs(value) <= sys.float_info.max)


class ModelSettings(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of requests to a model; `None` leaves a parameter as it is. A parameter set for a
    step replaces that of the agent, and one set for the run replaces both.

    `tool_choice` is `auto`, `none`, `required`, or the id of a tool that the model has to call;
    after one forced call in a run it is `auto` again. `timeout` is how many seconds a model may be
    silent. `extra` are further fields of the provider's request.
    """

    temperature: float | None = nullable()
    max_tokens: int | None = nullable()
    top_p: float | None = nullable()
    reasoning_effort: ReasoningEffort | None = nullable()
    seed: int | None = None
    stop: Sequence[str] | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    timeout: float | None = None
    extra: dict[str, Any] | None = None

    def merge(self, other: ModelSettings) -> Self:
        """These settings with those that `other` sets replaced."""
        changes = {
            name: value
            for name in other.__struct_fields__
            if (value := getattr(other, name)) is not None
        }
        return msgspec.structs.replace(self, **changes) if changes else self

    def is_empty(self) -> bool:
        return all(getattr(self, name) is None for name in self.__struct_fields__)

    def problem(self) -> str | None:
        """The error text if the parameters are invalid, or `None`."""
        heat, limit, share = self.temperature, self.max_tokens, self.top_p
        if heat is not None and not (_is_number(heat) and heat >= 0):
            return f"temperature is a number of 0 or more, not {heat!r}"
        if limit is not None and not (_is_number(limit, whole=True) and limit >= 1):
            return f"max_tokens is a whole number of 1 or more, not {limit!r}"
        if share is not None and not (_is_number(share) and 0 <= share <= 1):
            return f"top_p is a number from 0 to 1, not {share!r}"
        return effort_problem(self.reasoning_effort) or self._other_problem()

    def _other_problem(self) -> str | None:
        stop: Any = self.stop
        choice: Any = self.tool_choice
        seed, wait = self.seed, self.timeout
        if seed is not None and not _is_number(seed, whole=True):
            return f"seed is a whole number, not {seed!r}"
        if stop is not None and not (
            isinstance(stop, list | tuple) and all(isinstance(one, str) and one for one in stop)
        ):
            return f"stop is a list of texts that are not empty, not {stop!r}"
        if choice is not None and not (isinstance(choice, str) and choice.strip()):
            return f"tool_choice is 'auto', 'none', 'required' or a tool's id, not {choice!r}"
        if self.parallel_tool_calls not in (None, True, False):
            return f"parallel_tool_calls is True or False, not {self.parallel_tool_calls!r}"
        if wait is not None and not (_is_number(wait) and wait > 0):
            return f"timeout is a number of seconds above 0, not {wait!r}"
        if self.extra is not None and not isinstance(self.extra, dict):
            return f"extra is a dict of request fields, not {self.extra!r}"
        return None


class InferenceOverride(ModelSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for one run or one step, which may also name another model of the provider."""

    upstream_model: str | None = nullable()

    def problem(self) -> str | None:
        model = self.upstream_model
        if model is not None and not isinstance(model, str):
            return f"upstream_model is the name of a model, not {model!r}"
        return super().problem()


class CompactionMode(StrEnum):
    """How many recent messages a summary leaves as they are."""

    KEEP_RECENT_RAW_SUFFIX = "keep_recent_raw_suffix"
    COMPACT_TO_SAFE_FRONTIER = "compact_to_safe_frontier"


class ContextWindowPolicy(Value, frozen=True, kw_only=True):
    """How much of a thread a request to the model includes.

    A request takes at most `max_context_tokens` minus `max_output_tokens`; both are lowered to the
    model's own limits. The last `min_recent_messages` are always included. Above
    `autocompact_threshold` tokens, a background request summarises the messages before the user's
    last one; later requests include the summary instead. The thread itself keeps all messages.
    With `max_messages`, a run reads only that many of the last messages when it starts.
    """

    max_context_tokens: int
    max_output_tokens: int
    min_recent_messages: int
    enable_prompt_cache: bool
    autocompact_threshold: int | None = None
    compaction_mode: CompactionMode = msgspec.field(
        default_factory=lambda: CompactionMode.KEEP_RECENT_RAW_SUFFIX
    )
    compaction_raw_suffix_messages: int = msgspec.field(default_factory=lambda: 2)
    max_messages: int | None = None

    @classmethod
    def default(cls) -> Self:
        return cls(
            max_context_tokens=200_000,
            max_output_tokens=16_384,
            min_recent_messages=10,
            enable_prompt_cache=True,
        )

    @classmethod
    def of(
        cls,
        max_context_tokens: int = 200_000,
        *,
        compact_at: float | None = None,
        max_output_tokens: int | None = None,
        min_recent_messages: int = 10,
        enable_prompt_cache: bool = True,
        max_messages: int | None = None,
    ) -> Self:
        """A policy with defaults that suit most agents.

        Args:
            compact_at: the share of the room for requests at which old messages are summarised;
                by default they never are.
            max_output_tokens: the room reserved for an answer; by default 16,384 tokens, or a
                quarter of a smaller window.

        Raises:
            ValueError: the share is not between 0 and 1.
        """
        if compact_at is not None and not 0 < compact_at <= 1:
            raise ValueError(f"compact_at is a share between 0 and 1, not {compact_at}")
        output = max_output_tokens
        if output is None:
            output = min(16_384, max_context_tokens // 4)
        threshold = None if compact_at is None else int((max_context_tokens - output) * compact_at)
        return cls(
            max_context_tokens=max_context_tokens,
            max_output_tokens=output,
            min_recent_messages=min_recent_messages,
            enable_prompt_cache=enable_prompt_cache,
            autocompact_threshold=threshold or None,
            max_messages=max_messages,
        )


class OutputFormat(Value, frozen=True, kw_only=True):
    """The format of an agent's final answers: a JSON Schema of an object, with a name."""

    name: str
    schema: dict[str, Any]
    description: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.name):
            raise ValueError(
                f"output name {self.name!r} must be 1 to 64 letters, digits, _ and - only"
            )
        if self.schema.get("type") != "object":
            raise ValueError(
                f"output {self.name!r} is not an object: models write objects only, so make it a "
                "property of an object"
            )
