"""What somebody reads whose answer to a ticket was refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from awaken.core.suspension import Decision, ToolCallResume
from awaken.errors import DecisionRefused
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import WAITING, expect_error, record, ticket, write

pytestmark = pytest.mark.anyio

YES = ToolCallResume.approve


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "awaken.db")
    asked = (
        ticket("m:0", call_id="same", tool_name="pay"),
        ticket("m:1", call_id="same", tool_name="ship", expires_at=1_000),
        ticket("m:2", digest="of what was asked"),
    )
    await write(store, run=record("r", status=WAITING), tickets=asked)
    yield store
    await store.close()


async def why(store: SqliteStore, *decisions: Decision, at_ms: int = 500) -> str:
    refusal = await expect_error(DecisionRefused, store.decide("t", decisions, at_ms=at_ms))
    return refusal.why


async def test_an_unknown_ticket_is_answered_with_those_that_wait(store: SqliteStore) -> None:
    said = await why(store, ("m:7", YES()))
    assert said == "no such ticket; waiting: 'm:0' (pay), 'm:1' (ship), 'm:2' (tool)"

    refusal = await expect_error(
        DecisionRefused, store.decide("elsewhere", [("m:0", YES())], at_ms=1)
    )
    assert refusal.why == "no ticket of the thread is waiting"


async def test_a_name_of_several_is_answered_with_their_keys(store: SqliteStore) -> None:
    said = await why(store, ("same", YES()))
    assert said == "several open tickets match, name one by its key: 'm:0', 'm:1'"


async def test_a_second_answer_hears_of_the_first(store: SqliteStore) -> None:
    await store.decide("t", [("m:0", YES(by="ann"))], at_ms=86_400_000)

    said = await why(store, ("m:0", ToolCallResume.deny(by="bob")))
    assert said == "it was approved 1970-01-02T00:00:00+00:00 by ann"


async def test_an_answer_to_a_denied_ticket_hears_of_an_approver_without_a_name(
    store: SqliteStore,
) -> None:
    await store.decide("t", [("m:0", ToolCallResume.deny())], at_ms=86_400_000)

    said = await why(store, ("m:0", YES(by="bob")))
    assert said == "it was denied 1970-01-02T00:00:00+00:00 by an unnamed approver"


async def test_a_late_answer_hears_when_the_ticket_expired(store: SqliteStore) -> None:
    said = await why(store, ("m:1", YES()), at_ms=1_001)
    assert said == "the ticket expired 1970-01-01T00:00:01+00:00"


async def test_an_answer_to_something_else_hears_what_was_asked(store: SqliteStore) -> None:
    said = await why(store, ("m:2", YES(digest="of something else")))
    assert said == (
        "it answers the question with digest 'of something else', but the question now has "
        "'of what was asked': read the ticket 'm:2' again"
    )


async def test_a_ticket_nobody_needs_says_so(store: SqliteStore) -> None:
    await write(store, run=record("r", status=WAITING), tickets=())
    await write(store, run=record("r", status=record("r").status.DONE))

    said = await why(store, ("m:2", YES()))
    assert said == "the ticket is closed: the run no longer waits for an answer"
