"""Agents whose answers are values of a Python type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import NATURAL_END, Stopped
from awaken.core.llm import InferenceRequest, ModelAbilities
from awaken.core.message import Role
from awaken.errors import ConfigError, NoOutput
from awaken.models.output_tool import OUTPUT_TOOL
from awaken.testing import FunctionModel, ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio


@dataclass
class City:
    """A city and how many live there."""

    name: str
    people: int


class Place(msgspec.Struct, tag="place"):
    name: str


class Road(msgspec.Struct, tag="road"):
    length: float


class Row(TypedDict):
    kind: Literal["a", "b"]


class Checked(BaseModel):
    n: int = Field(ge=3)


class Native(ScriptedModel):
    """A model that keeps to a shape by itself."""

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(native_output=True)


PARIS = City(name="Paris", people=2_100_000)
PARIS_TEXT = '{"name": "Paris", "people": 2100000}'


async def answer(model: Any, type_: Any, **options: Any) -> Any:
    async with Runtime([Agent("a", model=model, output=type_, **options)]) as runtime:
        return (await runtime.run("a", "go")).output


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (City, PARIS_TEXT, PARIS),
        (Row, '{"kind": "a"}', {"kind": "a"}),
        (Checked, '{"n": 3}', Checked(n=3)),
        (list[City], '{"value": [' + PARIS_TEXT + "]}", [PARIS]),
        (list[Checked], '{"value": [{"n": 4}]}', [Checked(n=4)]),
        (Place | Road, '{"value": {"type": "road", "length": 2.5}}', Road(length=2.5)),
        (int, '{"value": 7}', 7),
        (dict[str, int], '{"x": 1}', {"x": 1}),
    ],
)
async def test_an_answer_is_read_into_its_type(type_: Any, text: str, value: object) -> None:
    assert await answer(Native([text]), type_) == value


async def test_a_model_with_a_word_for_it_is_told_the_shape() -> None:
    model = Native([PARIS_TEXT])
    await answer(model, City)
    output = model.requests[0].output
    assert output is not None
    assert output.name == "City"
    assert output.description == "A city and how many live there."
    assert output.schema["required"] == ["name", "people"]
    assert model.requests[0].tools == ()


async def test_a_model_without_one_calls_a_tool_and_the_log_holds_the_text() -> None:
    model = ScriptedModel(
        [tool_calls_response("Here it is. ", (OUTPUT_TOOL, "1", msgspec.to_builtins(PARIS)))]
    )
    async with Runtime([Agent("a", model=model, output=City)]) as runtime:
        result = await runtime.run("a", "go", thread="t")
        log = await runtime.messages("t")
    assert result.output == PARIS
    assert result.output_as(City).people == 2_100_000
    assert [m.role for m in log] == [Role.USER, Role.ASSISTANT]
    assert log[-1].tool_calls is None
    assert log[-1].text().startswith("Here it is. {")


async def test_an_answer_that_does_not_fit_goes_back_with_the_reason() -> None:
    model = Native(["Paris!", '{"name": "Paris"}', PARIS_TEXT])
    assert await answer(model, City) == PARIS
    said = [request.messages[-1].text() for request in model.requests]
    assert "it is not JSON" in said[1]
    assert "people" in said[2]
    assert "missing" in said[2]


async def test_what_only_the_type_itself_knows_is_checked_as_well() -> None:
    model = Native(['{"n": 1}', '{"n": 5}'])
    assert await answer(model, Checked) == Checked(n=5)
    assert "greater than or equal to 3" in model.requests[1].messages[-1].text()


async def test_after_too_many_tries_the_run_is_stopped_and_says_why() -> None:
    model = Native(["no", "no", "no"])
    async with Runtime([Agent("a", model=model, output=City)]) as runtime:
        result = await runtime.run("a", "go")
    assert model.calls == 3
    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "output_invalid"
    with pytest.raises(NoOutput, match="output_invalid"):
        _ = result.output


async def test_how_often_it_is_tried_can_be_set() -> None:
    model = Native(["no"])
    async with Runtime([Agent("a", model=model, output=City, max_output_retries=0)]) as runtime:
        result = await runtime.run("a", "go")
    assert isinstance(result.termination, Stopped)
    assert model.calls == 1


async def test_tools_come_first_and_the_answer_after_them() -> None:
    @tool
    async def count(name: str) -> int:
        """Count."""
        return 2_100_000

    def speak(request: InferenceRequest) -> Any:
        if request.messages[-1].role is Role.TOOL:
            people = int(request.messages[-1].text())
            return tool_calls_response("", (OUTPUT_TOOL, "2", {"name": "Paris", "people": people}))
        return tool_calls_response("", ("count", "1", {"name": "Paris"}))

    assert await answer(FunctionModel(speak), City, tools=[count]) == PARIS


async def test_tries_are_counted_over_a_restart(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    first = Native(["no", RuntimeError("gone")])
    async with Runtime([Agent("a", model=first, output=City)], store=store) as runtime:
        with pytest.raises(Exception, match="gone"):
            await runtime.run("a", "go", thread="t")
    second = Native([PARIS_TEXT])
    async with Runtime([Agent("a", model=second, output=City)], store=store) as runtime:
        result = await runtime.run("a", "again", thread="t")
        assert result.output == PARIS
        assert (await runtime.wait("t")).output == PARIS


async def test_pieces_of_an_object_can_be_read_as_they_come() -> None:
    model = Native([PARIS_TEXT], chunk=4)
    async with Runtime([Agent("a", model=model, output=City)]) as runtime:
        async with runtime.stream("a", "go") as events:
            shown = [piece async for piece in events.outputs()]
        assert events.result.output == PARIS
    assert shown[0] == {}
    assert shown[-1] == {"name": "Paris", "people": 2_100_000}
    assert {"name": "Pa"} in shown


async def test_pieces_of_a_list_are_its_elements() -> None:
    model = ScriptedModel(
        [tool_calls_response("", (OUTPUT_TOOL, "1", {"value": [1, 2, 3]}))], chunk=1
    )
    async with (
        Runtime([Agent("a", model=model, output=list[int])]) as runtime,
        runtime.stream("a", "go") as events,
    ):
        shown = [piece async for piece in events.outputs()]
    assert shown[-1] == [1, 2, 3]


async def test_the_output_of_an_agent_without_a_type_is_its_text() -> None:
    async with Runtime([Agent("a", model=ScriptedModel(["hi", "hi"]))]) as runtime:
        result = await runtime.run("a", "go")
        assert result.termination == NATURAL_END
        assert result.output == "hi"
        async with runtime.stream("a", "go") as events:
            with pytest.raises(ConfigError, match="give it an output type"):
                await anext(aiter(events.outputs()))


def test_a_type_without_a_json_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent 'a': output .*cannot be read from JSON"):
        Agent("a", model="demo", output=Runtime)
