"""Commits that are too large for a row: refused by name, and the thread stays usable (06 §2.10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    Command,
    Message,
    Runtime,
    Scope,
    StateKey,
    ToolCallContext,
    ToolDescriptor,
    ToolOutput,
)
from awaken.core.lifecycle import Failed, RunStatus
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.tool import ToolResult
from awaken.errors import CommitTooLarge, StorageError
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel, text_response, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

LARGE = "x" * (1024 * 1024 + 1)
NOTES: StateKey[str, str] = StateKey("notes", initial=str, scope=Scope.THREAD)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "awaken.db")
    await opened.open()
    yield opened
    await opened.close()


class Notes:
    """A plugin that declares the notes."""

    id = "notes"

    def register(self, registrar: Any) -> None:
        registrar.key(NOTES)


class WriteNotes:
    """A tool that writes too much into the state."""

    def descriptor(self) -> Any:
        return ToolDescriptor(id="write", name="write", description="Write.")

    def validate_args(self, args: Any) -> Any:
        return args

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success("write", "ok"), Command().update(NOTES, LARGE))


async def refusal_of(runtime: Runtime, input: str) -> CommitTooLarge:
    """How a run in the thread ends whose commit is refused; its record says so, too."""
    with pytest.raises(StorageError) as raised:
        await runtime.run("a", input, thread="t")
    assert isinstance(raised.value.cause, CommitTooLarge)
    thread = await runtime.store.load_thread("t")
    assert thread is not None
    assert thread.open_run_id is None
    record = await runtime.find_run(thread.latest_run_id or "")
    assert record is not None
    assert record.status is RunStatus.DONE
    assert isinstance(record.termination_reason, Failed)
    assert "more than 1048576" in record.termination_reason.value
    return raised.value.cause


async def test_a_message_that_is_too_large_is_refused(store: SqliteStore) -> None:
    model = ScriptedModel(["hello", "fine"])
    async with Runtime([Agent("a", model=model)], store=store) as runtime:
        await runtime.run("a", "hi", thread="t")
        error = await refusal_of(runtime, LARGE)
        await runtime.run("a", "shorter", thread="t")
        said = [message.text() for message in await runtime.messages("t")]

    name, size = error.parts[0]
    assert name.startswith("message '")
    assert name.endswith("(user)")
    assert size > len(LARGE)
    assert said == ["hi", "hello", "shorter", "fine"]


async def test_an_answer_that_is_too_large_is_refused(store: SqliteStore) -> None:
    model = ScriptedModel([text_response(LARGE), "fine"])
    async with Runtime([Agent("a", model=model)], store=store) as runtime:
        error = await refusal_of(runtime, "write a book")
        result = await runtime.run("a", "shorter", thread="t")
        messages = await runtime.messages("t")

    assert any(name.endswith("(assistant)") for name, _ in error.parts)
    assert result.response == "fine"
    assert [m.text() for m in messages][-2:] == ["shorter", "fine"]


async def test_state_that_is_too_large_is_refused(store: SqliteStore) -> None:
    """The call whose outcome was in that commit is told to the model as unknown."""
    model = ScriptedModel([tool_call_response("", "write", "c1", {}), "fine"])
    writer = Agent("a", model=model, tools=[WriteNotes()], plugins=[Notes()])
    async with Runtime([writer], store=store) as runtime:
        error = await refusal_of(runtime, "go")
        assert (await runtime.run("a", "and?", thread="t")).response == "fine"
        assert await runtime.state("t", NOTES) == ""

    assert error.parts[0][0] == "state key 'notes'"
    assert "unknown" in model.requests[1].messages[-2].text()


async def test_arguments_that_are_too_large_are_refused(store: SqliteStore) -> None:
    made: list[str] = []

    def note(text: str) -> str:
        """Note it."""
        made.append(text)
        return "ok"

    model = ScriptedModel([tool_call_response("", "note", "c1", {"text": LARGE}), "fine"])
    async with Runtime([Agent("a", model=model, tools=[note])], store=store) as runtime:
        await refusal_of(runtime, "go")
        assert (await runtime.run("a", "and?", thread="t")).response == "fine"

    assert made == [], "its intent was not on record"


async def test_much_at_once_is_fine_if_no_row_is_too_large(store: SqliteStore) -> None:
    model = ScriptedModel(["fine"])
    many = [Message.user("x" * 1_000) for _ in range(900)]
    async with Runtime([Agent("a", model=model)], store=store) as runtime:
        assert (await runtime.run("a", many, thread="t")).response == "fine"


async def test_many_results_at_once_are_committed_apart(store: SqliteStore) -> None:
    """Each stays in the log, as it is within the limit; in one row they would be too much."""

    async def fetch(of: str) -> str:
        """Fetch it."""
        return of * 60_000

    calls = [("fetch", f"c{number}", {"of": str(number)}) for number in range(10)]
    model = ScriptedModel([tool_calls_response("", *calls), "fine"])
    async with Runtime([Agent("a", model=model, tools=[fetch])], store=store) as runtime:
        assert (await runtime.run("a", "go", thread="t")).response == "fine"
        results = [m.text() for m in await runtime.messages("t") if m.tool_call_id]

    assert results == [str(number) * 60_000 for number in range(10)]


async def test_a_queued_message_that_is_too_large_is_refused_once(store: SqliteStore) -> None:
    model = ScriptedModel(["hello", "fine", "fine"])
    async with Runtime([Agent("a", model=model)], store=store, recover=False) as runtime:
        await runtime.run("a", "hi", thread="t")
        large = (Message.user(LARGE),)
        await store.send(ThreadCommand(thread_id="t", kind=CommandKind.MESSAGES, messages=large))
        await refusal_of(runtime, "and?")
        assert (await runtime.run("a", "again", thread="t")).response == "fine"
