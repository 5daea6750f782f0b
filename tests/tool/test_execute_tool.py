from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tool_context import make_context, run_tool

from awaken.core.message import ToolCall
from awaken.core.tool import ToolDescriptor, ToolError, ToolResult, ToolStatus
from awaken.core.tool_context import Tool, ToolCallContext, ToolOutput, ToolTraits
from awaken.tool import execute_tool, tool

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


class Foreign:
    """A tool of somebody else's making; answers with the arguments it was given."""

    def __init__(self, *, parameters: Any = SCHEMA, decoded: Any = None, answer: Any = ...) -> None:
        self._described = ToolDescriptor(
            id="foreign", name="foreign", description="", parameters=parameters
        )
        self._decoded = decoded
        self._answer = answer

    def descriptor(self) -> ToolDescriptor:
        return self._described

    def validate_args(self, args: Any) -> Any:
        return self._decoded

    async def execute(self, args: Any, ctx: ToolCallContext) -> Any:
        if self._answer is not ...:
            return self._answer
        return ToolOutput(ToolResult.success("foreign", {"args": args}))


class Unchecked:
    """A tool without `validate_args`."""

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="unchecked", name="unchecked", description="", parameters=SCHEMA)

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success("unchecked", args))


@tool
async def fail(kind: str) -> None:
    errors: dict[str, BaseException] = {
        "denied": ToolError.denied("not you"),
        "value": ValueError("bad value"),
        "group": ExceptionGroup("many", [ValueError("one")]),
        "timeout": TimeoutError("of a socket"),
        "mute": Mute(),
        "cancel": asyncio.CancelledError(),
    }
    raise errors[kind]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.fixture
def failures(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.ERROR, logger="awaken.tool")
    return caplog


async def test_an_unknown_tool_is_an_error_that_names_the_known_ones() -> None:
    tools: dict[str, Tool] = {"fail": fail, "a_first": fail}
    call = ToolCall(id="1", name="nope", arguments={})
    result = (await execute_tool(tools, call, make_context())).result
    assert result.status is ToolStatus.ERROR
    assert result.message == "tool 'nope' not found; available: a_first, fail"
    result = (await execute_tool({}, call, make_context())).result
    assert result.message == "tool 'nope' not found; available: none"


async def test_a_long_list_of_known_tools_is_cut() -> None:
    tools = dict.fromkeys((f"tool_{n:03}" for n in range(500)), fail)
    result = (
        await execute_tool(tools, ToolCall(id="1", name="x", arguments={}), make_context())
    ).result
    assert result.message is not None
    assert result.message.endswith("tool_039, …")


async def test_a_tool_error_is_told_with_its_prefix_and_not_logged(
    failures: pytest.LogCaptureFixture,
) -> None:
    result = (await run_tool(fail, {"kind": "denied"})).result
    assert (result.status, result.message) == (ToolStatus.ERROR, "Denied: not you")
    assert result.metadata == {}
    assert failures.records == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("value", "ValueError: bad value"),
        ("group", "ExceptionGroup: many (1 sub-exception)"),
        ("timeout", "TimeoutError: of a socket"),
        ("mute", "Mute: (its text cannot be read)"),
        ("unheard of", "KeyError: 'unheard of'"),
    ],
)
async def test_any_other_exception_becomes_a_result_and_is_logged(
    kind: str, text: str, failures: pytest.LogCaptureFixture
) -> None:
    result = (await run_tool(fail, {"kind": kind})).result
    assert result.status is ToolStatus.ERROR
    assert result.message == f"Execution failed: {text}"
    [record] = failures.records
    assert record.name == "awaken.tool"
    assert record.exc_info is not None


async def test_a_cancellation_the_tool_raises_by_itself_is_its_failure() -> None:
    result = (await run_tool(fail, {"kind": "cancel"})).result
    assert result.message == "Cancelled: by the tool"


async def test_cancellation_passes_through() -> None:
    started = asyncio.Event()

    @tool(timeout=50)
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(run_tool(wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_tool_that_takes_too_long_is_stopped_and_marked() -> None:
    stopped: list[bool] = []

    @tool(timeout=0.01)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    result = (await run_tool(wait)).result
    assert result.status is ToolStatus.ERROR
    assert result.message == "Timeout: no answer within 0.01 seconds"
    assert result.metadata == {"timed_out": True}
    assert stopped == [True]


async def test_a_timeout_of_the_tools_own_is_not_mistaken_for_ours() -> None:
    @tool(timeout=50)
    async def connect() -> None:
        raise TimeoutError("connecting")

    result = (await run_tool(connect)).result
    assert result.message == "Execution failed: TimeoutError: connecting"
    assert result.metadata == {}


async def test_a_tool_quick_enough_is_not_troubled_by_its_timeout() -> None:
    @tool(timeout=50)
    def quick() -> str:
        return "here"

    assert (await run_tool(quick)).result.data == "here"


async def test_a_foreign_tool_gets_the_arguments_as_given_or_as_it_decoded_them() -> None:
    assert (await run_tool(Foreign(), {"n": 1})).result.data == {"args": {"n": 1}}
    assert (await run_tool(Foreign(decoded=[1]), {"n": 1})).result.data == {"args": [1]}
    unchecked: Any = Unchecked()
    assert (await run_tool(unchecked, {"n": 1})).result.data == {"n": 1}


async def test_a_foreign_tools_schema_is_enforced() -> None:
    for foreign in (Foreign(), Foreign(decoded={"n": 1})):
        result = (await run_tool(foreign, {"n": "x"})).result
        assert result.message == 'Invalid arguments: n: "x" is not of type "integer"'
        result = (await run_tool(foreign, None)).result
        assert result.message == "Invalid arguments: n: required, but missing"


async def test_a_foreign_tools_broken_schema_is_an_internal_error() -> None:
    result = (await run_tool(Foreign(parameters={"properties": 3}), {})).result
    assert result.message is not None
    assert result.message.startswith("Internal error: the tool's schema is broken")


async def test_a_foreign_tools_traits_are_honoured() -> None:
    class Slow(Foreign):
        traits = ToolTraits(timeout=0.01)

        async def execute(self, args: Any, ctx: ToolCallContext) -> Any:
            await asyncio.Event().wait()

    assert (await run_tool(Slow(), {"n": 1})).result.metadata == {"timed_out": True}


async def test_a_bare_result_is_accepted() -> None:
    result = ToolResult.success("foreign", 1)
    assert (await run_tool(Foreign(answer=result), {"n": 1})).result == result


@pytest.mark.parametrize("answer", [None, "text", {"status": "success"}])
async def test_any_other_answer_is_an_internal_error(answer: Any) -> None:
    result = (await run_tool(Foreign(answer=answer), {"n": 1})).result
    kind = type(answer).__name__
    assert result.message == f"Internal error: tool 'foreign' returned a {kind}, no ToolOutput"


async def test_text_that_no_json_can_hold_does_not_get_into_a_result() -> None:
    @tool
    def read() -> None:
        raise ToolError.execution_failed("no file 'a\udcff'")

    assert (await run_tool(read)).result.message == "Execution failed: no file 'a\ufffd'"
