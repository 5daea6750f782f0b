"""However a value is wrong, and whatever its schema asks for, the check of it has a bound."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from awaken.core.tool import ToolError
from awaken.tool import validate_against_schema

STRINGS = {"type": "array", "items": {"type": "string"}}


def problem(schema: Any, value: Any) -> str:
    with pytest.raises(ToolError) as caught:
        validate_against_schema(schema, value)
    return caught.value.message


MEASURED = """
import resource
from awaken.core.tool import ToolError
from awaken.tool import validate_against_schema

def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

resource.setrlimit(resource.RLIMIT_CPU, (8, 8))
validate_against_schema({"type": "string"}, "x")
value = {"a": [1] * 1_000_000}
before = megabytes()
try:
    validate_against_schema(%r, value)
except ToolError as error:
    print(len(error.message), megabytes() - before)
"""


@pytest.mark.parametrize(
    "schema",
    [STRINGS, {"anyOf": [STRINGS, {"type": "null"}]}, {"oneOf": [STRINGS, {"maxItems": 0}]}],
    ids=["plain", "optional", "one of two"],
)
def test_a_million_wrong_items_take_neither_seconds_nor_memory(schema: Any) -> None:
    code = MEASURED % ({"properties": {"a": schema}},)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    length, megabytes = map(int, found.stdout.split())
    assert length < 1_000
    assert megabytes < 200, "all violations were made: they take 1,500 MB"


def test_the_first_fault_of_a_large_value_is_told_with_its_place() -> None:
    wrong = {"a": ["x"] * 50_000 + [1] * 50_000}
    assert problem({"properties": {"a": STRINGS}}, wrong) == ('a[50000]: 1 is not of type "string"')


def test_a_small_value_that_fits_no_alternative_is_told_why() -> None:
    assert "is not valid under any of" in problem({"anyOf": [STRINGS, {"type": "null"}]}, [1])


UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}


@pytest.mark.parametrize(
    "items",
    [
        [10**20 + n for n in range(20_000)],
        [2**62 + n for n in range(20_000)],
        [(2**61 - 1) * n for n in range(20_000)],
    ],
    ids=["beyond 64 bits", "equal as floats", "equal as Python hashes"],
)
def test_large_integers_are_compared_in_linear_time(items: list[int]) -> None:
    validate_against_schema(UNIQUE, items)
    assert "has an item twice" in problem(UNIQUE, [*items, items[7]])


def test_lists_in_lists_are_not_compared_at_every_level_without_end() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    schema: Any = {
        "$defs": {"a": {"uniqueItems": True, "items": {"$ref": "#/$defs/a"}}},
        "$ref": "#/$defs/a",
    }
    validate_against_schema(schema, [deep, [deep]])
    assert ": send fewer" in problem(schema, [[[deep] * 5, n] for n in range(3_000)])


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ([1, True, "1", None, "null", [1], {"a": 1}], True),
        ([1, 1.0], False),
        ([0.5, 0.25], True),
        ([{"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}], False),
        ([["a", "b"], ["a,b"], ['a","b']], True),
        ([{}, []], True),
        ("aa", True),
    ],
)
def test_items_are_unique_as_json_schema_says(items: Any, is_unique: bool) -> None:
    schema = {"uniqueItems": True}
    if is_unique:
        validate_against_schema(schema, items)
    else:
        assert "has an item twice" in problem(schema, items)
    validate_against_schema({"uniqueItems": False}, items)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


BROKEN: dict[str, Any] = {
    "each level is checked twice as often": nested(22),
    "compiled expressions fill the memory": {
        "allOf": [{"pattern": f"(a{{0,500}}){{0,100}}{n}"} for n in range(300)]
    },
    "names": {"patternProperties": {f"(a{{0,500}}){{0,100}}{n}": {} for n in range(300)}},
    "not a boolean": {"uniqueItems": "yes"},
}


@pytest.mark.parametrize("schema", BROKEN.values(), ids=BROKEN)
def test_a_schema_that_costs_too_much_by_itself_is_refused(schema: Any) -> None:
    assert "the tool's schema is broken" in problem(schema, {"a": 1})


OLDER: dict[str, Any] = {
    "$id": "https://example.com/older",
    "$schema": "http://json-schema.org/draft-07/schema#",
    "items": [{}],
    "additionalItems": {"pattern": "(a{0,500}){0,100}x"},
}
# They are made one at a time: together they would take much memory in each process of the tests.
TOO_COSTLY: dict[str, Callable[[], tuple[Any, Any]]] = {
    "a large expression": lambda: ({"pattern": "(a{0,500}){0,100}x"}, "a" * 20_000),
    "a large expression in a part of an older draft": lambda: (
        {"items": OLDER},
        [[1, "a" * 20_000]],
    ),
    "an expression that tries again": lambda: (
        {"items": {"pattern": "^(?:(?=a)a|aa)+$|(?=a)a*b"}},
        ["a" * 12 + "b"] * 40_000,
    ),
    "expressions for names": lambda: (
        {"patternProperties": {r"(?=(a+))\1x": {}}},
        {"a" * 20_000: 1},
    ),
    "a large enumeration": lambda: (
        {"items": {"enum": [[n] for n in range(2_000)]}},
        [[1_999]] * 20_000,
    ),
    "an enumeration of fractions": lambda: (
        {"items": {"enum": [n + 0.5 for n in range(300)]}},
        [299.5] * 40_000,
    ),
    "an enumeration of all kinds": lambda: (
        {"items": {"enum": [*range(4_000), *map(str, range(4_000))]}},
        ["3999"] * 80_000,
    ),
    "names that depend on others": lambda: (
        {"items": {"dependentRequired": {f"p{n}": ["b"] for n in range(10_000)}}},
        [{"a": 1}] * 40_000,
    ),
    "fractions that are divided": lambda: ({"items": {"multipleOf": 1e-300}}, [1e300] * 200_000),
    "bounds of fractions": lambda: (
        {"items": {"allOf": [{"minimum": 0.5}] * 9_000}},
        [12.5] * 500,
    ),
    "many subschemas": lambda: ({"items": {"allOf": [{"type": "integer"}] * 9_000}}, [1] * 10_000),
}


@pytest.mark.parametrize("make", TOO_COSTLY.values(), ids=TOO_COSTLY)
def test_what_would_take_long_is_refused_with_a_next_step(
    make: Callable[[], tuple[Any, Any]],
) -> None:
    schema, value = make()
    assert ": send " in problem(schema, value)


def test_usual_schemas_take_large_values() -> None:
    schema = {
        "properties": {
            "path": {"pattern": "^/srv/[a-z]{1,64}$"},
            "text": {"pattern": "^[A-Za-z0-9+/=]*$"},
            "kind": {"enum": [f"kind-{n}" for n in range(500)]},
            "password": {"pattern": r"^(?=.*\d)(?=.*[a-z]).{8,}$"},
            "level": {"enum": [1, 2.5, "high", None]},
            "prices": {"items": {"multipleOf": 0.01, "minimum": 0.01, "maximum": 1e6}},
            "rows": {"items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
        }
    }
    validate_against_schema(
        schema,
        {
            "path": "/srv/notes",
            "text": "A" * 1_900_000,
            "kind": "kind-499",
            "password": "correct horse 1",
            "level": 2.5,
            "prices": [12.34] * 40_000,
            "rows": list(range(200_000)),
        },
    )
    assert "does not match" in problem(schema, {"password": "short"})
