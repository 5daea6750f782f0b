"""No argument of a public method spoils a store, or leads to an error that is not true.

These are samples; `make proof` tries every value on every store.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from every_argument import find_poison, find_poison_in_lists, try_all, untried

from awaken import Message, Runtime
from awaken.core.event import TextDelta
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Role
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase
from awaken.stores.memory import MemoryStore
from awaken.testing.conformance.helpers import event, line, record, says, ticket, write
from poisoned_kit import IN_LISTS, agents, poison_postgres, poison_sqlite
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio
STORES = ("memory", "sqlite", "postgres")
STEPS = {"memory": 4, "sqlite": 7, "postgres": 29}
"""One of how many calls is made: numbers that have no common factor with that of the values."""


def test_every_public_method_is_tried() -> None:
    assert not untried()


WRONG: Any = 7
BAD_COMMITS: dict[str, dict[str, Any]] = {
    "a run": {"run": record("r", status=RunStatus.DONE, agent_id=WRONG)},
    "a ticket": {
        "run": record("r", status=RunStatus.WAITING),
        "tickets": (ticket(tool_name=WRONG),),
    },
    "a message": {"messages": (Message(id=WRONG, role=Role.USER, content=()),)},
    "an event": {"events": (event(TextDelta(delta=WRONG)),)},
    "a call": {
        "run": record("r", status=RunStatus.DONE),
        "calls": (line("m", 0, CallPhase.SUCCEEDED, tool_name=WRONG),),
    },
}
"""What a store takes that decodes nothing; each cannot be read back."""


@pytest.mark.parametrize("bad", BAD_COMMITS.values(), ids=BAD_COMMITS)
async def test_a_bad_value_in_a_store_that_decodes_nothing_is_found(bad: dict[str, Any]) -> None:
    store = MemoryStore()
    async with Runtime([], store=store, recover=False) as runtime:
        await write(store, "good", messages=says("a"), run=record("fine", "good"))
        assert await find_poison(runtime, "good") == []
        await write(store, **bad)
        assert await find_poison(runtime, "t")
        in_lists = await find_poison_in_lists(runtime)
        assert bool(in_lists) == (bad.keys() <= {"run", "tickets"})


async def test_a_bad_command_in_a_store_that_decodes_nothing_is_found() -> None:
    store = MemoryStore()
    async with Runtime([], store=store, recover=False) as runtime:
        await write(store)
        await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL, run_id=WRONG))
        assert await find_poison(runtime, "t")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_each_row_that_a_store_leaves_out_is_found(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        address = poison_sqlite(tmp_path / "a.db")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        address = await poison_postgres(postgres.address())
    async with Runtime(agents(), store=address, recover=False) as runtime:
        assert len(await find_poison_in_lists(runtime)) == sum(map(len, IN_LISTS.values()))
        assert await find_poison(runtime, "healthy") == []
        for thread in set().union(*IN_LISTS.values()):
            assert await find_poison(runtime, thread), thread


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_no_argument_spoils_a_store_or_is_answered_with_an_untrue_error(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/a.db"}.get(store)
    if address is None:
        postgres: Postgres = request.getfixturevalue("postgres")
        address = postgres.address()
    done = asyncio.run(try_all(address, nested=False, every=STEPS[store]))
    assert done.faults == ()
    assert done.refused > done.calls / 2
