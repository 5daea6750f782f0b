"""What of a child run's events its parent's listeners get to see (03 §4.3)."""

from __future__ import annotations

import pytest

from awaken.backend import ProgressForwardingSink, StreamingPassthroughSink
from awaken.codec import to_json
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    CollectingSink,
    Error,
    ReasoningDelta,
    RunEvent,
    RunStart,
    TextDelta,
    ToolCallReady,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.core.identity import RunIdentity
from awaken.core.spec import AgentSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool import PROGRESS_ACTIVITY, ProgressStatus, ToolCallProgress
from awaken.core.tool_context import ToolCallContext
from awaken.errors import ConfigError

pytestmark = pytest.mark.anyio


def of(run_id: str, event: AgentEvent) -> RunEvent:
    return RunEvent(thread_id=run_id, run_id=run_id, at_ms=1, event=event)


def child(event: AgentEvent) -> RunEvent:
    return of("child", event)


def progress(call_id: str, kind: str = PROGRESS_ACTIVITY) -> ActivitySnapshot:
    identity = RunIdentity(thread_id="child", run_id="child", agent_id="a")
    report = ToolCallProgress.of(call_id, "work", ProgressStatus.RUNNING, identity)
    return ActivitySnapshot(message_id=call_id, activity_type=kind, content=to_json(report))


BEGUN = RunStart(thread_id="child", run_id="child")


# -- progress ---------------------------------------------------------------------------------


async def test_progress_of_the_childs_own_calls_is_passed_on() -> None:
    """03 §4.3: calls are remembered from their start; the events go on as they are."""
    parent = CollectingSink()
    sink = ProgressForwardingSink(parent)
    told = [child(progress("c1")), child(progress("c2"))]

    await sink.emit(child(BEGUN))
    await sink.emit(child(ToolCallStart(id="c1", name="work")))
    await sink.emit(child(ToolCallReady(id="c2", name="work", arguments={})))
    for event in told:
        await sink.emit(event)

    assert parent.events() == told


@pytest.mark.parametrize(
    "event",
    [
        child(progress("unknown")),
        child(progress("c1", kind="a2a-task-progress")),
        child(ActivitySnapshot(message_id="c1", activity_type=PROGRESS_ACTIVITY, content="text")),
        child(ActivitySnapshot(message_id="c1", activity_type=PROGRESS_ACTIVITY, content={})),
        child(ActivityDelta(message_id="c1", activity_type=PROGRESS_ACTIVITY, patch=[])),
        child(TextDelta(delta="hello")),
        child(Error(message="boom")),
        child(ToolCallStart(id="c3", name="work")),
        of("grandchild", progress("c1")),
    ],
)
async def test_everything_else_is_dropped(event: RunEvent) -> None:
    """03/MH-4 unknown call progress and other activity types dropped."""
    parent = CollectingSink()
    sink = ProgressForwardingSink(parent)
    await sink.emit(child(BEGUN))
    await sink.emit(child(ToolCallStart(id="c1", name="work")))

    await sink.emit(event)

    assert parent.events() == []


async def test_calls_of_grandchildren_are_not_the_childs() -> None:
    """03 §4.3: direct children, though the others speak through the same sink."""
    parent = CollectingSink()
    sink = ProgressForwardingSink(parent)
    await sink.emit(child(BEGUN))

    await sink.emit(of("grandchild", ToolCallStart(id="g1", name="work")))
    await sink.emit(of("grandchild", progress("g1")))
    await sink.emit(child(progress("g1")))

    assert parent.events() == []


# -- text -------------------------------------------------------------------------------------


class Listener:
    """The parent's side of a call."""

    def __init__(self, *, forwards: bool = True) -> None:
        self.told: list[AgentEvent] = []
        self.forwarded: list[RunEvent] = []
        self.ctx = ToolCallContext(
            call_id="call-1",
            tool_name="agent_run_a",
            run_identity=RunIdentity(thread_id="t", run_id="r", agent_id="parent"),
            agent_spec=AgentSpec(id="parent", model_id="m", system_prompt=""),
            snapshot=Snapshot(0, {}),
            activity_sink=self._tell,
            forward=self._forward if forwards else None,
        )

    async def _tell(self, event: AgentEvent) -> None:
        self.told.append(event)

    async def _forward(self, event: RunEvent) -> None:
        self.forwarded.append(event)

    def said(self) -> list[tuple[str, str, str]]:
        return [
            (event.id, event.name, event.delta)
            for event in self.told
            if isinstance(event, ToolCallStreamDelta)
        ]


async def test_a_childs_text_is_the_output_of_the_call() -> None:
    """03 §4.3: as stream deltas of the parent's call, and in a buffer; nothing else is passed."""
    parent = Listener()
    sink = StreamingPassthroughSink(parent.ctx)

    for event in (
        child(BEGUN),
        child(ReasoningDelta(delta="hm")),
        child(TextDelta(delta="hello ")),
        of("grandchild", TextDelta(delta="aside")),
        child(progress("c1")),
        child(TextDelta(delta="world")),
    ):
        await sink.emit(event)

    assert parent.said() == [
        ("call-1", "agent_run_a", "hello "),
        ("call-1", "agent_run_a", "world"),
    ]
    assert len(parent.told) == 2
    assert parent.forwarded == []
    assert sink.text == "hello world"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Error(message="boom", code="storage"), "[child error storage: boom]"),
        (Error(message="boom"), "[child error: boom]"),
    ],
)
async def test_errors_are_said_in_words_outside_the_buffer(error: Error, words: str) -> None:
    """03 §4.3: `wrap`, the default, with and without a code."""
    parent = Listener()
    sink = StreamingPassthroughSink(parent.ctx)

    await sink.emit(child(TextDelta(delta="so far")))
    await sink.emit(child(error))

    assert [delta for _, _, delta in parent.said()] == ["so far", words]
    assert sink.text == "so far"
    assert parent.forwarded == []


async def test_errors_are_dropped_or_passed_on_as_they_are() -> None:
    """03 §4.3: `drop` and `forward`; neither is in the buffer or in words."""
    error = child(Error(message="boom", code="storage"))
    dropping, forwarding = Listener(), Listener()
    sinks = [
        StreamingPassthroughSink(dropping.ctx, "drop"),
        StreamingPassthroughSink(forwarding.ctx, "forward"),
        StreamingPassthroughSink(Listener(forwards=False).ctx, "forward"),
    ]

    for sink in sinks:
        await sink.emit(error)

    assert (dropping.told, dropping.forwarded) == ([], [])
    assert (forwarding.told, forwarding.forwarded) == ([], [error])
    assert [sink.text for sink in sinks] == ["", "", ""]


def test_an_error_mode_nobody_knows_is_refused() -> None:
    """Bad input: what there is."""
    with pytest.raises(ConfigError, match="drop, wrap or forward, not 'hide'"):
        StreamingPassthroughSink(Listener().ctx, "hide")  # type: ignore[arg-type]
