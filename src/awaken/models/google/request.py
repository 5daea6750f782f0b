"""Converting a request to the arguments of `generate_content_stream`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from awaken.core.inference import InferenceOverride, ReasoningBudget, ReasoningEffort
from awaken.core.llm import InferenceRequest
from awaken.core.tool import ToolDescriptor
from awaken.models.google.contents import contents_of, system_of, wire_name
from awaken.models.google.model_names import is_older, reasons
from awaken.models.settings import (
    add_extra_fields,
    extra_fields,
    tool_choice_of,
    warn_dropped,
    warn_nearest,
)

_LEVELS = {"none": "LOW", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "max": "HIGH"}
_LEVELS_OF_SOME = (
    (re.compile(r"gemini-3(\.[0-6])?-flash"), {**_LEVELS, "none": "MINIMAL"}),
    (re.compile(r"gemini-3-pro"), {**_LEVELS, "medium": "HIGH"}),
)
_BUDGETS = {"none": 0, "low": 1_024, "medium": 8_192, "high": 24_576, "max": 24_576}
_BUDGETS_OF_PRO = {**_BUDGETS, "none": 128, "max": 32_768}
"""A Pro model cannot be kept from reasoning, and may reason for longer."""


def gemini_request(
    request: InferenceRequest, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments; the request takes precedence over `defaults`.

    Raises:
        InvalidRequest: Gemini cannot take a part of the request.
    """
    config = _config(request, defaults or {})
    return {"model": request.upstream_model, "contents": contents_of(request), "config": config}


def thinking_config(model: str, effort: ReasoningEffort) -> dict[str, Any]:
    """The reasoning effort: a level, or tokens if the model has no levels or tokens were asked for.

    The thoughts are returned, unless the effort is none.
    """
    budgets = _BUDGETS_OF_PRO if "2.5-pro" in model else _BUDGETS
    if isinstance(effort, ReasoningBudget):
        budget = max(effort.budget, budgets["none"])
        return {"thinking_budget": budget, "include_thoughts": effort.budget != 0}
    shown = {"include_thoughts": True} if effort != "none" else {}
    if is_older(model, 3):
        return {"thinking_budget": budgets[effort], **shown}
    some = (levels for pattern, levels in _LEVELS_OF_SOME if pattern.search(model))
    level = next(some, _LEVELS)[effort]
    if level.lower() != effort:
        warn_nearest(model, "reasoning_effort", effort, level.lower())
    return {"thinking_level": level, **shown}


def output_schema(schema: Any) -> Any:
    """A JSON Schema for Gemini, which ignores `const`."""
    if isinstance(schema, list):
        return [output_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: output_schema(value) for name, value in schema.items()}
    if isinstance(known.get("const"), str):
        known.setdefault("enum", [known.pop("const")])
    return known


def _config(request: InferenceRequest, defaults: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        **defaults,
        # The runtime itself runs calls and continues broken streams.
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
    }
    if system := system_of(request):
        config["system_instruction"] = {"parts": system}
    if request.tools:
        declared = {"function_declarations": [_declaration(tool) for tool in request.tools]}
        config["tools"] = [*defaults.get("tools", ()), declared]
    if request.output is not None:
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = output_schema(request.output.schema)
    if request.overrides is not None:
        config.update(_override_config(request, request.overrides))
        config.update(_settings(request, request.overrides))
    return add_extra_fields(config, extra_fields(request.overrides))


_CHOICES = {"none": "NONE", "required": "ANY"}


def _settings(request: InferenceRequest, overrides: InferenceOverride) -> dict[str, Any]:
    warn_dropped(request, "parallel_tool_calls")
    config: dict[str, Any] = {}
    if overrides.seed is not None:
        config["seed"] = overrides.seed
    if overrides.stop:
        config["stop_sequences"] = list(overrides.stop)
    choice = tool_choice_of(request)
    if choice is not None:
        calling: dict[str, Any] = {"mode": _CHOICES.get(choice, "ANY")}
        if choice not in _CHOICES:
            calling["allowed_function_names"] = [wire_name(choice)]
        config["tool_config"] = {"function_calling_config": calling}
    return config


def _override_config(request: InferenceRequest, overrides: InferenceOverride) -> dict[str, Any]:
    model = request.upstream_model
    config: dict[str, Any] = {}
    if overrides.temperature is not None:
        config["temperature"] = overrides.temperature
    if overrides.top_p is not None:
        config["top_p"] = overrides.top_p
    if overrides.max_tokens is not None:
        config["max_output_tokens"] = overrides.max_tokens
    if not reasons(model):
        warn_dropped(request, "reasoning_effort")
    elif overrides.reasoning_effort is not None:
        config["thinking_config"] = thinking_config(model, overrides.reasoning_effort)
    return config


def _declaration(tool: ToolDescriptor) -> dict[str, Any]:
    return {
        "name": wire_name(tool.id),
        "description": tool.description,
        "parameters_json_schema": tool.parameters,
    }
