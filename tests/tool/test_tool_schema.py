from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.schema import compile_schema
from awaken.core.tool import ToolError, ToolErrorKind
from awaken.errors import ConfigError
from awaken.tool import generate_tool_schema, sanitize_for_llm, validate_against_schema


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(msgspec.Struct):
    """Somewhere."""

    city: str
    zip_code: str | None = None


@dataclasses.dataclass
class Trip:
    start: Place
    stops: list[Place] = dataclasses.field(default_factory=list)


class Filters(TypedDict):
    tags: list[str]


class Point(NamedTuple):
    x: float
    y: float


class Node(msgspec.Struct):
    children: list[Node] = []


class Left(msgspec.Struct):
    right: Right | None = None


class Right(msgspec.Struct):
    left: Left | None = None


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


PLACE = {
    "title": "Place",
    "description": "Somewhere.",
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip_code": {"type": "string", "default": None}},
    "required": ["city"],
}


# -- generating -------------------------------------------------------------------------------


def test_nested_types_are_inlined_and_no_definitions_are_left() -> None:
    schema = generate_tool_schema(Trip)
    assert schema["properties"]["start"] == PLACE
    assert schema["properties"]["stops"]["items"] == PLACE
    assert not {"$schema", "$defs", "definitions", "$ref"} & schema.keys()


def test_optional_fields_lose_any_of_and_arrays_have_items() -> None:
    """01/C-17"""
    schema = generate_tool_schema(msgspec.defstruct("T", [("b", list), ("a", int | None, None)]))
    assert schema["properties"]["a"] == {"type": "integer", "default": None}
    assert schema["properties"]["b"] == {"type": "array", "items": {}}


def test_what_is_said_where_a_type_is_used_wins_over_what_the_type_says() -> None:
    schema = generate_tool_schema(Annotated[Place, msgspec.Meta(description="where to go")])
    assert schema == PLACE | {"description": "where to go"}


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        (Unit, {"title": "Unit", "enum": ["c", "f"]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Any, {}),
    ],
)
def test_common_types_have_the_schema_one_expects(type_: Any, schema: dict[str, Any]) -> None:
    expected = schema | ({"properties": {}} if schema.get("type") == "object" else {})
    assert generate_tool_schema(type_) == expected


def test_typed_dicts_and_named_tuples_are_described() -> None:
    assert generate_tool_schema(Filters)["properties"]["tags"]["items"] == {"type": "string"}
    assert generate_tool_schema(Point)["prefixItems"] == [{"type": "number"}] * 2


def test_a_tagged_union_keeps_its_tags_and_loses_the_map_of_definitions() -> None:
    schema = generate_tool_schema(Cat | Dog)
    assert [branch["properties"]["type"] for branch in schema["anyOf"]] == [
        {"enum": ["Cat"]},
        {"enum": ["Dog"]},
    ]
    assert "discriminator" not in schema


@pytest.mark.parametrize("type_", [Node, Left, list[Node]])
def test_a_type_that_contains_itself_is_refused_by_name(type_: Any) -> None:
    with pytest.raises(ConfigError, match=r"type '(Node|Left)' contains itself.*dict\[str, Any\]"):
        generate_tool_schema(type_)


def test_a_type_used_twice_is_not_mistaken_for_one_that_contains_itself() -> None:
    assert generate_tool_schema(tuple[Place, Place])["prefixItems"] == [PLACE, PLACE]


@pytest.mark.parametrize("type_", [object, complex, type, Trip | Place])
def test_a_type_without_a_json_form_is_refused_with_a_remedy(type_: Any) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read from JSON.*: take str"):
        generate_tool_schema(type_)


# -- sanitising -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, {"type": "string"}),
        (
            {"anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}], "title": "T"},
            {"type": "string", "description": "inner", "title": "T"},
        ),
        (
            {
                "anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}],
                "description": "outer",
            },
            {"type": "string", "description": "outer"},
        ),
        ({"type": ["integer", "null"]}, {"type": "integer"}),
        ({"type": ["null", "integer"]}, {"type": "integer"}),
        ({"type": ["integer", "string", "null"]}, {"type": ["integer", "string", "null"]}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": ["array", "null"]}, {"type": "array", "items": {}}),
        ({"const": 1}, {"enum": [1]}),
        ({"const": 1, "enum": [1, 2]}, {"enum": [1]}),
        ({"const": 3, "enum": [1, 2]}, False),
        ({"const": True, "enum": [1]}, False),
        ({"properties": {"a": {"const": 3, "enum": []}}}, {"properties": {"a": False}}),
        (True, True),
        (None, None),
    ],
)
def test_each_rule_of_sanitising(schema: Any, plain: Any) -> None:
    """01/C-17"""
    assert sanitize_for_llm(schema) == plain


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "a"}, {"type": "b"}]},
        {"anyOf": [{"type": "a"}, {"type": "b"}, {"type": "null"}]},
        {"anyOf": [{"type": "null"}]},
        {"anyOf": [False, {"type": "null"}]},
    ],
)
def test_other_unions_are_left_as_they_are(schema: Any) -> None:
    assert sanitize_for_llm(schema) == schema


