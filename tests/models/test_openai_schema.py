"""JSON Schemas for OpenAI's strict mode."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from awaken.models.openai.schema import object_schema, strict_schema

WORD = {"type": "string"}


def closed(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_objects_are_closed_all_the_way_down() -> None:
    schema = {
        "type": "object",
        "properties": {
            "people": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": WORD}, "required": ["name"]},
            }
        },
        "required": ["people"],
    }
    assert strict_schema(schema) == closed(
        people={"type": "array", "items": closed(name=WORD)},
    )


def test_what_may_be_absent_is_required_if_it_may_be_null() -> None:
    nickname = {"anyOf": [WORD, {"type": "null"}]}
    schema = {"type": "object", "properties": {"nickname": {**nickname, "default": None}}}
    assert strict_schema(schema) == closed(nickname=nickname)


def test_a_default_is_left_to_the_model() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}
    assert strict_schema(schema) == closed(size={"type": "integer"})


def test_a_root_behind_a_reference_is_opened_up() -> None:
    class Point(msgspec.Struct):
        x: int
        label: str | None = None

    strict = strict_schema(msgspec.json.schema(Point))
    assert strict is not None
    assert strict["type"] == "object"
    assert strict["required"] == ["x", "label"]
    assert strict["$defs"]["Point"]["additionalProperties"] is False


def test_nothing_stands_beside_a_reference() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "the a"}},
        "required": ["a"],
        "$defs": {"A": closed(b=WORD)},
    }
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["properties"] == {"a": {"$ref": "#/$defs/A"}}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array", "items": WORD}, id="no object"),
        pytest.param({"type": "object"}, id="any keys"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "object"}}}, id="any keys within"
        ),
        pytest.param({**closed(a=WORD), "additionalProperties": WORD}, id="more keys"),
        pytest.param({"type": "object", "properties": {"a": WORD}}, id="absent, never null"),
        pytest.param(closed(a={"oneOf": [WORD, {"type": "null"}]}), id="oneOf"),
        pytest.param(closed(a={"type": "string", "minLength": 2}), id="unknown keyword"),
        pytest.param(closed(a={"type": "string", "format": "uri"}), id="unknown format"),
        pytest.param(closed(a=True), id="anything"),
        pytest.param({"anyOf": [closed(a=WORD), closed(b=WORD)]}, id="root of many"),
    ],
)
def test_what_strict_mode_cannot_say_is_not_strict(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_strict_schemas_stay_as_they_are() -> None:
    schema = closed(a={"type": "string", "enum": ["x", "y"], "description": "one of two"})
    assert strict_schema(schema) == schema


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, True])
def test_parameters_are_always_an_object_with_properties(schema: object) -> None:
    assert object_schema(schema) == {"type": "object", "properties": {}}
