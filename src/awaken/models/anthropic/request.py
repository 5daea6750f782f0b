"""Converting a request to the arguments of the SDK's `messages.create`. Pure: nothing is sent.

These include the parameters for the length of an answer, and for the reasoning before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from awaken.codec import dumps_text
from awaken.core.inference import InferenceOverride, OutputFormat, ReasoningBudget, ReasoningEffort
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role, Thinking
from awaken.core.tool import ToolDescriptor
from awaken.models.anthropic.messages import (
    AnthropicConversation,
    BlockParam,
    system_block,
    thinking_block,
)
from awaken.models.anthropic.model_names import Claude, Platform, claude
from awaken.models.anthropic.schema import strict_schema
from awaken.models.settings import (
    add_extra_fields,
    drop_unsupported,
    extra_fields,
    tool_choice_of,
    warn_dropped,
)
from awaken.models.wire import original_names, wire_name

CACHED = {"type": "ephemeral"}
BINDING_BETA = "thinking-binding-controls-2026-08-01"

# The API's current version has no sampling parameters and on Bedrock no older models.
_OLD_VERSION = {
    "anthropic": "2023-06-01",
    "bedrock": "bedrock-2023-05-31",
    "vertex": "vertex-2023-10-16",
}


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments for the SDK, and the tools whose names had to be changed."""

    options: dict[str, Any]
    names: dict[str, str]

    @property
    def may_pause(self) -> bool:
        """Whether the provider has work of its own in this request, in which it may pause."""
        own = {"mcp_servers", "context_management"} & self.options.get("extra_body", {}).keys()
        return bool(own) or any(
            "input_schema" not in tool for tool in self.options.get("tools", ())
        )


def prepare(
    request: InferenceRequest,
    *,
    platform: Platform = "anthropic",
    max_tokens: int | None = None,
    betas: Sequence[str] = (),
    extra_body: Mapping[str, Any] | None = None,
) -> PreparedRequest:
    """The arguments for `request`.

    Args:
        max_tokens: for requests without a limit.
        betas: beta features to switch on in every request.
        extra_body: further fields of every request; its `tools` are added to those of `request`.

    Raises:
        InvalidRequest: the API cannot take a part of it.
    """
    model = claude(request.upstream_model)
    if not model.reasons:
        request = drop_unsupported(request, ("reasoning_effort",))
    plan = _fit_plan(plan_of(model, request.overrides, max_tokens), request, model)
    request = drop_unsupported(
        request,
        ("seed", *_unsent_sampling(request.overrides, 0 if plan.thinks else model.sampling)),
        () if model.takes_forced_calls else ("forced_tool_choice",),
    )
    talk = AnthropicConversation(
        request.upstream_model,
        replay=plan.replay,
        system_role=model.takes_system_messages and platform == "anthropic",
    )
    talk.add_all(request.messages)
    system = _system(request)
    extra = add_extra_fields(dict(extra_body or {}), extra_fields(request.overrides))
    tools = [_tool(tool) for tool in request.tools] + [
        dict(tool) for tool in extra.pop("tools", ())
    ]
    if request.enable_prompt_cache:
        _mark_cached(tools, system or talk.system, talk.stable)
    thinking, needed = _thinking_parameter(plan, talk.replayed and model.binds_thinking)
    output, told = _output(request.output, plan.effort)
    options: dict[str, Any] = {
        "model": request.upstream_model,
        "max_tokens": plan.max_tokens,
        "messages": talk.messages,
        "stream": True,
    }
    parts = {
        "system": [*system, *talk.system, *told],
        "tools": tools,
        "thinking": thinking,
        "output_config": output,
        **_settings(request),
        **_extra_parameters(
            request.overrides, model, platform, [*betas, *needed] if needed else (), extra
        ),
    }
    options.update((name, part) for name, part in parts.items() if part)
    return PreparedRequest(options=options, names=original_names(request.tools))


def _unsent_sampling(overrides: InferenceOverride | None, most: int) -> tuple[str, ...]:
    """The sampling parameters that are not sent, if a request may have at most so many."""
    if most == 0:
        return ("temperature", "top_p")
    both = overrides is not None and overrides.temperature is not None
    return ("top_p",) if both and most == 1 else ()


def _system(request: InferenceRequest) -> list[BlockParam]:
    blocks = (
        system_block(block, request.upstream_model, f"system[{index}]")
        for index, block in enumerate(request.system)
    )
    return [block for block in blocks if block is not None]


