"""SIGKILL in the middle of an answer: the next process goes on with what had come."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from half_an_answer import add

from awaken import Agent, Runtime
from awaken.core.event import (
    RunEvent,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.inference import StopReason
from awaken.core.llm import LlmStreamEvent, Stop
from awaken.core.message import Message, Role
from awaken.testing import ScriptedModel
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("half_an_answer.py")
END = Stop(reason=StopReason.END_TURN)


def killed(database: Path, plan: str) -> str:
    """The address of a store whose process was killed with half an answer on disk."""
    command = [sys.executable, str(PROGRAM), str(database), plan]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        process.kill()
    return f"sqlite:///{database}"


class Ear:
    """Hears what a runtime tells."""

    def __init__(self) -> None:
        self.events: list[object] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event.event)

    async def close(self) -> None: ...


async def recovered(
    store: str, *script: Sequence[LlmStreamEvent] | str
) -> tuple[ScriptedModel, Sequence[Message]]:
    model = ScriptedModel(script, name="m")
    async with Runtime([Agent("a", model=model, tools=[add])], store=store) as runtime:
        (run,) = runtime.recovered
        await run
        return model, await runtime.messages("t")


async def test_text_is_gone_on_with_in_another_process(tmp_path: Path) -> None:
    """02/E5: restore sends prefix and prompt once, and what was kept is gone."""
    store = killed(tmp_path / "a.db", "text")
    model, log = await recovered(store, "answer.")
    assert [message.text() for message in log] == ["go", "Half of the answer."]
    (request,) = model.requests
    assert request.messages[-2].text() == "Half of the "
    assert "interrupted mid-stream" in request.messages[-1].text()
    async with Runtime([Agent("a", model=ScriptedModel(["new"]))], store=store) as runtime:
        context = await runtime.store.load_context("t")
        assert context is not None
        assert context.stream_log == ()
        assert (await runtime.run("a", "more", thread="t")).response == "new"


async def test_calls_that_were_whole_are_carried_out_without_asking_again(tmp_path: Path) -> None:
    """02/E5: a restore of completed calls never opens a stream."""
    store = killed(tmp_path / "a.db", "call")
    model, log = await recovered(store, "3")
    assert model.calls == 1  # the next step's
    assert [message.text() for message in log] == ["go", "I add. ", "3", "3"]
    assert [call.id for call in log[1].tool_calls or ()] == ["a"]


async def test_a_half_written_call_is_dropped_and_written_anew(tmp_path: Path) -> None:
    store = killed(tmp_path / "a.db", "half-call")
    again: list[LlmStreamEvent] = [
        TextDelta(delta=": "),
        ToolCallStart(id="a", name="add"),
        ToolCallDelta(id="a", args_delta='{"a": 1, "b": 2}'),
        Stop(reason=StopReason.TOOL_USE),
    ]
    model, log = await recovered(store, again, "3")
    assert model.calls == 2
    assert [message.text() for message in log] == ["go", "I add: ", "3", "3"]
    assert [m.role for m in log] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


async def test_whoever_listens_in_the_next_process_hears_all_of_it(tmp_path: Path) -> None:
    store = killed(tmp_path / "a.db", "half-call")
    model = ScriptedModel([[TextDelta(delta=" nothing."), END]], name="m")
    agent = Agent("a", model=model, tools=[add])
    ear = Ear()
    async with Runtime([agent], store=store, recover=False) as runtime:
        context = await runtime.store.load_context("t")
        assert context is not None
        assert context.open_run is not None
        request = RunRequest(thread_id="t", continue_run_id=context.open_run.run_id)
        result = await runtime.engine.run(request, ear)
        assert result.response == "I add nothing."
    heard = ear.events
    assert "".join(e.delta for e in heard if isinstance(e, TextDelta)) == "I add nothing."
    assert [e.id for e in heard if isinstance(e, ToolCallCancel)] == ["a"]
    assert not any(isinstance(e, StreamReset) for e in heard)


async def test_another_question_is_not_answered_with_it(tmp_path: Path) -> None:
    """02/DB-27: kept by question."""
    store = killed(tmp_path / "a.db", "text")
    model = ScriptedModel(["All new."], name="m")
    agent = Agent("a", model=model, tools=[add])
    async with Runtime([agent], store=store, recover=False) as runtime:
        result = await runtime.run("a", "Something else", thread="t")
        assert result.response == "All new."
        context = await runtime.store.load_context("t")
        assert context is not None
        assert context.stream_log == ()
    assert all("interrupted" not in m.text() for m in model.requests[0].messages)
