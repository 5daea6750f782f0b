from __future__ import annotations

import pytest
from tool_context import make_context, run_tool

from awaken.codec import Json
from awaken.core.suspension import ToolCallResume, ToolCallResumeMode
from awaken.core.tool import ToolDescriptor, ToolError, ToolStatus
from awaken.tool import FrontEndTool

pytestmark = pytest.mark.anyio

PICK = FrontEndTool(
    ToolDescriptor(
        id="ui.pick",
        name="pick",
        description="Let the user pick.",
        parameters={
            "type": "object",
            "properties": {"options": {"type": "array", "items": {"type": "string"}}},
            "required": ["options"],
        },
    )
)


async def test_the_first_call_is_pending_with_the_arguments_as_parameters() -> None:
    """01/C-18"""
    output = await PICK.execute({"options": ["a"]}, make_context(call_id="c1"))
    assert output.result.status is ToolStatus.PENDING
    assert output.result.data is None
    assert not output.command
    ticket = output.result.suspension
    assert ticket is not None
    assert ticket.suspension.id == "suspend_c1"
    assert ticket.suspension.action == "tool:ui.pick"
    assert ticket.suspension.parameters == {"options": ["a"]}
    assert ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    assert ticket.pending.id == "c1"
    assert ticket.pending.name == "ui.pick"
    assert ticket.pending.arguments == {"options": ["a"]}


@pytest.mark.parametrize("call_id", ["", "  "])
async def test_a_blank_call_id_is_replaced_by_the_tools_id(call_id: str) -> None:
    ticket = (await PICK.execute({}, make_context(call_id=call_id))).result.suspension
    assert ticket is not None
    assert ticket.suspension.id == "suspend_ui.pick"
    assert ticket.pending.id == "ui.pick"


@pytest.mark.parametrize("payload", [{"picked": ["a", None]}, "text", None, 0])
async def test_a_resumed_call_returns_the_payload_verbatim(payload: object) -> None:
    """01/C-18"""
    decision = ToolCallResume.approve(payload)
    output = await PICK.execute({"options": []}, make_context(resume_input=decision))
    assert output.result.status is ToolStatus.SUCCESS
    assert output.result.data == payload
    assert output.result.message is None


async def test_arguments_are_checked_against_the_descriptor() -> None:
    with pytest.raises(ToolError, match="options: required, but missing"):
        PICK.validate_args(None)
    assert PICK.validate_args({"options": ["a"]}) == {"options": ["a"]}
    result = (await run_tool(PICK, {"options": [1]})).result
    assert result.message == 'Invalid arguments: options[0]: 1 is not of type "string"'


async def test_a_tool_without_parameters_takes_null() -> None:
    confirm = FrontEndTool(ToolDescriptor(id="ok", name="ok", description="Confirm."))
    result = (await run_tool(confirm, None)).result
    assert result.suspension is not None
    assert result.suspension.suspension.parameters == {}


@pytest.mark.parametrize("arguments", ["x", "{}", [], 3, False])
def test_arguments_that_are_no_object_never_reach_the_front_end(arguments: Json) -> None:
    open_one = FrontEndTool(
        ToolDescriptor(id="f", name="f", description="", parameters={"required": ["x"]})
    )
    with pytest.raises(ToolError, match="expected a JSON object"):
        open_one.validate_args(arguments)
