import dataclasses
import datetime
import subprocess
import sys
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field
from tool_context import run_tool
from typing_extensions import TypedDict

from awaken.core.tool import ToolError
from awaken.errors import ConfigError
from awaken.tool import generate_tool_schema, tool

pytestmark = pytest.mark.anyio


class City(BaseModel):
    """A city."""

    name: str = Field(min_length=2, description="in English")
    people: int | None = None


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: int = 0


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: datetime.date


class Tree(BaseModel):
    children: list["Tree"] = []


@dataclasses.dataclass
class Trip:
    start: City


class Route(TypedDict):
    stops: list[City]


class Holder(msgspec.Struct):
    city: City


CITY = {
    "title": "City",
    "description": "A city.",
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "description": "in English"},
        "people": {"type": "integer", "default": None},
    },
    "required": ["name"],
}


async def test_a_model_is_described_and_read_by_pydantic() -> None:
    @tool
    def f(city: City) -> City:
        assert isinstance(city, City)
        return city

    assert f.descriptor().parameters["properties"] == {"city": CITY}
    result = (await run_tool(f, {"city": {"name": "Rome", "people": "3"}})).result
    assert result.data == {"name": "Rome", "people": 3}


async def test_models_may_be_nested_in_other_types() -> None:
    @tool
    def f(
        many: list[City],
        named: dict[str, City],
        trip: Trip,
        route: Route,
        maybe: City | None = None,
        plain: int = 1,
    ) -> Any:
        return [
            many[0].name,
            named["a"].name,
            trip.start.name,
            route["stops"][0].name,
            maybe,
            plain,
        ]

    city = {"name": "Rome"}
    args = {"many": [city], "named": {"a": city}, "trip": {"start": city}}
    result = (await run_tool(f, args | {"route": {"stops": [city]}})).result
    assert result.data == ["Rome", "Rome", "Rome", "Rome", None, 1]
    shown = f.descriptor().parameters["properties"]
    assert shown["many"] == {"type": "array", "items": CITY}
    assert shown["maybe"] == CITY | {"default": None}


async def test_every_complaint_is_told_with_its_place() -> None:
    @tool
    def f(cities: list[City], other: City) -> None: ...

    result = (await run_tool(f, {"cities": [{"name": "x"}, {}], "other": 3})).result
    assert result.message is not None
    assert result.message.split("; ") == [
        "Invalid arguments: cities[0].name: String should have at least 2 characters",
        "cities[1].name: Field required",
        "other: Input should be an object",
    ]


async def test_unions_of_models_work_with_their_discriminator() -> None:
    @tool
    def pet(animal: Annotated[Cat | Dog, Field(discriminator="kind", description="a pet")]) -> Any:
        return type(animal).__name__

    shown = pet.descriptor().parameters["properties"]["animal"]
    assert shown["description"] == "a pet"
    assert [b["properties"]["kind"]["enum"] for b in shown["oneOf"]] == [["cat"], ["dog"]]
    assert "discriminator" not in shown
    assert (await run_tool(pet, {"animal": {"kind": "dog"}})).result.data == "Dog"


async def test_a_field_on_a_plain_type_is_enforced_and_stays_strict() -> None:
    @tool
    def f(
        n: Annotated[int, Field(ge=1, description="how many")], m: pydantic.PositiveInt = 1
    ) -> int:
        return n + m

    assert f.descriptor().parameters["properties"]["n"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how many",
    }
    assert (await run_tool(f, {"n": 1})).result.data == 2
    for n in (0, "3", 1.5, True):
        with pytest.raises(ToolError, match="n: Input should be"):
            f.validate_args({"n": n})


async def test_a_strict_model_still_reads_dates_from_text() -> None:
    @tool
    def f(entry: Strict) -> str:
        return entry.day.isoformat()

    assert (await run_tool(f, {"entry": {"day": "2024-01-02"}})).result.data == "2024-01-02"


async def test_a_default_is_passed_as_it_is() -> None:
    home = City(name="Rome")

    @tool
    def f(city: City = home) -> bool:
        return city is home

    assert (await run_tool(f, {})).result.data is True
    shown = f.descriptor().parameters["properties"]["city"]
    assert shown["default"] == {"name": "Rome", "people": None}


async def test_descriptions_come_from_meta_or_the_docstring() -> None:
    @tool
    def f(a: Annotated[City, msgspec.Meta(description="from meta")], b: City) -> None:
        """Do.

        Args:
            b: from the docstring
        """

    shown = f.descriptor().parameters["properties"]
    assert shown["a"]["description"] == "from meta"
    assert shown["b"]["description"] == "from the docstring"


async def test_models_are_returned_as_json_at_any_depth() -> None:
    @tool
    def f() -> Any:
        return {"cities": [City(name="Rome")], "holder": Holder(City(name="Bari"))}

    assert (await run_tool(f)).result.data == {
        "cities": [{"name": "Rome", "people": None}],
        "holder": {"city": {"name": "Bari", "people": None}},
    }


def _struct_with_model(a: Holder) -> None: ...
def _field_as_default(a: int = Field(ge=1)) -> None: ...
def _meta_on_models(a: Annotated[list[City], msgspec.Meta(min_length=1)]) -> None: ...
def _recursive(a: Tree) -> None: ...


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (_struct_with_model, "`Holder` cannot be read from JSON"),
        (_field_as_default, r"Field as its default: write `a: Annotated\[..., Field\(...\)\]`"),
        (_meta_on_models, "is not read by pydantic: write pydantic.Field"),
        (_recursive, "type 'Tree' contains itself"),
    ],
)
def test_what_pydantic_cannot_read_is_refused_with_a_remedy(fn: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        tool(fn)
    assert str(caught.value).startswith(f"tool {fn.__name__!r}, parameter 'a': ")


def test_a_model_alone_has_a_tool_schema() -> None:
    assert generate_tool_schema(City) == CITY


WITHOUT_PYDANTIC = """
import sys
from typing import Annotated
from annotated_types import Ge
from awaken.errors import ConfigError
from awaken.tool import tool

@tool
def f(a: int, b: list[str] | None = None) -> None: ...

f.validate_args({"a": 1})
assert not {"pydantic", "jsonschema_rs"} & sys.modules.keys()
try:
    @tool
    def g(a: Annotated[int, Ge(1)]) -> None: ...
except ConfigError as error:
    assert "write msgspec.Meta(...) instead" in str(error), error
else:
    raise AssertionError("a limit nobody enforces was accepted")
"""


def test_pydantic_is_not_loaded_by_plain_tools() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PYDANTIC], check=True, timeout=250)
