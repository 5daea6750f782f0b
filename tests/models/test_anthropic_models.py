"""What is known of Claude models by their names, and how they are asked to think."""

from __future__ import annotations

from typing import Any

import pytest

from awaken.core.inference import InferenceOverride, ReasoningBudget, ReasoningEffort
from awaken.models.anthropic.model_names import Claude, abilities_of_model, claude
from awaken.models.anthropic.request import plan_of
from awaken.models.anthropic.schema import strict_schema

ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("name", "family", "version"),
    [
        ("claude-opus-5-5", "opus", (5, 5)),
        ("claude-sonnet-5", "sonnet", (5, 0)),
        ("claude-haiku-4-5-20251001", "haiku", (4, 5)),
        ("claude-opus-4-20250514", "opus", (4, 0)),
        ("claude-opus-4-1@20250805", "opus", (4, 1)),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "sonnet", (4, 5)),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1",
         "opus", (4, 6)),
        ("anthropic/claude-sonnet-4.5", "sonnet", (4, 5)),
        ("claude-3-7-sonnet-20250219", "sonnet", (3, 7)),
        ("claude-3-haiku-20240307", "haiku", (3, 0)),
        ("claude-mythos-preview", "mythos", (4, 7)),
    ],
)  # fmt: skip
def test_a_name_tells_family_and_version(name: str, family: str, version: Any) -> None:
    assert claude(name) == Claude(family=family, version=version)


def test_an_opaque_name_tells_nothing() -> None:
    assert not claude("my-deployment").known
    abilities = abilities_of_model("my-deployment", "anthropic")
    assert abilities.native_output is False
    assert abilities.context_window is None
    assert abilities.max_output_tokens is None


@pytest.mark.parametrize(
    ("name", "native", "context", "output"),
    [
        ("claude-opus-5-5", True, 1_000_000, 128_000),
        ("claude-sonnet-4-6", True, 1_000_000, 64_000),
        ("claude-haiku-4-5", True, 200_000, 64_000),
        ("claude-opus-4-1", False, 200_000, 32_000),
        ("claude-3-5-haiku-20241022", False, 200_000, 8_192),
    ],
)
def test_abilities_follow_the_generation(
    name: str, native: bool, context: int, output: int
) -> None:
    abilities = abilities_of_model(name, "anthropic")
    assert abilities.native_output is native
    assert abilities.context_window == context
    assert abilities.max_output_tokens == output
    assert abilities.input == frozenset({"image", "document"})
    assert abilities_of_model(name, "vertex").native_output is False


@pytest.mark.parametrize(
    ("name", "effort", "thinking", "level"),
    [
        # Always thinks: the least it can do stands for nothing.
        ("claude-opus-5-5", None, ADAPTIVE, None),
        ("claude-opus-5-5", "none", ADAPTIVE, "low"),
        ("claude-fable-5", "none", ADAPTIVE, "low"),
        ("claude-opus-5-5", "high", ADAPTIVE, "high"),
        # Thinks unless it is told not to.
        ("claude-opus-5", None, ADAPTIVE, None),
        ("claude-opus-5", "none", {"type": "disabled"}, None),
        ("claude-haiku-5-5", "none", {"type": "disabled"}, None),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None),
        # Thinks when it is asked to.
        ("claude-opus-4-6", None, None, None),
        ("claude-opus-4-6", "none", None, None),
        ("claude-opus-4-6", "max", ADAPTIVE, "max"),
        ("claude-opus-4-8", ReasoningBudget(budget=3_000), ADAPTIVE, "medium"),
        ("claude-opus-4-8", ReasoningBudget(budget=10**6), ADAPTIVE, "max"),
        ("claude-opus-4-8", ReasoningBudget(budget=0), None, None),
        # Thinks for as many tokens as it is given.
        ("claude-haiku-4-5", None, None, None),
        ("claude-haiku-4-5", "none", None, None),
        ("claude-haiku-4-5", "low", {"type": "enabled", "budget_tokens": 2_048}, None),
        ("claude-haiku-4-5", ReasoningBudget(budget=5_000),
         {"type": "enabled", "budget_tokens": 5_000}, None),
        ("claude-haiku-4-5", ReasoningBudget(budget=1),
         {"type": "enabled", "budget_tokens": 1_024}, None),
        ("claude-opus-4-1", "max", {"type": "enabled", "budget_tokens": 30_976}, None),
        # Nobody knows: as the newest are asked.
        ("my-deployment", None, None, None),
        ("my-deployment", "high", ADAPTIVE, "high"),
        ("my-deployment", "none", {"type": "disabled"}, None),
    ],
)  # fmt: skip
def test_effort_is_asked_for_as_the_model_takes_it(
    name: str, effort: ReasoningEffort | None, thinking: Any, level: str | None
) -> None:
    plan = plan_of(claude(name), InferenceOverride(reasoning_effort=effort))
    assert plan.thinking == thinking
    assert plan.effort == level
    if thinking and "budget_tokens" in thinking:
        assert plan.max_tokens > thinking["budget_tokens"]


def test_a_budget_leaves_room_for_the_answer() -> None:
    asked = InferenceOverride(reasoning_effort="high", max_tokens=4_096)
    plan = plan_of(claude("claude-haiku-4-5"), asked)
    assert plan.max_tokens == 4_096
    assert plan.thinking == {"type": "enabled", "budget_tokens": 3_072}


def test_where_there_is_no_room_to_think_it_does_not() -> None:
    asked = InferenceOverride(reasoning_effort="high", max_tokens=1_500)
    plan = plan_of(claude("claude-haiku-4-5"), asked)
    assert plan.thinking is None
    assert plan.max_tokens == 1_500


def test_who_thinks_may_use_all_the_model_has() -> None:
    wanted = InferenceOverride(reasoning_effort="high")
    assert plan_of(claude("claude-opus-5-5"), wanted).max_tokens == 128_000
    assert plan_of(claude("claude-opus-5-5"), None).max_tokens == 32_768


# -- schemas ------------------------------------------------------------------------------------


def test_a_schema_is_put_into_the_part_of_the_language_that_is_taken() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Person",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "description": "Years."},
            "born": {"type": "string", "format": "date"},
            "code": {"type": "string", "format": "iban", "maxLength": 34},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            "home": {"$ref": "#/$defs/Place"},
            "kind": {"oneOf": [{"const": "a"}, {"enum": ["b", None]}]},
            "nick": {"type": ["string", "null"], "default": None},
        },
        "required": ["age"],
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    assert strict_schema(schema) == {
        "type": "object",
        "title": "Person",
        "properties": {
            "age": {"type": "integer", "description": "Years.\n\n{minimum: 0}"},
            "born": {"type": "string", "format": "date"},
            "code": {"type": "string", "description": '{format: "iban", maxLength: 34}'},
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "{maxItems: 3}",
            },
            "home": {"$ref": "#/$defs/Place"},
            "kind": {"anyOf": [{"const": "a"}, {"enum": ["b", None]}]},
            "nick": {"type": ["string", "null"], "default": None},
        },
        "required": ["age"],
        "additionalProperties": False,
        "$defs": {
            "Place": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "additionalProperties": False,
            }
        },
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"enum": [{"a": 1}]},
        {"$ref": "https://example.com/schema.json"},
        {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}},
            "$defs": {
                "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
            },
        },
        {"type": "object", "properties": {"self": {"$ref": "#"}}},
    ],
    ids=["map", "any-object", "any-array", "any-item", "tuple", "object-literal", "elsewhere",
         "recursive", "recursive-root"],
)  # fmt: skip
def test_a_schema_that_means_more_is_not_bent(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None
