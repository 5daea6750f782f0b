"""A call a client saw begin is closed: by its result, or by `tool_call_cancel`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loop_stage import Stage

from awaken import Agent, tool
from awaken.core.event import (
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallStart,
)
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceExecutionError, InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.core.spec import StopOnTool
from awaken.errors import AgentLoopError
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def add(n: int = 0) -> int:
    """Add."""
    return n


def _stage(*script: Any, **options: Any) -> Stage:
    return Stage(Agent("a", model=ScriptedModel(list(script)), tools=[add], **options))


def _assert_closed(stage: Stage) -> None:
    """Every call that began has ended, once."""
    begun = [event.id for event in stage.told(ToolCallStart)]
    ended = [e.id for e in stage.told(ToolCallDone)] + [e.id for e in stage.told(ToolCallCancel)]
    assert sorted(begun) == sorted(ended)


HALF: list[LlmStreamEvent] = [
    ToolCallStart(id="c1", name="add"),
    ToolCallDelta(id="c1", args_delta='{"n": '),
]
WHOLE: list[LlmStreamEvent] = [
    ToolCallStart(id="c1", name="add"),
    ToolCallDelta(id="c1", args_delta='{"n": 1}'),
]


@pytest.mark.parametrize(
    "limits", [{"max_rounds": 1}, {"stop": [StopOnTool(tool_name="add")]}], ids=str
)
async def test_a_call_dropped_because_of_max_rounds_or_a_stop_condition_is_closed(
    limits: dict[str, Any],
) -> None:
    stage = _stage(tool_call_response("", "add", "c1", {}), **limits)

    await stage.run()

    (told,) = stage.told(ToolCallCancel)
    assert (told.id, told.name) == ("c1", "add")
    assert told.reason == "the run stopped before its calls were made"
    _assert_closed(stage)


async def test_a_call_that_is_not_json_is_closed_and_the_others_are_made() -> None:
    events = [*HALF, ToolCallStart(id="c2", name="add"), ToolCallDelta(id="c2", args_delta="{}")]
    stage = _stage([*events, Stop(reason=StopReason.TOOL_USE)], "done")

    await stage.run()

    assert [(e.id, e.reason) for e in stage.told(ToolCallCancel)] == [
        ("c1", "it was not valid JSON")
    ]
    assert [event.id for event in stage.told(ToolCallDone)] == ["c2"]
    _assert_closed(stage)


async def test_a_call_of_an_answer_at_the_output_limit_is_closed() -> None:
    """Also one that was whole, and is dropped with the piece it stands in."""
    other = [ToolCallStart(id="c2", name="add"), ToolCallDelta(id="c2", args_delta="{}")]
    stage = _stage([*other, *HALF, Stop(reason=StopReason.MAX_TOKENS)], "done")

    await stage.run()

    assert [event.id for event in stage.told(ToolCallCancel)] == ["c2", "c1"]
    assert {event.reason for event in stage.told(ToolCallCancel)} == {
        "the answer reached the output limit"
    }
    _assert_closed(stage)


async def test_a_call_of_a_model_that_broke_off_is_closed() -> None:
    class Broken:
        name = "broken"

        async def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
            for event in WHOLE:
                yield event
            raise InferenceExecutionError("out of order")

    stage = Stage(Agent("a", model=Broken(), tools=[add]))

    with pytest.raises(AgentLoopError):
        await stage.run()

    (told,) = stage.told(ToolCallCancel)
    assert "out of order" in told.reason
    _assert_closed(stage)


@pytest.mark.parametrize("how", ["cancelled", "left by its caller"])
async def test_a_call_of_a_run_that_ends_in_the_middle_of_it_is_closed(how: str) -> None:
    began = asyncio.Event()

    class Slow:
        name = "slow"

        async def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
            yield TextDelta(delta="I will")
            for event in HALF:
                yield event
            began.set()
            await asyncio.Event().wait()

    stage = Stage(Agent("a", model=Slow(), tools=[add]))
    running = asyncio.create_task(stage.run())
    await began.wait()
    if how == "cancelled":
        stage.runtime.engine.cancel("t")
        await running
    else:
        running.cancel()
        await asyncio.wait([running])

    (told,) = stage.told(ToolCallCancel)
    assert (told.id, told.name) == ("c1", "add")
    _assert_closed(stage)
    kept = [type(e.event) async for e in stage.runtime.events("t", follow=False)]
    assert ToolCallCancel in kept, "who reads later is told, too"


async def test_a_repeated_call_id_has_its_new_id_from_the_first_event_on() -> None:
    """Some providers give every call of an answer the same id."""
    again = [ToolCallStart(id="c1", name="add"), ToolCallDelta(id="c1", args_delta='{"n": 2}')]
    third = [ToolCallStart(id="c1#2", name="add"), ToolCallDelta(id="c1#2", args_delta='{"n": 3}')]
    stage = _stage([*WHOLE, *again, *third, Stop(reason=StopReason.TOOL_USE)], "done")

    await stage.run()

    ids = ["c1", "c1#2", "c1#2#2"]
    assert [event.id for event in stage.told(ToolCallStart)] == ids
    assert [event.id for event in stage.told(ToolCallDelta)] == ids
    assert [event.id for event in stage.told(ToolCallReady)] == ids
    assert [(e.id, e.result.data) for e in stage.told(ToolCallDone)] == [
        ("c1", 1),
        ("c1#2", 2),
        ("c1#2#2", 3),
    ]
    results = [m.tool_call_id for m in await stage.log() if m.role is Role.TOOL]
    assert results == ids
