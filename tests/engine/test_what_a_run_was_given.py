"""Which stretch of the log a run has read, which part of it is its own, and names of questions."""

from __future__ import annotations

from typing import Any

import pytest
from loop_stage import CheckedModel, Stage
from msgspec.structs import replace

from awaken import Agent, Runtime, Suspend, tool
from awaken.core.message import Message
from awaken.core.run import MessageSeqRange, RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.suspension import SuspendTicket, Suspension
from awaken.errors import InferenceFailed
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


def _range(first: int, last: int) -> MessageSeqRange:
    return MessageSeqRange(from_seq=first, to_seq=last)


def _input(record: RunRecord) -> MessageSeqRange | None:
    assert record.input is not None
    return record.input.range


async def test_a_later_run_has_read_the_log_from_its_beginning() -> None:
    """Seeds 001 and 003: the input of a run is `[1, n]`; `own_input` is what it was asked with."""
    stage = Stage(Agent("a", model=CheckedModel("one", "two")))
    await stage.run("first")
    await stage.run("second")

    record = await stage.record()

    assert (_input(record), record.own_input) == (_range(1, 3), _range(3, 3))
    assert record.output is not None
    assert record.output.range == _range(4, 4)


async def test_a_run_asked_with_messages_in_the_log_has_read_all_of_it() -> None:
    stage = Stage(Agent("a", model=CheckedModel("one", "two")))
    await stage.run("first")
    await stage.store.send(
        ThreadCommand(
            thread_id="t", kind=CommandKind.MESSAGES, messages=(Message.user("sent", id="s"),)
        )
    )

    await stage.run("second")

    record = await stage.record()
    assert (_input(record), record.own_input) == (_range(1, 4), _range(3, 4))


async def test_what_others_say_at_the_end_of_a_run_is_no_output_of_it() -> None:
    """The range ends with the last message that the run has made, whatever follows it."""
    runtime: Runtime

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        assert await runtime.send("t", "hurry up")
        return "seen"

    model = ScriptedModel([tool_call_response("", "look", "c1", {}), ValueError("no idea")])
    async with Runtime([Agent("a", model=model, tools=[look])]) as runtime:
        with pytest.raises(InferenceFailed):
            await runtime.run("a", "go", thread="t")
        (record,) = await runtime.list_runs()
        said = [message.text() for message in await runtime.messages("t")]

    assert said == ["go", "", "seen", "hurry up"]
    assert record.output is not None
    assert record.output.range == _range(2, 3)


async def test_what_an_earlier_version_kept_is_the_runs_own_input() -> None:
    stage = Stage(Agent("a", model=CheckedModel("one", "two")))
    await stage.run("first")
    record = await stage.record()
    assert record.own_input == _range(1, 1)

    old = _with_input(record, _range(3, 3))

    assert old.own_input == _range(3, 3)


def _with_input(record: RunRecord, given: MessageSeqRange) -> RunRecord:
    assert record.input is not None
    return replace(record, input=replace(record.input, range=given))


@pytest.mark.parametrize(("given", "kept"), [(" q 1 ", " q 1 "), ("  ", "c1")])
async def test_the_id_of_a_question_is_kept_as_it_is_given(given: str, kept: str) -> None:
    """Seed 003: only a blank one gives way to the call's."""

    class Asks:
        id = "asks"

        def register(self, registrar: Any) -> None:
            registrar.gate(self.ask)

        async def ask(self, _: Any) -> Suspend:
            return Suspend(ticket=SuspendTicket(suspension=Suspension(id=given)))

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[Asks()]))

    result = await stage.run()

    assert [ticket.ticket_id for ticket in result.tickets] == [kept]
    (asked,) = await stage.runtime.list_tickets()
    assert asked.ticket_id == kept
    answered = await stage.runtime.run(thread="t", answers={asked.key: True})
    assert answered.response == "done"
