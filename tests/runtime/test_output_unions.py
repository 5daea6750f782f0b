"""Unions as the type of answers: which are read, which are refused, and what a model is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal, Optional, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from awaken import Agent
from awaken.errors import ConfigError
from awaken.runtime.output import OutputType


@dataclass
class City:
    name: str
    people: int


@dataclass
class Lake:
    name: str
    depth: float = 0.0
    salty: bool | None = None


@dataclass
class Village:
    name: str


@dataclass
class Good:
    kind: Literal["good"]
    why: str


@dataclass
class Bad:
    kind: Literal["bad"]
    why: str


class Row(TypedDict):
    row: int


class Cell(TypedDict):
    row: int
    cell: int


class Bare(msgspec.Struct):
    bare: int


class Plain(msgspec.Struct):
    plain: int


class Place(msgspec.Struct, tag=True):
    name: str


class Road(msgspec.Struct, tag=True):
    name: str


class Model(BaseModel):
    model: int


class Other(BaseModel):
    other: int


class Colour(Enum):
    RED = "red"


class Box(msgspec.Struct):
    inside: Place | Road | None = None


@dataclass
class Crate:
    inside: City | Bare


PARIS = City("Paris", 2_100_000)
PARIS_DATA = {"name": "Paris", "people": 2_100_000}


def output(type_: Any) -> OutputType:
    made = Agent("a", model="demo", output=type_).output
    assert isinstance(made, OutputType)
    return made


@pytest.mark.parametrize(
    ("type_", "data", "value"),
    [
        # objects that their fields tell apart
        (City | Bare, PARIS_DATA, PARIS),
        (City | Bare, {"bare": 1}, Bare(1)),
        (City | Village, {"name": "Paris"}, Village("Paris")),
        (Village | City, PARIS_DATA, PARIS),
        (Good | Bad, {"kind": "bad", "why": "late"}, Bad("bad", "late")),
        (Row | Cell, {"row": 1, "cell": 2}, {"row": 1, "cell": 2}),
        (Bare | Plain, {"plain": 1}, Plain(1)),
        (Model | Bare | Row, {"model": 1}, Model(model=1)),
        (Model | Bare | Row, {"bare": 1}, Bare(1)),
        (Model | Bare | Row, {"row": 1}, {"row": 1}),
        (City | dict[str, Any], {"anything": 1}, {"anything": 1}),
        # objects that say themselves what they are
        (Place | Road, {"type": "Road", "name": "A1"}, Road("A1")),
        (Place | Road | City, PARIS_DATA, PARIS),
        (Model | Other, {"other": 2}, Other(other=2)),
        # and what is no object
        (City | Bare | None, None, None),
        (City | Bare | str | list[int], "none", "none"),
        (City | Bare | str | list[int], [1], [1]),
        (City | None, None, None),
        (Optional[Row], {"row": 1}, {"row": 1}),  # noqa: UP045 - as many still write it
        (int | str | None, "x", "x"),
        (Literal["a", "b"] | int, 3, 3),
        (Colour | None, "red", Colour.RED),
        # lists
        (list[City | Bare], [PARIS_DATA, {"bare": 1}], [PARIS, Bare(1)]),
        (list[City | Bare | None], [None], [None]),
        (list[list[City | Bare]], [[{"bare": 1}]], [[Bare(1)]]),
        (list[Place | Road], [{"type": "Place", "name": "x"}], [Place("x")]),
        (list[Model | Other], [{"other": 1}], [Other(other=1)]),
    ],
)
def test_a_union_is_read(type_: Any, data: Any, value: Any) -> None:
    made = output(type_)
    assert made.read(msgspec.json.encode({"value": data}).decode()) == value
    assert made.format.schema["required"] == ["value"]


def test_a_union_inside_another_type_is_read_if_its_members_are_tagged() -> None:
    assert output(Box).read('{"inside": {"type": "Road", "name": "A1"}}') == Box(Road("A1"))


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (Crate, r"agent 'a': output `Crate` holds a union .* told apart .*tag=True, .*pydantic"),
        (dict[str, City | Lake], r"output `dict\[str, .*City \| .*Lake\]` holds a union"),
        (str | date, r"`str \| datetime.date` holds a union"),
        (City | Bare | str | date, r"`str \| datetime.date` holds a union"),
        (list[int] | list[str], r"`list\[int\] \| list\[str\]` holds a union"),
        (Village | Lake, r"what fits Lake fits Village, too: give each a field .* kind: Literal"),
        (list[Village | Lake], r"what fits Lake fits Village, too"),
        (dict[str, Any] | City, r"what fits City fits dict\[str, typing.Any\], too"),
        (City | OutputType, r"output `OutputType` cannot be read from JSON"),
    ],
)
def test_what_nobody_could_tell_apart_is_refused_with_what_to_do(type_: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        output(type_)


@pytest.mark.parametrize(
    ("type_", "text", "problem"),
    [
        (
            City | Bare,
            '{"value": {"name": "Paris"}}',
            "it is no City (people: required, but missing), no Bare (it has no field 'name')",
        ),
        (City | Bare, '{"value": 3}', "it is no City (expected an object), no Bare"),
        (City | Bare, "{}", "value: required, but missing"),
        (list[City | Bare], '{"value": [{"bare": 1}, {"bare": "x"}]}', "item 1: it is no City"),
        (list[City | Bare], '{"value": {"bare": 1}}', "expected a list"),
        (City | Bare | int, '{"value": "x"}', "expected `int`, got `str`"),
    ],
)
def test_what_does_not_fit_is_told_for_every_member(type_: Any, text: str, problem: str) -> None:
    assert problem in (output(type_).problem(text) or "it fits")


@pytest.mark.parametrize(
    ("type_", "of"),
    [
        (City | None, lambda schema: schema["properties"]["value"]),
        (Lake, lambda schema: schema["properties"]["salty"]),
        (list[int | None], lambda schema: schema["properties"]["value"]["items"]),
    ],
)
def test_a_model_is_told_where_it_may_say_null(type_: Any, of: Callable[[Any], Any]) -> None:
    """It would have to invent a value otherwise, where its provider keeps it to the schema."""
    assert {"type": "null"} in of(output(type_).format.schema)["anyOf"]
