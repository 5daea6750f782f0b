"""An answer reaches the question it was given to, whatever the ids of calls are."""

from __future__ import annotations

from typing import Any

import pytest

from awaken import Agent, Runtime, ToolCallResume, tool
from awaken.core.message import Role
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus, call_digest, is_digest_of
from awaken.errors import ConfigError, InvalidResume
from awaken.testing import FunctionModel, text_response, tool_call_response

T = "t"


class Bank:
    """A desk whose model gives every call the id `c1`: first it deletes a file, then everything."""

    def __init__(self, *paths: str) -> None:
        self.deleted: list[str] = []
        wanted = list(paths)

        @tool(needs_approval=True)
        async def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return "deleted"

        def answer(request: Any) -> Any:
            if request.messages[-1].role is Role.USER and wanted:
                return tool_call_response("", "delete", "c1", {"path": wanted.pop(0)})
            return text_response("done")

        self.runtime = Runtime([Agent("a", model=FunctionModel(answer), tools=[delete])])


@pytest.fixture
async def bank() -> Any:
    desk = Bank("notes.txt", "/")
    async with desk.runtime:
        yield desk


@pytest.mark.parametrize("name", ["ticket_id", "tool_call_id"])
@pytest.mark.parametrize("door", ["run", "decide"])
async def test_a_bare_yes_never_reaches_the_question_that_took_an_id_over(
    bank: Bank, name: str, door: str
) -> None:
    """The approver saw the first question; a new message has superseded it meanwhile."""
    (seen,) = (await bank.runtime.run("a", "clean up", thread=T)).tickets
    (now,) = (await bank.runtime.run("a", "something else", thread=T)).tickets
    target = getattr(seen, name)
    assert target == getattr(now, name), "the ids are the same"
    with pytest.raises(InvalidResume, match="may use the same ticket id"):
        await answer(bank.runtime, door, {target: True})
    with pytest.raises(InvalidResume, match="may use the same ticket id"):
        await answer(bank.runtime, door, {target: ToolCallResume.approve(by="ann", digest="")})
    with pytest.raises(InvalidResume):
        await answer(bank.runtime, door, {target: ToolCallResume.approve(digest=seen.digest)})
    assert bank.deleted == []
    (still,) = await bank.runtime.list_tickets()
    assert still.status is TicketStatus.OPEN


@pytest.mark.parametrize("door", ["run", "decide"])
async def test_a_ticket_that_was_superseded_takes_no_answer(bank: Bank, door: str) -> None:
    (seen,) = (await bank.runtime.run("a", "clean up", thread=T)).tickets
    await bank.runtime.run("a", "something else", thread=T)
    for target in (seen, seen.key):
        with pytest.raises(InvalidResume):
            await answer(bank.runtime, door, {target: True})
    assert bank.deleted == []


async def test_a_superseded_question_that_comes_again_word_for_word_is_a_new_one() -> None:
    """Its digest is the same: the key tells them apart."""
    bank = Bank("/", "/")
    async with bank.runtime:
        (seen,) = (await bank.runtime.run("a", "clean up", thread=T)).tickets
        await bank.runtime.run("a", "again", thread=T)
        with pytest.raises(InvalidResume):
            await bank.runtime.run(thread=T, answers={seen: True})
    assert bank.deleted == []


@pytest.mark.parametrize("door", ["run", "decide"])
@pytest.mark.parametrize("way", ["ticket", "listed", "key", "id and digest"])
async def test_a_ticket_is_answered_by_itself_its_key_or_its_digest(
    bank: Bank, door: str, way: str
) -> None:
    (shown,) = (await bank.runtime.run("a", "clean up", thread=T)).tickets
    (listed,) = await bank.runtime.list_tickets()
    ways: dict[str, dict[Any, Any]] = {
        "ticket": {shown: True},
        "listed": {listed: True},
        "key": {listed.key: True},
        "id and digest": {shown.ticket_id: ToolCallResume.approve(digest=shown.digest)},
    }
    await answer(bank.runtime, door, ways[way])
    assert bank.deleted == ["notes.txt"]
    (kept,) = await bank.runtime.list_tickets(TicketQuery())
    assert kept.status is TicketStatus.ANSWERED


async def test_a_decision_with_another_digest_is_refused_with_the_ticket_itself(
    bank: Bank,
) -> None:
    (shown,) = (await bank.runtime.run("a", "clean up", thread=T)).tickets
    forged = ToolCallResume.approve(digest=call_digest("r", "delete", {}))
    with pytest.raises(InvalidResume):
        await bank.runtime.run(thread=T, answers={shown: forged})
    assert bank.deleted == []


async def test_a_call_id_that_is_another_tickets_key_takes_no_answer_from_it(bank: Bank) -> None:
    """A model, or a tool, may choose ids; keys are ours."""
    (shown,) = (await bank.runtime.run("a", "clean up", thread=T)).tickets
    key = shown.key or ""

    def imitate(request: Any) -> Any:
        if request.messages[-1].role is Role.TOOL:
            return text_response("done")
        return tool_call_response("", "delete", key, {"path": "/"})

    ran: list[str] = []

    @tool(needs_approval=True)
    async def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    async with Runtime([Agent("a", model=FunctionModel(imitate), tools=[delete])]) as other:
        (imitated,) = (await other.run("a", "go", thread=T)).tickets
        assert imitated.tool_call_id == key
        with pytest.raises(InvalidResume):
            await other.run(thread=T, answers={key: True})
        with pytest.raises(InvalidResume):
            await other.run(thread=T, answers={shown: True})
    assert ran == []


@pytest.mark.parametrize("target", [3, None, ("c1",)])
async def test_what_is_no_ticket_is_no_target(bank: Bank, target: Any) -> None:
    await bank.runtime.run("a", "clean up", thread=T)
    with pytest.raises(ConfigError, match="a ticket or its key"):
        await bank.runtime.run(thread=T, answers={target: True})


def test_a_question_of_earlier_days_keeps_its_shorter_digest() -> None:
    digest = call_digest("r", "pay", {"euros": 3})
    assert len(digest) == 32
    assert is_digest_of(digest, digest)
    assert is_digest_of(digest[:16], digest)
    assert not is_digest_of(digest[:8], digest)
    assert not is_digest_of("", digest)


async def answer(runtime: Runtime, door: str, answers: dict[Any, Any]) -> None:
    if door == "run":
        await runtime.run(thread=T, answers=answers)
        return
    await runtime.decide(T, answers)
    await runtime.wait(T)
