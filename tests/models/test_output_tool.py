"""Answers of a given shape from models that have no word for it."""

from __future__ import annotations

import pytest

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import OutputFormat, StopReason, StreamResult
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ModelAbilities, Stop
from awaken.core.tool import ToolDescriptor
from awaken.models.output_tool import OUTPUT_TOOL, OutputTool
from awaken.testing import ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = OutputFormat(name="number", schema=SCHEMA, description="A number.")
TOOL = ToolDescriptor(id="add", name="add", description="Adds.")


class Native(ScriptedModel):
    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(native_output=True)


async def ask(model: ScriptedModel, *tools: ToolDescriptor) -> StreamResult:
    heard = StreamAccumulator()
    request = InferenceRequest(upstream_model="m", messages=(), tools=tools, output=FORMAT)
    async for event in OutputTool(model).execute_stream(request):
        heard.push(event)
    return heard.finish()


async def test_the_shape_is_offered_as_a_tool_and_its_call_is_heard_as_text() -> None:
    model = ScriptedModel([tool_calls_response("", (OUTPUT_TOOL, "1", {"n": 7}))])
    result = await ask(model, TOOL)
    assert result.text() == '{"n":7}'
    assert result.tool_calls == ()
    assert result.stop_reason is StopReason.END_TURN
    asked = model.requests[0]
    assert asked.output is None
    assert [tool.id for tool in asked.tools] == ["add", OUTPUT_TOOL]
    assert asked.tools[-1].parameters == SCHEMA
    assert "A number." in asked.tools[-1].description


async def test_a_word_before_the_call_is_a_text_of_its_own() -> None:
    model = ScriptedModel([tool_calls_response("Here: ", (OUTPUT_TOOL, "1", {"n": 7}))])
    result = await ask(model)
    assert [getattr(block, "text", None) for block in result.content] == ["Here: ", '{"n":7}']


async def test_pieces_come_as_they_are_written() -> None:
    pieces: list[LlmStreamEvent] = [
        ToolCallStart(id="1", name=OUTPUT_TOOL),
        ToolCallDelta(id="1", args_delta='{"n"'),
        ToolCallDelta(id="1", args_delta=": 7}"),
        Stop(reason=StopReason.TOOL_USE),
    ]
    request = InferenceRequest(upstream_model="m", messages=(), output=FORMAT)
    heard = [e async for e in OutputTool(ScriptedModel([pieces])).execute_stream(request)]
    assert heard[1:3] == [TextDelta(delta='{"n"'), TextDelta(delta=": 7}")]


async def test_other_calls_beside_it_are_still_to_be_carried_out() -> None:
    model = ScriptedModel([tool_calls_response("", ("add", "1", {}), (OUTPUT_TOOL, "2", {"n": 7}))])
    result = await ask(model, TOOL)
    assert [call.name for call in result.tool_calls] == ["add"]
    assert result.stop_reason is StopReason.TOOL_USE


async def test_a_model_that_has_a_word_for_it_is_asked_as_it_is() -> None:
    model = Native(['{"n": 7}'])
    assert (await ask(model)).text() == '{"n": 7}'
    assert model.requests[0].output == FORMAT
    assert model.requests[0].tools == ()


async def test_a_tool_of_the_users_with_that_name_is_not_hidden() -> None:
    mine = ToolDescriptor(id=OUTPUT_TOOL, name=OUTPUT_TOOL, description="Mine.")
    model = ScriptedModel([tool_calls_response("", (OUTPUT_TOOL, "1", {"n": 7}))])
    result = await ask(model, mine)
    assert [call.name for call in result.tool_calls] == [OUTPUT_TOOL]
    assert model.requests[0].tools[-1].id == f"{OUTPUT_TOOL}_"
