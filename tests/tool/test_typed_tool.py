from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from tool_context import run_tool

from awaken.core.tool import ToolError, ToolErrorKind
from awaken.core.tool_context import ToolCallContext, ToolTraits
from awaken.errors import ConfigError
from awaken.tool import TypedTool

pytestmark = pytest.mark.anyio


class SearchArgs(msgspec.Struct):
    query: str = "everything"
    limit: int | None = None


class Search(TypedTool[SearchArgs]):
    """Search the archive.

    Args:
        nothing: this section is not for the model.
    """

    args_type = SearchArgs
    tool_id = "archive.search"
    name = "search"
    category = "archive"
    traits = ToolTraits(timeout=5)

    def validate(self, args: SearchArgs) -> None:
        if args.limit == 0:
            raise ValueError("limit: must not be 0")
        if args.limit == -1:
            raise ToolError.denied("limit: -1 is not for you")

    async def run(self, args: SearchArgs, ctx: ToolCallContext) -> Any:
        return {"query": args.query, "limit": args.limit, "call": ctx.call_id}


class FetchArgs(TypedDict):
    url: str


class Fetch(TypedTool[FetchArgs]):
    args_type = FetchArgs

    def __init__(self, host: str) -> None:
        self.tool_id = f"fetch_{host}"
        self.description = f"Fetch from {host}."

    async def run(self, args: FetchArgs, ctx: ToolCallContext) -> str:
        return args["url"]


class Model(pydantic.BaseModel):
    count: int = pydantic.Field(ge=1)


class Count(TypedTool[Model]):
    args_type = Model
    tool_id = "count"

    async def run(self, args: Model, ctx: ToolCallContext) -> Model:
        return args


@dataclasses.dataclass
class Pair:
    a: int
    b: int = 2


class Add(TypedTool[Pair]):
    args_type = Pair
    tool_id = "add"

    async def run(self, args: Pair, ctx: ToolCallContext) -> int:
        return args.a + args.b


def test_the_descriptor_comes_from_the_class_and_the_type() -> None:
    described = Search().descriptor()
    assert (described.id, described.name) == ("archive.search", "search")
    assert described.category == "archive"
    assert described.description == "Search the archive."
    assert described.parameters["properties"] == {
        "query": {"type": "string", "default": "everything"},
        "limit": {"type": "integer", "default": None},
    }


def test_what_is_left_out_is_derived_and_instances_may_differ() -> None:
    one, two = Fetch("a"), Fetch("b")
    assert one.descriptor().name == one.descriptor().id == "fetch_a"
    assert two.descriptor().description == "Fetch from b."


async def test_null_arguments_are_fine_for_an_all_optional_type() -> None:
    """01/C-16"""
    result = (await run_tool(Search(), None)).result
    assert result.data == {"query": "everything", "limit": None, "call": "call_1"}


@pytest.mark.parametrize("tool", [Fetch("a"), Count(), Add()], ids=["typed dict", "model", "dc"])
def test_null_arguments_are_invalid_when_something_is_required(tool: TypedTool[Any]) -> None:
    """01/C-16"""
    with pytest.raises(ToolError) as caught:
        tool.validate_args(None)
    assert caught.value.kind is ToolErrorKind.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"limit": "x"}, "limit: expected `int | null`, got `str`"),
        ({"limit": 0}, "limit: must not be 0"),
        ({"limit": -1}, "limit: -1 is not for you"),
        ([], "expected a JSON object, got a list"),
    ],
)
async def test_decoding_and_validating_fail_alike(args: Any, text: str) -> None:
    """01/C-16"""
    result = (await run_tool(Search(), args)).result
    assert result.message == f"Invalid arguments: {text}"


async def test_pydantic_models_and_dataclasses_are_argument_types() -> None:
    assert (await run_tool(Count(), {"count": 3})).result.data == {"count": 3}
    assert (await run_tool(Add(), {"a": 1})).result.data == 3
    failed = (await run_tool(Count(), {"count": 0})).result
    assert failed.message is not None
    assert failed.message.startswith("Invalid arguments: count: Input should be greater")


async def test_explicit_null_for_an_optional_field_is_accepted() -> None:
    assert Search().validate_args({"limit": None}) == SearchArgs()


def test_a_class_without_run_cannot_be_made() -> None:
    class Idle(TypedTool[SearchArgs]):
        args_type = SearchArgs
        tool_id = "idle"

    with pytest.raises(TypeError, match=r"abstract class Idle .*run"):
        Idle()  # type: ignore[abstract]


def test_a_wrong_argument_type_is_refused_as_the_class_is_made() -> None:
    with pytest.raises(ConfigError, match=r"tool class 'Bad': args_type .*no object in JSON"):

        class Bad(TypedTool[Any]):
            args_type = list[int]

    with pytest.raises(ConfigError, match="tool class 'Worse': args_type `object`"):

        class Worse(TypedTool[Any]):
            args_type = object


def test_a_class_that_names_no_type_or_id_says_so_when_used() -> None:
    class Untyped(TypedTool[Any]):
        tool_id = "untyped"

        async def run(self, args: Any, ctx: ToolCallContext) -> None:
            return None

    class Nameless(TypedTool[SearchArgs]):
        args_type = SearchArgs

        async def run(self, args: Any, ctx: ToolCallContext) -> None:
            return None

    with pytest.raises(ConfigError, match="'Untyped' names no argument type"):
        Untyped().validate_args({})
    with pytest.raises(ConfigError, match="'Nameless' has no id"):
        Nameless().descriptor()


def test_a_subclass_inherits_the_argument_type() -> None:
    class Narrow(Search):
        tool_id = "narrow"
        name = ""

    assert Narrow().descriptor().name == "narrow"
    assert Narrow().validate_args({"query": "x"}) == SearchArgs(query="x")
