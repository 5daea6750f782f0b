"""Writing to a run while it lives (02 §5.9, 01 §6.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_stage import THREAD, CheckedModel, Stage, TestPlugin, assert_event_order

from awaken import Agent, Message, PhaseContext, ToolCallResume, tool
from awaken.core.event import RunFinish
from awaken.core.inbox import inbox_channel
from awaken.core.lifecycle import NATURAL_END, Failed, Phase, RunStatus
from awaken.core.message import Role
from awaken.errors import InvalidResume
from awaken.testing import tool_call_response

pytestmark = pytest.mark.anyio


def said(messages: list[Message]) -> list[str]:
    return [message.text() for message in messages if message.role is Role.USER]


async def test_a_message_during_a_tool_is_in_the_next_request() -> None:
    """02 §5.3: the inbox is read between steps, behind the results."""

    @tool
    async def look() -> str:
        assert await stage.engine.send_messages(THREAD, [Message.user("faster")])
        assert await stage.engine.send_messages(THREAD, [Message.user("please")])
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[look]))

    result = await stage.run()

    assert result.response == "done"
    assert [m.role for m in model.requests[1]] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
        Role.USER,
    ]
    assert said(model.requests[1]) == ["hi", "faster", "please"]
    assert [text for _, text in await stage.texts()] == [
        "hi",
        "",
        "seen",
        "faster",
        "please",
        "done",
    ]


async def test_a_message_during_the_last_answer_is_answered_too() -> None:
    """02 §5.3: new messages at the natural end make the run go on."""

    async def answer() -> str:
        await stage.engine.send_messages(THREAD, [Message.user("one more thing")])
        return "that is all"

    model = CheckedModel(lambda _: answer(), "and that too")
    stage = Stage(Agent("a", model=model))

    result = await stage.run()

    assert (result.response, result.steps) == ("and that too", 2)
    assert said(model.requests[1]) == ["hi", "one more thing"]
    assert_event_order(stage.sink.events())


async def test_a_message_while_suspended_waits_for_the_decision() -> None:
    """02 §5.8: appended and kept, the model is not asked; it reads it after the decision."""

    @tool(needs_approval=True)
    async def launch() -> str:
        return "up"

    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[launch]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        assert await stage.engine.send_messages(THREAD, [Message.user("hurry")])
        assert await stage.decide(("c1", ToolCallResume.approve()))

    assert run.result().response == "done"
    assert model.calls == 2
    assert said(model.requests[1]) == ["hi", "hurry"]


async def test_a_message_to_a_run_that_is_ending_is_refused() -> None:
    """01 §6.4: accepted is kept; what comes too late is not accepted."""
    answers: list[bool] = []

    async def write(_: PhaseContext) -> None:
        answers.append(await stage.engine.send_messages(THREAD, [Message.user("too late")]))

    model = CheckedModel("done")
    stage = Stage(Agent("a", model=model, plugins=[TestPlugin({Phase.RUN_END: write})]))

    result = await stage.run()

    assert result.termination == NATURAL_END
    assert answers == [False]
    assert "too late" not in said(await stage.log())


async def test_a_message_before_an_early_end_is_kept() -> None:
    """Design §1: a stop, a block or a pause loses nothing that was accepted."""

    @tool(needs_approval=True)
    async def launch() -> str:
        return "up"

    async def write(ctx: PhaseContext) -> None:
        if len(ctx.messages) < 3:
            assert await stage.engine.send_messages(THREAD, [Message.user("by the way")])

    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "done")
    plugin = TestPlugin({Phase.AFTER_INFERENCE: write})
    stage = Stage(Agent("a", model=model, tools=[launch], plugins=[plugin]))

    await stage.run()
    assert said(await stage.log()) == ["hi", "by the way"]
    await stage.resume(("c1", ToolCallResume.approve()))

    assert said(model.requests[1]) == ["hi", "by the way"]


async def test_only_a_live_run_can_be_written_to() -> None:
    """01 §6.4: false for unknown ids, for no messages, and after the end."""
    answers: list[bool] = []

    @tool
    async def look() -> str:
        record = await stage.record()
        answers.append(await stage.engine.send_messages(record.run_id, [Message.user("by run id")]))
        answers.append(await stage.engine.send_messages(THREAD, []))
        answers.append(await stage.engine.send_messages("ghost", [Message.user("hello?")]))
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[look]))

    await stage.run()

    assert answers == [True, False, False]
    assert await stage.engine.send_messages(THREAD, [Message.user("hello?")]) is False
    assert said(model.requests[1]) == ["hi", "by run id"]


async def test_an_inbox_of_ones_own_is_the_runs_only_inbox() -> None:
    """01 §6.4: the runtime has no way in then, and says so; events are wrapped for the model."""
    sender, receiver = inbox_channel()
    answers: list[bool] = []

    @tool
    async def look() -> str:
        answers.append(await stage.engine.send_messages(THREAD, [Message.user("hello?")]))
        answers.append(sender.send({"kind": "progress", "task_id": "bg-7", "done": 0.5}))
        answers.append(sender.send({"note": "no kind"}))
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[look]))

    await stage.run(run_inbox=receiver)

    assert answers == [False, True, True]
    first, second = model.requests[1][-2:]
    assert first.text() == (
        '<background-task-event kind="progress" task_id="bg-7">\n'
        '{"kind":"progress","task_id":"bg-7","done":0.5}\n</background-task-event>'
    )
    assert second.text().startswith("<background-task-event ")
    assert not first.is_visible_user()
    assert sender.send({}) is False, "the run is over"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"kind": "messages"}, "inbox messages payload is missing a messages array"),
        ({"kind": "messages", "messages": 7}, "inbox messages payload is missing a messages array"),
        ({"kind": "messages", "messages": [{"role": "nobody"}]}, "inbox message 0 is malformed"),
    ],
)
async def test_a_malformed_message_ends_the_run_with_its_reason(payload: Any, text: str) -> None:
    """02 §5.9 [R6]: InvalidResume, and the run is closed like any other that breaks off."""
    sender, receiver = inbox_channel()

    @tool
    async def look() -> str:
        sender.send(payload)
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "fine")
    stage = Stage(Agent("a", model=model, tools=[look]))

    with pytest.raises(InvalidResume, match=text):
        await stage.run(run_inbox=receiver)

    assert_event_order(stage.sink.events())
    record = await stage.record()
    assert record.status is RunStatus.DONE
    assert isinstance(record.termination_reason, Failed)
    assert (await stage.run("again")).response == "fine"
