from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from awaken import ToolCallContext, tool
from awaken.codec import Json
from awaken.core.identity import RunIdentity
from awaken.core.message import Message
from awaken.core.spec import AgentSpec
from awaken.core.state.store import StateStore
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.core.tool import ToolDescriptor, ToolResult
from awaken.core.tool_context import Tool, ToolOutput, traits_of
from awaken.stores.memory import MemoryStore
from awaken.testing.chaos import (
    EffectLog,
    KillSwitch,
    Note,
    NoteKind,
    watch_store,
    watch_tool,
)
from awaken.tool import FunctionTool

DIES_AT = """
import sys
from awaken.testing.chaos import KillSwitch, EffectLog

switch = KillSwitch(EffectLog(sys.argv[1]), {int(sys.argv[2])})
for name in ("one", "two", "three"):
    switch.reach(name)
"""


def live(effect_log: Path, kill: int) -> int:
    return subprocess.run([sys.executable, "-c", DIES_AT, str(effect_log), str(kill)]).returncode


def context(key: str = "m1:0") -> ToolCallContext:
    return ToolCallContext(
        call_id="c1",
        tool_name="add",
        run_identity=RunIdentity(thread_id="t1", run_id="r1", agent_id="a"),
        agent_spec=AgentSpec(id="a", model_id="demo", system_prompt=""),
        snapshot=StateStore({}).snapshot(),
        idempotency_key=key,
    )


def seen(effect_log: EffectLog, *kinds: NoteKind) -> list[Note]:
    return [note for note in effect_log.notes() if note.kind in kinds]


@pytest.fixture
def effect_log(tmp_path: Path) -> EffectLog:
    return EffectLog(tmp_path / "effect_log")


# -- the switch -------------------------------------------------------------------------------


def test_the_switch_kills_its_process_at_the_chosen_point(tmp_path: Path) -> None:
    effect_log = tmp_path / "effect_log"
    assert live(effect_log, 2) == -signal.SIGKILL
    assert [note.name for note in EffectLog(effect_log).notes()] == ["one", "two"]


def test_points_are_counted_on_over_the_lives(tmp_path: Path) -> None:
    effect_log = tmp_path / "effect_log"
    live(effect_log, 2)
    assert live(effect_log, 3) == -signal.SIGKILL
    assert live(effect_log, 99) == 0
    assert [note.name for note in EffectLog(effect_log).notes()] == ["one", "two", "one", *_ALL]


_ALL = ["one", "two", "three"]


# -- tools ------------------------------------------------------------------------------------


async def test_a_watched_tool_is_what_it_was_and_leaves_notes(effect_log: EffectLog) -> None:
    @tool(effect="idempotent", sequential=True, timeout=3)
    async def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    watched = watch_tool(add, KillSwitch(effect_log))
    assert isinstance(watched, FunctionTool)
    assert watched.descriptor() is add.descriptor()
    assert traits_of(watched) is add.traits
    output = await watched.execute(watched.validate_args({"a": 1}), context())
    assert output.result == ToolResult.success("add", 3)
    assert [(note.kind, note.name, note.key) for note in effect_log.notes()] == [
        (NoteKind.POINT, "start of add", ""),
        (NoteKind.START, "add", "m1:0"),
        (NoteKind.END, "add", "m1:0"),
        (NoteKind.POINT, "end of add", ""),
    ]


async def test_a_question_is_not_an_end(effect_log: EffectLog) -> None:
    @tool(needs_approval=True)
    async def pay(euros: int) -> int:
        """Pay."""
        return euros

    watched = watch_tool(pay, KillSwitch(effect_log))
    output = await watched.execute(watched.validate_args({"euros": 1}), context())
    assert output.result.suspension is not None
    assert seen(effect_log, NoteKind.END, NoteKind.ASKED)[0].kind is NoteKind.ASKED


async def test_a_tool_that_raises_has_ended_too(effect_log: EffectLog) -> None:
    @tool
    async def fail() -> None:
        """Fail."""
        raise ValueError("no")

    watched = watch_tool(fail, KillSwitch(effect_log))
    with pytest.raises(ValueError, match="no"):
        await watched.execute(watched.validate_args({}), context())
    assert [note.detail for note in seen(effect_log, NoteKind.END)] == ["ValueError"]


async def test_what_a_tool_says_when_it_verifies_is_noted(effect_log: EffectLog) -> None:
    @tool(verify=lambda ctx: ctx.idempotency_key == "m1:0")
    async def send() -> None:
        """Send."""

    watched = watch_tool(send, KillSwitch(effect_log))
    assert await watched.verify(context()) is True  # type: ignore[attr-defined]  # as the loop does
    assert [note.detail for note in seen(effect_log, NoteKind.VERIFIED)] == ["True"]


# -- stores -----------------------------------------------------------------------------------


async def test_what_a_thread_is_sent_is_noted_with_its_commits_and_beside_them(
    effect_log: EffectLog,
) -> None:
    store = watch_store(MemoryStore(), KillSwitch(effect_log))
    await store.open()
    first, second = (
        ThreadCommand(
            thread_id="t1", kind=CommandKind.MESSAGES, messages=(Message.user(id, id=id),)
        )
        for id in ("u1", "u2")
    )
    await store.commit(ThreadCommit(thread_id="t1", expected_length=0, sends=(first,)))
    await store.send(second)
    committed, sent = seen(effect_log, NoteKind.COMMIT, NoteKind.SENT)
    assert committed.detail["sends"] == [["t1", "u1"]]
    assert (sent.name, sent.detail) == ("t1", ["u2"])
    points = [note.name for note in seen(effect_log, NoteKind.POINT)]
    assert points[-2:] == ["before a command", "after a command"]


class Bare:
    """A tool of somebody else's making."""

    __slots__ = ()

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="bare", name="bare", description="Nothing.")

    def validate_args(self, args: Json) -> Json:
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success("bare", args))


async def test_any_tool_can_be_watched(effect_log: EffectLog) -> None:
    watched: Tool = watch_tool(Bare(), KillSwitch(effect_log))
    assert traits_of(watched) == traits_of(Bare())
    output = await watched.execute({"a": 1}, context())
    assert output.result.data == {"a": 1}
    assert len(seen(effect_log, NoteKind.START, NoteKind.END)) == 2