def _tool(tool: ToolDescriptor) -> BlockParam:
    schema = tool.parameters if isinstance(tool.parameters, dict) else {}
    described = {"description": tool.description} if tool.description else {}
    return {
        "name": wire_name(tool.id),
        **described,
        "input_schema": schema if "type" in schema else {"type": "object", **schema},
    }


def _thinking_parameter(
    plan: ThinkingPlan, bound: bool
) -> tuple[dict[str, Any] | None, Sequence[str]]:
    """The thinking parameter, and the beta features that it needs."""
    if not bound or plan.thinking is None:
        return plan.thinking, ()
    # The context may change between two requests: reasoning that no longer fits is dropped.
    binding = {"prefix_mismatch_behavior": "drop_block"}
    return {**plan.thinking, "block_binding": binding}, (BINDING_BETA,)


def _mark_cached(
    tools: list[BlockParam], system: list[BlockParam], stable: list[BlockParam]
) -> None:
    """Set the cache marks, of which there may be four.

    They stand at the end of the tools and of the system prompt, which rarely change, and at the
    ends of the last two user messages: the request before has cached up to the earlier one.
    """
    for block in (*tools[-1:], *system[-1:], *stable[-2:]):
        block["cache_control"] = CACHED


def _output(
    format: OutputFormat | None, effort: str | None
) -> tuple[dict[str, Any], Sequence[BlockParam]]:
    """The output parameters, and instructions for what they cannot express."""
    output: dict[str, Any] = {"effort": effort} if effort else {}
    if format is None:
        return output, ()
    schema = strict_schema(format.schema)
    if schema is None:
        text = (
            "Answer with nothing but JSON that fits this JSON Schema, without a code fence:\n"
            f"{dumps_text(format.schema)}"
        )
        return output, ({"type": "text", "text": text},)
    if format.description and "description" not in schema:
        schema["description"] = format.description
    return {**output, "format": {"type": "json_schema", "schema": schema}}, ()


_CHOICES = {"none": "none", "required": "any"}


def _settings(request: InferenceRequest) -> dict[str, Any]:
    """Stop sequences and the choice of tools."""
    overrides = request.overrides
    if overrides is None:
        return {}
    choice = tool_choice_of(request)
    chosen: dict[str, Any] = {}
    if choice is not None:
        kind = _CHOICES.get(choice)
        chosen = {"type": kind} if kind else {"type": "tool", "name": wire_name(choice)}
    if overrides.parallel_tool_calls is False and request.tools and choice != "none":
        chosen = {"type": "auto", **chosen, "disable_parallel_tool_use": True}
    return {"stop_sequences": list(overrides.stop or ()), "tool_choice": chosen}


def _extra_parameters(
    overrides: InferenceOverride | None,
    model: Claude,
    platform: Platform,
    betas: Sequence[str],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Headers and fields for which the SDK has no arguments."""
    body: dict[str, Any] = {}
    headers: dict[str, str] = {}
    if overrides is not None and overrides.temperature is not None:
        body["temperature"] = overrides.temperature
    if overrides is not None and overrides.top_p is not None:
        body["top_p"] = overrides.top_p
    if body or (platform == "bedrock" and model.version < (4, 7)):
        if platform == "anthropic":
            headers["anthropic-version"] = _OLD_VERSION[platform]
        else:
            body["anthropic_version"] = _OLD_VERSION[platform]
    if betas:
        headers["anthropic-beta"] = ",".join(dict.fromkeys(betas))
    return {"extra_body": {**body, **extra}, "extra_headers": headers}


# -- the length of an answer, and the reasoning before it -------------------------------------


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


def _fit_plan(plan: ThinkingPlan, request: InferenceRequest, model: Claude) -> ThinkingPlan:
    """The plan, without thinking if the model would refuse it.

    A model with a token budget continues its reasoning after its calls, and needs the beginning of
    it. If the calls were made by another model, or without reasoning, it cannot reason before the
    next turn. Most models cannot reason before a call that they are forced to.
    """
    if not plan.thinks:
        return plan
    forced = tool_choice_of(request) not in (None, "none") and not model.forced_while_thinking
    if forced:
        warn_dropped(request, "reasoning_effort")
    blind = model.takes_budget and _is_missing_reasoning(request.messages)
    return ThinkingPlan(max_tokens=plan.max_tokens) if forced or blind else plan


def _is_missing_reasoning(messages: Sequence[Message]) -> bool:
    for message in reversed(messages):
        if message.role is Role.USER:
            return False
        if message.role is Role.ASSISTANT:
            first = message.content[0] if message.content else None
            began = isinstance(first, Thinking) and thinking_block(first) is not None
            return bool(message.tool_calls) and not began
    return False
