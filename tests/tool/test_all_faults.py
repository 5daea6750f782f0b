"""Every fault of a call's arguments is told at once (01 §1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_context import run_tool

from awaken import tool
from awaken.tool.arguments import MAX_ERRORS, all_faults

pytestmark = pytest.mark.anyio


@dataclass
class Address:
    city: str
    number: int


class Parcel(TypedDict):
    weight: float
    to: Address
    note: NotRequired[str]


class Person(pydantic.BaseModel):
    age: int
    name: str


@tool(effect="read")
async def send(
    parcels: list[Parcel],
    count: Annotated[int, msgspec.Meta(ge=1)],
    back_to: Address | None = None,
    marks: dict[str, int] | None = None,
    urgent: bool = False,
) -> str:
    """Send parcels."""
    return "sent"


@tool(effect="read")
async def greet(person: Person, times: int) -> str:
    """Greet somebody."""
    return "hello"


async def _fault_texts(of: Any, args: Any) -> list[str]:
    result = (await run_tool(of, args)).result
    return str(result.message).removeprefix("Invalid arguments: ").split("; ")


async def test_all_faults_are_told_at_once() -> None:
    """At every depth, with the place of each."""
    told = await _fault_texts(
        send,
        {
            "parcels": [
                {"weight": "heavy", "to": {"city": 5, "number": "x"}},
                {"weight": 1.5, "to": {"city": "Bern"}},
            ],
            "count": 0,
            "back_to": {"city": "Bern", "number": None},
            "marks": {"a": 1, "b": "two"},
            "speed": "fast",
        },
    )

    assert sorted(told) == [
        "back_to.number: expected `int`, got `null`",
        "count: expected `int` >= 1",
        "marks[...]: expected `int`, got `str`",
        "parcels[0].to.city: expected `str`, got `int`",
        "parcels[0].to.number: expected `int`, got `str`",
        "parcels[0].weight: expected `float`, got `str`",
        "parcels[1].to.number: required, but missing",
        "speed: unknown argument (known: parcels, count, back_to, marks, urgent)",
    ]


async def test_one_fault_is_told_as_before() -> None:
    fine = {"parcels": [], "count": 1}

    assert await _fault_texts(send, {**fine, "back_to": "Bern"}) == [
        "back_to: expected `object | null`, got `str`"
    ]
    assert await _fault_texts(send, {"parcels": []}) == ["count: required, but missing"]


async def test_faults_of_pydantic_types_are_told_with_the_others() -> None:
    told = await _fault_texts(greet, {"person": {"age": "old"}, "times": "often"})

    assert told[0] == "times: expected `int`, got `str`"
    assert sorted(text.partition(":")[0] for text in told) == ["person.age", "person.name", "times"]


def test_very_many_faults_are_not_all_told() -> None:
    assert len(all_faults(["x"] * 500, list[Parcel])) == MAX_ERRORS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["city", "number", "weight", "to", "note"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(value=JSON, type_=st.sampled_from([Address, Parcel, list[Parcel], dict[str, Address]]))
def test_a_value_has_faults_exactly_if_it_is_not_of_its_type(value: Any, type_: Any) -> None:
    try:
        msgspec.convert(value, type_)
        fits = True
    except msgspec.ValidationError:
        fits = False

    assert (all_faults(value, type_) == []) is fits