def test_rules_apply_at_every_depth() -> None:
    null = {"type": "null"}
    schema = {
        "properties": {"a": {"anyOf": [{"type": "array"}, null]}},
        "items": {"anyOf": [{"anyOf": [{"const": 1}, null]}, null]},
        "additionalProperties": {"type": ["object", "null"]},
        "oneOf": [{"type": "array"}],
    }
    assert sanitize_for_llm(schema) == {
        "properties": {"a": {"type": "array", "items": {}}},
        "items": {"enum": [1]},
        "additionalProperties": {"type": "object", "properties": {}},
        "oneOf": [{"type": "array", "items": {}}],
    }


def test_properties_named_like_keywords_and_plain_values_are_not_touched() -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "const": {"type": "string"}},
        "default": {"type": "array"},
        "enum": [{"const": 1}],
    }
    assert sanitize_for_llm(schema) == schema


def test_the_given_schema_is_not_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"const": 1}}}
    before = msgspec.json.encode(schema)
    sanitize_for_llm(schema)
    assert msgspec.json.encode(schema) == before


_types = st.sampled_from(["array", "object", "string", "null"])
_schemas = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": _types | st.lists(_types, min_size=1, max_size=3),
            "const": st.sampled_from([1, True, None]),
            "enum": st.lists(st.sampled_from([1, 2, True, None])),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": _types,
            "const": st.just(1),
            "enum": st.just([1, 2]),
            "anyOf": st.lists(inner | st.just({"type": "null"}), min_size=1, max_size=3),
            "items": inner,
            "properties": st.dictionaries(st.sampled_from(["a", "anyOf", "type"]), inner),
        },
    ),
    max_leaves=8,
)


@given(_schemas)
def test_sanitising_twice_equals_once(schema: Any) -> None:
    """01/C-17"""
    once = sanitize_for_llm(schema)
    assert sanitize_for_llm(once) == once


# -- enforcing --------------------------------------------------------------------------------

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "array", "items": {"type": "integer"}},
        "place": {"type": "object", "required": ["zip"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [None, {}, True])
@pytest.mark.parametrize("args", [None, {}, {"x": 1}, "text"])
def test_a_schema_that_asks_for_nothing_fits_everything(schema: Any, args: Any) -> None:
    """01/C-17"""
    validate_against_schema(schema, args)


def test_arguments_that_fit_pass() -> None:
    validate_against_schema(CITY, {"city": "Rome", "days": [1, 2]})


def test_a_schema_with_only_required_is_enforced() -> None:
    with pytest.raises(ToolError, match="city: required, but missing"):
        validate_against_schema({"required": ["city"]}, {})


def test_all_violations_are_told_with_their_places() -> None:
    with pytest.raises(ToolError) as caught:
        validate_against_schema(CITY, {"days": [1, "x"], "place": {}, "extra": 1})
    assert caught.value.kind is ToolErrorKind.INVALID_ARGUMENTS
    parts = caught.value.message.split("; ")
    assert sorted(parts) == [
        "arguments: Additional properties are not allowed ('extra' was unexpected)",
        "city: required, but missing",
        'days[1]: "x" is not of type "integer"',
        "place.zip: required, but missing",
    ]
    assert str(caught.value).startswith("Invalid arguments: ")


def test_a_huge_wrong_value_is_quoted_in_part() -> None:
    with pytest.raises(ToolError) as caught:
        validate_against_schema(CITY, {"city": ["x" * 10_000]})
    assert len(caught.value.message) < 400
    assert 'is not of type "string"' in caught.value.message


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "nonsense"}}},
        {"type": "nonsense", "properties": {}, "required": []},
        {"properties": 3},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "https://example.invalid/schema"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"default": object()}}},
        "properties",
        [1],
    ],
)
def test_a_broken_schema_is_an_internal_error(schema: Any) -> None:
    with pytest.raises(ToolError, match="schema is broken") as caught:
        validate_against_schema(schema, {})
    assert caught.value.kind is ToolErrorKind.INTERNAL


def test_the_schema_false_refuses_everything() -> None:
    with pytest.raises(ToolError) as caught:
        validate_against_schema(False, {})
    assert caught.value.kind is ToolErrorKind.INVALID_ARGUMENTS


def test_a_schema_changed_after_its_first_use_is_enforced_as_it_is_now() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    validate_against_schema(schema, {"a": "x"})
    schema["properties"]["a"]["type"] = "integer"
    with pytest.raises(ToolError, match='"x" is not of type "integer"'):
        validate_against_schema(schema, {"a": "x"})


def test_equal_schemas_share_one_compiled_form() -> None:
    first = {"type": "object", "required": ["a"], "properties": {"a": {}}}
    second = {"properties": {"a": {}}, "required": ["a"], "type": "object"}
    assert compile_schema(first) is compile_schema(second)


def test_many_schemas_do_not_pile_up() -> None:
    oldest = compile_schema({"properties": {"a": {"maximum": -1}}})
    for n in range(1100):
        validate_against_schema({"properties": {"a": {"maximum": n}}}, {"a": 0})
    newest = compile_schema({"properties": {"a": {"maximum": 1099}}})
    assert compile_schema({"properties": {"a": {"maximum": 1099}}}) is newest
    assert compile_schema({"properties": {"a": {"maximum": -1}}}) is not oldest, "it was dropped"
    validate_against_schema(CITY, {"city": "Rome"})


def test_arguments_that_are_not_json_are_invalid() -> None:
    with pytest.raises(ToolError, match="not JSON") as caught:
        validate_against_schema(CITY, {"city": object()})
    assert caught.value.kind is ToolErrorKind.INVALID_ARGUMENTS
