"""The model without a key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import awaken
from awaken import Agent, Runtime
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason, StreamResult
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.message import Image, Message, ToolCall, UrlSource
from awaken.core.tool import ToolDescriptor
from awaken.models.demo import DemoModel, guess_arguments
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio


def tool(id: str, description: str = "", **properties: Any) -> ToolDescriptor:
    return ToolDescriptor(
        id=id,
        name=id,
        description=description,
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(properties),
        },
    )


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
WEATHER = tool("get_weather", "The weather in a city.", city=STRING)
ADD = tool("add", "Adds two numbers.", a=INTEGER, b=INTEGER)
SEARCH = tool("web_search", "Finds pages on the internet.", query=STRING)


async def events(messages: list[Message], *tools: ToolDescriptor) -> list[LlmStreamEvent]:
    request = InferenceRequest(upstream_model="demo", messages=messages, tools=tools)
    return [event async for event in DemoModel().execute_stream(request)]


async def ask(messages: str | list[Message], *tools: ToolDescriptor) -> StreamResult:
    if isinstance(messages, str):
        messages = [Message.user(messages)]
    accumulator = StreamAccumulator()
    for event in await events(messages, *tools):
        accumulator.push(event)
    return accumulator.finish()


def called(result: StreamResult) -> dict[str, Any]:
    return {call.name: call.arguments for call in result.tool_calls}


# -- talking ----------------------------------------------------------------------------------


async def test_text_is_streamed_word_by_word() -> None:
    stream = await events([Message.user("hello there")])
    deltas = [event.delta for event in stream if isinstance(event, TextDelta)]
    assert deltas == ["You ", "said: ", "“hello ", "there”."]


async def test_it_says_which_tools_it_could_use() -> None:
    result = await ask("hello", WEATHER, ADD)
    assert result.tool_calls == ()
    assert result.stop_reason is StopReason.END_TURN
    assert "get_weather and add" in result.text()


async def test_usage_is_estimated_from_bytes() -> None:
    usage = (await ask("x" * 40)).usage
    assert usage is not None
    assert usage.prompt_tokens == 10
    assert usage.completion_tokens
    assert usage.total_tokens == 10 + usage.completion_tokens


async def test_the_same_question_gets_the_same_answer() -> None:
    messages = [Message.user("add 2 and 3", id="u1")]
    assert await ask(messages, ADD) == await ask(messages, ADD)
    again = [*messages, Message.assistant("5"), Message.user("add 2 and 3", id="u2")]
    assert (await ask(again, ADD)).tool_calls[0].id != (await ask(messages, ADD)).tool_calls[0].id


async def test_a_delay_passes_before_every_piece() -> None:
    clock = FakeClock(auto=True)
    request = InferenceRequest(upstream_model="demo", messages=[Message.user("hi")])
    pieces = [e async for e in DemoModel(delay=0.05, clock=clock).execute_stream(request)]
    assert clock.sleeps == [0.05] * len(pieces)


# -- calling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the weather in Paris?", {"get_weather": {"city": "Paris"}}),
        ("please call get_weather for New York", {"get_weather": {"city": "New York"}}),
        ("get weather in berlin", {"get_weather": {"city": "berlin"}}),
        ("weather, city: Rome.", {"get_weather": {"city": "Rome"}}),
        ("Add 2 and 3", {"add": {"a": 2, "b": 3}}),
        ("search the web for cats and dogs", {"web_search": {"query": "cats and dogs"}}),
        ('search "free tea" now', {"web_search": {"query": "free tea"}}),
        ("find me pages, the internet has them", {"web_search": {"query": "has them"}}),
    ],
)
async def test_a_message_that_speaks_of_a_tool_calls_it(
    text: str, expected: dict[str, Any]
) -> None:
    result = await ask(text, WEATHER, ADD, SEARCH)
    assert called(result) == expected
    assert result.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "text", ["add 2 and 3, then get_weather in Paris", "What is the weather in Paris? And add 2, 3"]
)
async def test_several_matching_tools_are_called_in_one_turn(text: str) -> None:
    result = await ask(text, WEATHER, ADD, SEARCH)
    assert called(result) == {"get_weather": {"city": "Paris"}, "add": {"a": 2, "b": 3}}
    assert len({call.id for call in result.tool_calls}) == 2
    assert result.text() == "I will use get_weather and add."


async def test_a_tool_that_is_not_offered_is_not_called() -> None:
    assert (await ask("get_weather in Paris")).tool_calls == ()


# -- telling ----------------------------------------------------------------------------------


def conversation(*results: str) -> list[Message]:
    calls = [
        ToolCall(id=f"c{index}", name=("get_weather", "add")[index], arguments={})
        for index in range(len(results))
    ]
    return [
        Message.user("get_weather in Paris and add 2 and 3"),
        Message.assistant_with_tool_calls("", calls),
        *(Message.tool(f"c{index}", text) for index, text in enumerate(results)),
    ]


async def test_results_become_a_sentence_each() -> None:
    result = await ask(conversation('{"celsius":21,"sky":"clear"}', "5"), WEATHER, ADD)
    assert result.text() == "get_weather answered: celsius 21, sky clear. add answered: 5."
    assert result.tool_calls == ()


@pytest.mark.parametrize(
    "text", ["Denied: not in Paris", "The user declined.", '{"approved":false}']
)
async def test_a_denied_call_is_acknowledged(text: str) -> None:
    assert "get_weather was denied: " in (await ask(conversation(text), WEATHER)).text()


async def test_the_tools_of_a_message_are_called_only_once() -> None:
    messages = [
        *conversation("21", "5"),
        Message.assistant("done"),
        Message.internal_user("task 7 is over"),
    ]
    result = await ask(messages, WEATHER, ADD)
    assert result.tool_calls == ()
    assert "task 7 is over" in result.text()


async def test_a_new_message_starts_over() -> None:
    messages = [*conversation("21", "5"), Message.assistant("done"), Message.user("add 4 and 5")]
    assert called(await ask(messages, WEATHER, ADD)) == {"add": {"a": 4, "b": 5}}


# -- guessing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"enum": ["celsius", "fahrenheit"]}, "in fahrenheit", "fahrenheit"),
        ({"enum": ["celsius", "fahrenheit"]}, "whatever", "celsius"),
        ({"type": "number"}, "about 2.5 of them", 2.5),
        ({"type": "integer", "minimum": 5}, "no number", 5),
        ({"type": "integer", "maximum": 10}, "take 99", 10),
        ({"type": "boolean"}, "do it", True),
        ({"type": "boolean"}, "do not do it", False),
        ({"const": "fixed"}, "x", "fixed"),
        ({"type": "array", "items": {"type": "string"}}, "to Rome and Oslo", ["Rome", "Oslo"]),
        ({"type": "array", "items": {"type": "integer"}}, "sum 1, 2, 2", [1, 2, 2]),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "7", 7),
        ({"type": ["null", "integer"]}, "7", 7),
        ({"$ref": "#/$defs/Unit"}, "in meters", "meter"),
        ({"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}, "3", {"n": 3}),
        ({"type": "string", "format": "email"}, "write to a@b.org now", "a@b.org"),
    ],
)
def test_values_are_made_up_from_the_message(schema: Any, text: str, value: Any) -> None:
    whole = {
        "properties": {"it": schema},
        "required": ["it"],
        "$defs": {"Unit": {"enum": ["meter", "mile"]}},
    }
    assert guess_arguments(whole, text) == {"it": value}


def test_several_names_are_taken_in_their_order_the_last_ones_first() -> None:
    schema = {"properties": {"origin": STRING, "to": STRING}, "required": ["origin", "to"]}
    assert guess_arguments(schema, "Tell Bob to fly from Paris to New York") == {
        "origin": "Paris",
        "to": "New York",
    }


def test_what_may_be_left_out_is_given_only_if_spoken_of() -> None:
    schema = {
        "properties": {"days": INTEGER, "unit": {"enum": ["c", "f"]}, "city": STRING, "n": INTEGER},
        "required": ["city", "n"],
    }
    assert guess_arguments(schema, "Weather 3 Paris") == {"city": "Paris", "n": 3}
    assert guess_arguments(schema, "Weather 3 Paris 4 f") == {
        "city": "Paris",
        "n": 3,
        "days": 4,
        "unit": "f",
    }


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["object", "string", "array", "integer", "#/properties/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "required", "items", "enum", "anyOf", "$ref", "minimum", "a"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(schema=json_values, text=st.text(alphabet=st.characters(), max_size=60))
async def test_no_schema_and_no_text_makes_it_raise(schema: Any, text: str) -> None:
    odd = ToolDescriptor(id="do_it", name="", description=text, parameters=schema)
    await ask([Message.user("do it " + text)], odd)
    await ask([Message.user(text), Message.tool("c", text)], odd)


async def test_messages_without_text_are_answered() -> None:
    picture = Image(source=UrlSource(url="https://example.org/x.png"))
    assert (await ask([Message.user_with_content([picture])])).text()
    assert (await ask([])).text()
    assert (await ask([Message.user("broken \ud800 get_weather")], WEATHER)).tool_calls


# -- answers of a shape -----------------------------------------------------------------------


class Place(msgspec.Struct):
    name: str
    country: str
    people: int = 0


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        (Place, Place("Taipei", "Taiwan", 2_600_000)),
        (list[Place], [Place("Taipei", "Taiwan", 2_600_000)]),
        (int, 2_600_000),
        (list[str], ["Taipei", "Taiwan"]),
    ],
)
async def test_a_shape_is_filled_with_words_of_the_message(shape: Any, answer: object) -> None:
    runtime = Runtime([Agent("a", model="demo", output=shape)])
    result = await runtime.run("a", "Tell me of Taipei in Taiwan with 2600000 people")
    assert result.output == answer


async def test_a_shape_is_filled_after_the_tools_were_called() -> None:
    @awaken.tool
    def people(city: str) -> int:
        """How many people live in a city."""
        return 2_600_000

    agent = Agent("a", model="demo", output=Place, tools=[people])
    result = await Runtime([agent]).run("a", "How many people has Taipei?")
    assert result.steps == 2
    assert isinstance(result.output, Place)
    assert (result.output.name, result.output.people) == ("Taipei", 2_600_000)
