"""Schemas that come from outside are enforced, whatever stands at their root."""

from __future__ import annotations

from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.core.inference import OutputFormat
from awaken.core.message import Role
from awaken.core.spec import AgentSpec
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolDescriptor, ToolError, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput
from awaken.ext.tasks import BackgroundTool
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.tool import validate_against_schema

PATH = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": "^/srv/"}},
    "required": ["path"],
    "additionalProperties": False,
}
ROOTS: dict[str, Any] = {
    "ref": {"$ref": "#/$defs/p", "$defs": {"p": PATH}},
    "old ref": {"$ref": "#/definitions/p", "definitions": {"p": PATH}},
    "anchor": {"$dynamicRef": "#p", "$defs": {"p": {**PATH, "$dynamicAnchor": "p"}}},
    "oneOf": {"oneOf": [PATH]},
    "anyOf": {"anyOf": [PATH, False]},
    "allOf": {"type": "object", "allOf": [PATH]},
    "not": {"type": "object", "not": {"not": PATH}},
    "if": {"if": True, "then": PATH},
    "closed": {"type": "object", "additionalProperties": False},
    "empty and closed": {"type": "object", "properties": {}, "additionalProperties": False},
    "unevaluated": {"unevaluatedProperties": False},
    "patterns": {"patternProperties": {"": False}},
    "names": {"propertyNames": {"maxLength": 2}},
    "most": {"maxProperties": 0},
    "dependent": {"dependentSchemas": {"path": False}},
    "enum": {"enum": [{}]},
    "const": {"const": {}},
}
FORBIDDEN = {"path": "/etc/shadow"}


class Foreign:
    """A tool known by a schema alone, as those of a tool server are."""

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters
        self.ran_with: list[Any] = []

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="f", name="f", description="", parameters=self.parameters)

    def validate_args(self, args: Any) -> None:
        return None

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        self.ran_with.append(args)
        return ToolOutput(ToolResult.success("f", "ran"))


def calls_once(arguments: Any) -> FunctionModel:
    def answer(request: Any) -> Any:
        if request.messages[-1].role is Role.TOOL:
            return text_response(request.messages[-1].text())
        return tool_call_response("", "f", "c1", arguments)

    return FunctionModel(answer)


@pytest.mark.parametrize("root", ROOTS)
async def test_a_tool_never_runs_with_arguments_its_schema_forbids(root: str) -> None:
    tool = Foreign(ROOTS[root])
    async with Runtime([Agent("a", model=calls_once(FORBIDDEN), tools=[tool])]) as runtime:
        result = await runtime.run("a", "go")
    assert tool.ran_with == []
    assert result.response.startswith("Invalid arguments: ")


async def test_what_the_schema_allows_runs() -> None:
    tool = Foreign(ROOTS["ref"])
    allowed = {"path": "/srv/x"}
    async with Runtime([Agent("a", model=calls_once(allowed), tools=[tool])]) as runtime:
        await runtime.run("a", "go")
    assert tool.ran_with == [allowed]


@pytest.mark.parametrize("schema", [{"type": "object"}, {"required": ["x"]}, {}, None])
@pytest.mark.parametrize("arguments", ["text", "{}", [], [1], 3, False])
async def test_arguments_that_are_no_object_do_not_reach_a_tool(
    arguments: Any, schema: Any
) -> None:
    tool = Foreign(schema)
    async with Runtime([Agent("a", model=calls_once(arguments), tools=[tool])]) as runtime:
        await runtime.run("a", "go")
    assert tool.ran_with == []


async def test_a_foreign_tool_in_the_background_is_held_to_its_schema() -> None:
    tool = Foreign(ROOTS["oneOf"])
    agent = Agent("a", model=calls_once(FORBIDDEN), tools=[BackgroundTool(tool)])
    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go")
    assert tool.ran_with == []
    assert "Invalid arguments" in result.response


async def test_edited_arguments_are_held_to_the_schema() -> None:
    class Asking(Foreign):
        async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
            if ctx.resume_input is None:
                return ToolOutput(ToolResult.suspended("f", "may I?"))
            return await super().execute(args, ctx)

    tool = Asking(ROOTS["ref"])
    agent = Agent("a", model=calls_once({"path": "/srv/x"}), tools=[tool])
    async with Runtime([agent]) as runtime:
        (ticket,) = (await runtime.run("a", "go", thread="t")).tickets
        edit = ToolCallResume.edit(FORBIDDEN, digest=ticket.digest)
        result = await runtime.run(thread="t", answers={ticket.key or "": edit})
    assert tool.ran_with == []
    assert "Invalid arguments" in result.response


