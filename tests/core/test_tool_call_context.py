"""What a running tool may see and say (01 §1.3)."""

from __future__ import annotations

import operator

import pytest

from awaken.core.event import ActivityDelta, ActivitySnapshot, AgentEvent, ToolCallStreamDelta
from awaken.core.identity import RunIdentity
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command
from awaken.core.state.key import StateKey
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool import ProgressStatus, ToolDescriptor, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits, traits_of

pytestmark = pytest.mark.anyio

COUNT: StateKey[int, int] = StateKey("count", initial=int, apply=operator.add)


class Listener:
    def __init__(self) -> None:
        self.heard: list[AgentEvent] = []

    async def __call__(self, event: AgentEvent) -> None:
        self.heard.append(event)


def context(listener: Listener | None = None) -> ToolCallContext:
    return ToolCallContext(
        call_id="c1",
        tool_name="fetch",
        run_identity=RunIdentity(thread_id="t1", run_id="r1", agent_id="a1"),
        agent_spec=AgentSpec(id="a1", model_id="m", system_prompt=""),
        snapshot=Snapshot(3, {"count": 7}),
        activity_sink=listener,
    )


async def test_activity_replaces_what_was_said_before() -> None:
    listener = Listener()

    await context(listener).report_activity("note", "busy")

    assert listener.heard == [
        ActivitySnapshot(message_id="c1", activity_type="note", content="busy", replace=True)
    ]


@pytest.mark.parametrize(
    "patch", [{"op": "remove", "path": "/a"}, [{"op": "remove", "path": "/a"}]]
)
async def test_a_single_patch_is_wrapped_in_a_list(patch: object) -> None:
    listener = Listener()

    await context(listener).report_activity_delta("note", patch)

    assert listener.heard == [
        ActivityDelta(message_id="c1", activity_type="note", patch=[{"op": "remove", "path": "/a"}])
    ]


async def test_progress_is_reported_in_the_published_shape() -> None:
    """01/C-19: through the context, with the run as parent."""
    listener = Listener()

    await context(listener).report_progress(ProgressStatus.RUNNING, "half", 0.5)

    [event] = listener.heard
    assert isinstance(event, ActivitySnapshot)
    assert (event.message_id, event.activity_type, event.replace) == (
        "c1",
        "tool-call-progress",
        True,
    )
    assert event.content == {
        "schema": "tool-call-progress.v1",
        "node_id": "tool_call:c1",
        "call_id": "c1",
        "tool_name": "fetch",
        "status": "running",
        "progress": 0.5,
        "message": "half",
        "parent_node_id": "run:r1",
        "run_id": "r1",
        "thread_id": "t1",
    }


async def test_output_is_streamed_under_the_calls_name() -> None:
    listener = Listener()

    await context(listener).stream_output("line\n")

    assert listener.heard == [ToolCallStreamDelta(id="c1", name="fetch", delta="line\n")]


async def test_without_a_listener_reporting_does_nothing() -> None:
    silent = context()

    await silent.report_activity("note", "busy")
    await silent.report_activity_delta("note", {})
    await silent.report_progress()
    await silent.stream_output("x")

    assert silent.activity_sink is None


def test_a_tool_reads_the_state_of_when_its_call_began() -> None:
    other: StateKey[int, int] = StateKey("other", initial=int)

    assert context().state(COUNT) == 7
    assert context().state(other) is None


def test_an_output_changes_nothing_unless_it_says_so() -> None:
    assert not ToolOutput(ToolResult.success("t")).command
    assert ToolOutput(ToolResult.success("t"), Command().update(COUNT, 1)).command


class Plain:
    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="plain", name="plain", description="")

    def validate_args(self, args: object) -> object:
        return args

    async def execute(self, args: object, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success("plain", args))


class Careful(Plain):
    traits = ToolTraits(sequential=True, timeout=3)


def test_a_tool_without_traits_has_the_defaults() -> None:
    assert traits_of(Plain()) == ToolTraits(sequential=False, timeout=None)
    assert traits_of(Careful()) == ToolTraits(sequential=True, timeout=3)