async def test_an_answer_is_held_to_a_schema_whose_root_is_a_reference() -> None:
    answers = ['{"path": "/etc/shadow"}', '{"path": "/srv/ok"}']
    seen: list[str] = []

    def answer(request: Any) -> Any:
        seen.append(request.messages[-1].text())
        return text_response(answers[len(seen) - 1])

    schema = {"type": "object", "$ref": "#/$defs/p", "$defs": {"p": PATH}}
    output = OutputFormat(name="out", schema=schema)
    spec = AgentSpec(id="a", model_id="m", system_prompt="", output=output)
    async with Runtime([spec], models={"m": FunctionModel(answer)}) as runtime:
        result = await runtime.run("a", "go")
    assert result.response == answers[1]
    assert "does not fit" in seen[1]


def test_at_most_twenty_violations_are_told() -> None:
    many = {"items": {"type": "string"}}
    with pytest.raises(ToolError) as caught:
        validate_against_schema(many, list(range(1_000)))
    told = caught.value.message.split("; ")
    assert len(told) == 21
    assert told[-1] == "and more"
    with pytest.raises(ToolError) as caught:
        validate_against_schema(many, list(range(20)))
    assert len(caught.value.message.split("; ")) == 20
    assert "and more" not in caught.value.message


def test_an_endless_integer_is_held_to_the_schema() -> None:
    for schema in ({"type": "string"}, {"maximum": 5}, {"multipleOf": 0.1, "maximum": 5}):
        with pytest.raises(ToolError, match="Invalid arguments"):
            validate_against_schema(schema, 10**399)


def doubling(levels: int, words: str = "allOf", start: str = "#/$defs/d0") -> dict[str, Any]:
    """A schema of a few lines that holds a value against 2 ** levels subschemas."""
    defs: dict[str, Any] = {
        f"d{n}": {"$anchor": f"a{n}", words: [{"$ref": f"#/$defs/d{n + 1}"}] * 2}
        for n in range(levels)
    }
    return {"$ref": start, "$defs": {**defs, f"d{levels}": {"type": "object"}}}


TOO_FAR: dict[str, Any] = {
    "all": doubling(40),
    "any": doubling(40, "anyOf"),
    "an anchor": doubling(40, start="#a0"),
    "a property": {"properties": {"x": doubling(40)["$defs"]["d0"]}, **doubling(40)},
    "by address": {
        **doubling(40, start="https://x.example/s#/$defs/d0"),
        "$id": "https://x.example/s",
    },
    "a part with a name": {"$ref": "urn:p", "$defs": {"p": {"$id": "urn:p", **doubling(40)}}},
    "by a condition": {"if": {"$ref": "#/$defs/d0"}, "$defs": doubling(40)["$defs"]},
}


@pytest.mark.parametrize("schema", TOO_FAR.values(), ids=TOO_FAR)
async def test_a_schema_that_unfolds_without_bounds_is_refused_by_name(schema: Any) -> None:
    tool = Foreign(schema)
    async with Runtime([Agent("a", model=calls_once({"x": {}}), tools=[tool])]) as runtime:
        result = await runtime.run("a", "go")
    assert tool.ran_with == []
    assert result.response == (
        "Internal error: the tool's schema is broken: its references unfold so far that one value "
        "is held against more than 10000 subschemas (tool 'f')"
    )


ENDLESS: dict[str, Any] = {
    "itself": {"$ref": "#"},
    "each other": {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#"}]}}},
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_a_reference_that_leads_back_to_itself_is_refused(schema: Any) -> None:
    with pytest.raises(ToolError, match="leads back to where it began"):
        validate_against_schema(schema, {})


def test_a_schema_may_refer_to_itself_for_what_is_inside_a_value() -> None:
    tree = {
        "type": "object",
        "properties": {
            "left": {"$ref": "#"},
            "right": {"$ref": "#"},
            "leaf": {"$ref": "#/$defs/n"},
        },
        "$defs": {"n": {"anyOf": [{"type": "integer"}, {"items": {"$ref": "#/$defs/n"}}]}},
        "default": {"$ref": "#/default"},
    }
    validate_against_schema(tree, {"left": {"leaf": [1, [2]]}, "right": {"left": {}}})
    with pytest.raises(ToolError, match=r"left\.right"):
        validate_against_schema(tree, {"left": {"right": 1}})
