"""Stores with rows that cannot be read: one bad row costs one row."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from awaken import Agent, Runtime, tool
from awaken.codec import loads
from awaken.core.access import KeyEntry
from awaken.core.budget import Budget
from awaken.core.run import CancelOutcome, RunRecord
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.store import CountsUnreadable, Store
from awaken.core.store.threads import ChildStrategy, Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.unreadable import RowKind
from awaken.errors import AwakenError, UnreadableRecord
from awaken.stores.postgres import PostgresStore
from awaken.stores.sql.row_check import Backup, HasRows, check_rows
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, text_response, tool_calls_response
from awaken.testing.conformance.access import a_deed
from awaken.testing.conformance.helpers import expect_error, names, record, says, write
from poisoned_kit import (
    ALL,
    IN_LISTS,
    NOT_MENDABLE,
    agents,
    poison_postgres,
    poison_sqlite,
    run_of,
    thread_ids,
)
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

SOON = 10**15


@pytest.fixture(params=["sqlite", "postgres"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with rows that cannot be read."""
    if request.param == "sqlite":
        return poison_sqlite(tmp_path / "awaken.db")
    postgres: Postgres = request.getfixturevalue("postgres")
    return await poison_postgres(postgres.address())


def store_at(address: str) -> SqliteStore | PostgresStore:
    if address.startswith("sqlite:"):
        return SqliteStore.from_address(address)
    return PostgresStore.from_address(address)


@pytest.fixture
async def store(address: str) -> AsyncIterator[SqliteStore | PostgresStore]:
    opened = store_at(address)
    await opened.open()
    yield opened
    await opened.close()


async def change(address: str, table: str, column: str, value: bytes, where: str) -> None:
    """Write what the library would not."""
    if address.startswith("sqlite:"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as db:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
            db.commit()
        return
    dsn, _, schema = address.partition("?schema=")
    connection = await asyncpg.connect(dsn)
    try:
        text = f'UPDATE "{schema}".{table} SET {column} = $1 WHERE {where}'
        await connection.execute(text, value)
    finally:
        await connection.close()


async def spoil_commit(address: str, store: Store, thread_id: str, position: int) -> None:
    """Make a commit of a thread unreadable: its messages have numbers as ids."""
    pk = next((pk for pk, id in thread_ids().items() if id == thread_id), None)
    assert pk is not None
    where = f"thread = {pk} AND position = {position}"
    if address.startswith("sqlite:"):
        where = f"id = {pk << 32 | position}"
    await change(address, "commits", "delta", b'{"messages":[{"id":7}]}', where)


async def everything(
    read: Callable[[str | None], Awaitable[Page[Any]]],
) -> tuple[list[Any], list[str], list[int]]:
    """The items of all pages of a list, the ids of the rows left out, and the pages' lengths."""
    items: list[Any] = []
    left_out: list[str] = []
    lengths: list[int] = []
    cursor = None
    while True:
        page = await read(cursor)
        items += page.items
        left_out += [row.id for row in page.unreadable]
        lengths.append(len(page))
        if (cursor := page.cursor) is None:
            return items, left_out, lengths


# -- lists -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_lists_leave_out_what_cannot_be_read_and_go_on_behind_it(
    store: Store, limit: int
) -> None:
    threads = await everything(
        lambda cursor: store.list_threads(ThreadQuery(limit=limit, cursor=cursor))
    )
    runs = await everything(lambda cursor: store.list_runs(RunQuery(limit=limit, cursor=cursor)))
    tickets = await everything(
        lambda cursor: store.list_tickets(TicketQuery(limit=limit, cursor=cursor))
    )

    ids = set(thread_ids().values())
    assert set(threads[1]) == IN_LISTS["thread"]
    assert {thread.id for thread in threads[0]} == ids - IN_LISTS["thread"]
    assert set(runs[1]) == {run_of(thread) for thread in IN_LISTS["run"]}
    assert len(runs[0]) == 18 - len(IN_LISTS["run"])
    assert (len(tickets[0]), len(tickets[1])) == (0, len(IN_LISTS["ticket"]))
    if limit == 1:
        assert 0 in threads[2], "a page of a row that cannot be read is empty, and not the last"


async def test_a_row_that_cannot_be_read_is_logged_and_counted_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            page = await store.list_threads(ThreadQuery())
            await store.list_interrupted(now_ms=SOON)

    (row,) = [row for row in page.unreadable if row.id == "run-user"]
    assert (row.kind, row.reason) == (
        RowKind.THREAD,
        "Expected `str | null`, got `int` - at `$.user`",
    )
    said = [entry.getMessage() for entry in caplog.records]
    assert len(said) == len(set(said))
    assert sum("thread run-user cannot be read" in text for text in said) == 1
    assert isinstance(store, CountsUnreadable)
    assert store.count_unreadable()["thread"] == len(IN_LISTS["thread"])


async def test_a_list_of_tasks_names_those_that_cannot_be_read(address: str) -> None:
    @tool
    async def bake() -> str:
        """Bake."""
        return "baked"

    calls = tool_calls_response("", ("bake", "c0", {}), ("bake", "c1", {}))
    model = ScriptedModel([calls, *[text_response("Done.")] * 9])
    baker = Agent("baker", model=model, background=[bake])
    async with Runtime([baker], store=address, recover=False) as runtime:
        await runtime.run("baker", "Bake", thread="oven")
        await runtime.wait("oven", timeout=60)
        bad, good = await runtime.tasks("oven")
        await change(address, "runs", "record", b'{"run_id":7}', f"id = '{bad.id}'")
        listed = await runtime.tasks("oven")
        assert listed.items == (good,)
        assert [(row.kind, row.id) for row in listed.unreadable] == [(RowKind.RUN, bad.id)]
        assert isinstance(runtime.store, CountsUnreadable)
        assert runtime.store.count_unreadable()["run"] == 1


async def test_keys_sessions_and_deeds_that_cannot_be_read_cost_themselves(
    address: str, store: Store
) -> None:
    access = store.access
    for id in ("k1", "k2"):
        await access.add_key(id, KeyEntry(sha256="c" * 64, budget=Budget(tokens=1)))
    for at in (1, 2, 3):
        await access.note_deed(a_deed(at))
    await change(address, "keys", "record", b'{"sha256":7}', "id = 'k1'")
    deeds = await access.list_deeds("", limit=9)
    numbers = [number for number, _ in deeds]
    await change(address, "audit", "record", b'{"at":"x"}', f"number = {numbers[1]}")

    keys = await access.list_keys()
    pages = [await access.list_deeds("", limit=2)]
    pages.append(await access.list_deeds("", limit=2, before=int(pages[0].cursor or "")))

    assert ([id for id, _ in keys], [row.id for row in keys.unreadable]) == (["k2"], ["k1"])
    assert await access.find_key("k1") is None
    assert [deed.at for page in pages for _, deed in page] == [3, 1]
    assert [row.id for page in pages for row in page.unreadable] == [str(numbers[1])]
    assert await access.revoke_key("k1")


# -- one thing ---------------------------------------------------------------------------------


async def test_what_is_asked_for_by_its_id_and_cannot_be_read_is_named(store: Store) -> None:
    run = run_of("run-user")

    error = await expect_error(UnreadableRecord, store.load_run(run))

    assert (error.kind, error.name, error.thread_id) == ("run", run, "run-user")
    assert "awaken db check" in str(error)


async def test_a_thread_whose_metadata_cannot_be_read_is_without_them(store: Store) -> None:
    thread = await store.load_thread("run-user")
    assert thread is not None
    assert (thread.message_count, thread.metadata.user) == (2, None)


async def test_a_commit_that_cannot_be_read_is_named_with_its_messages(
    address: str, store: Store
) -> None:
    await spoil_commit(address, store, "healthy", 1)

    for reading in (store.load_messages("healthy"), store.load_context("healthy")):
        error = await expect_error(UnreadableRecord, reading)
        assert (error.kind, error.name, error.thread_id) == ("commit", "1", "healthy")
        assert error.messages == (1, 1)
    assert len(await store.load_messages("healthy", after=1)) == 1
    assert len(await store.load_messages("run-user")) == 2


async def test_a_thread_with_rows_that_cannot_be_read_is_deleted(
    address: str, store: Store
) -> None:
    await spoil_commit(address, store, "healthy", 1)
    for thread in thread_ids().values():
        await store.delete_thread(thread, children=ChildStrategy.CASCADE, force=True, at_ms=SOON)
    for page in (
        await store.list_threads(ThreadQuery()),
        await store.list_runs(RunQuery()),
        await store.list_tickets(TicketQuery()),
    ):
        assert (page.items, page.unreadable) == ((), ())


async def test_old_threads_are_pruned_whether_they_can_be_read_or_not(store: Store) -> None:
    await store.prune(before_ms=SOON)
    left = await store.list_threads(ThreadQuery())
    assert {thread.id for thread in left} == {
        *("approve-by", "deny-reason", "deny-by", "submit-key", "submit-request", "submit-time"),
        "submit-half-time",
    }
    assert [row.id for row in left.unreadable] == ["submit-new"]


# -- workers -----------------------------------------------------------------------------------


async def claimed(store: Store, limit: int) -> list[RunRecord]:
    found: list[RunRecord] = []
    while taken := await store.claim_next(
        ["a", "p"], limit=limit, at_ms=SOON, overdue_ms=0, skip=[run.run_id for run in found]
    ):
        found += [run for _, run in taken]
    return found


@pytest.mark.parametrize("limit", [1, 100])
async def test_a_worker_claims_what_can_be_read_and_passes_over_the_rest(
    store: Store, limit: int
) -> None:
    """Also the next submission of a thread whose first one cannot be read."""
    found = await claimed(store, limit)
    assert [(run.thread_id, run.run_id) for run in found] == [("submit-key", run_of("submit-key"))]


async def test_a_worker_lists_interrupted_runs_beside_those_that_cannot_be_read(
    address: str, store: Store
) -> None:
    await write(store, "cut", messages=says("m"), run=record("cut short", "cut"))
    await write(store, "bad", messages=says("m"), run=record("bad", "bad"))
    await write(store, "cut-2", messages=says("m"), run=record("cut short 2", "cut-2"))
    await change(address, "runs", "record", b"{", "id = 'bad'")

    for thread in IN_LISTS["ticket"]:
        assert await store.load_commands(thread) == []  # their only command cannot be read
    listed = [await store.list_interrupted(now_ms=0, limit=limit) for limit in (None, 1, 2, 3)]

    both = ["cut short", "cut short 2"]
    assert [names(runs) for runs in listed] == [both, both[:1], both, both]


async def test_a_command_that_cannot_be_read_is_left_out(store: Store) -> None:
    await store.send(ThreadCommand.cancel("approve-by", run_of("approve-by"), at_ms=1))

    (command,) = await store.load_commands("approve-by")
    context = await store.load_context("approve-by")

    assert command.kind == "cancel"
    assert context is not None
    assert list(context.commands) == [command]


async def test_a_submission_that_cannot_be_read_keeps_its_cancel(store: Store) -> None:
    run = run_of("submit-request")
    await store.send(ThreadCommand.cancel("submit-request", run, at_ms=1))
    assert [command.kind for command in await store.load_commands("submit-request")] == ["cancel"]


# -- runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thread", sorted({*ALL, "healthy"} - {"approve-by", "deny-by", "deny-reason"})
)
async def test_runs_go_on_in_threads_beside_a_row_that_cannot_be_read(
    address: str, thread: str
) -> None:
    """Also in the thread of a run that has ended and whose record cannot be read."""
    async with Runtime(agents(), store=address, recover=False) as runtime:
        result = await runtime.run("a", "hello", thread=thread)
        assert result.ok
        assert (await runtime.run("a", "hello", thread="another")).ok


async def test_a_thread_whose_log_cannot_be_read_refuses_to_run_and_others_go_on(
    address: str, store: Store
) -> None:
    await spoil_commit(address, store, "healthy", 1)
    async with Runtime(agents(), store=address, recover=False) as runtime:
        for _ in range(2):
            with pytest.raises(AwakenError, match=r"commit 1 of thread 'healthy' cannot be read"):
                await runtime.run("a", "hello", thread="healthy")
        assert (await runtime.run("a", "hello", thread="another")).ok
        head = await runtime.store.load_thread("healthy")
        assert head is not None
        assert head.owner is None, "its thread is released"


async def test_a_cancel_of_a_run_that_cannot_be_read_is_kept_and_said(
    address: str, store: Store
) -> None:
    await spoil_commit(address, store, "approve-by", 1)
    async with Runtime(agents(), store=address, recover=False) as runtime:
        receipt = await runtime.cancel("approve-by", deadline=30)
        (item,) = receipt.items
        assert (item.run_id, item.outcome) == (run_of("approve-by"), CancelOutcome.UNKNOWN)
        assert "commit 1 of thread 'approve-by' cannot be read" in (item.note or "")
        assert [one.kind for one in await runtime.store.load_commands("approve-by")] == ["cancel"]


# -- mending -----------------------------------------------------------------------------------


async def checked(store: HasRows, backup: Path | None = None) -> dict[tuple[str, str | None], str]:
    """The rows that cannot be read: whether each was mended, can be, or why it was left."""
    found: dict[tuple[str, str | None], str] = {}
    async for part in check_rows(store, Backup(backup) if backup is not None else None):
        for row in part.unreadable:
            outcome = "mended" if row.was_mended else "mendable" if row.can_be_mended else "left"
            found[row.kind.value, row.thread_id] = row.why_left or outcome
    return found


async def test_a_check_names_each_row_and_changes_nothing(store: SqliteStore) -> None:
    before = [row for kind in RowKind for row in await store.load_rows(kind, None, 1_000)]

    found = await checked(store)

    assert {thread for _, thread in found} == ALL
    assert {thread for (_, thread), outcome in found.items() if outcome == "left"} == NOT_MENDABLE
    assert set(found.values()) == {"mendable", "left"}
    assert before == [row for kind in RowKind for row in await store.load_rows(kind, None, 1_000)]


async def test_what_is_mended_is_read_again_and_its_threads_run(
    address: str, tmp_path: Path
) -> None:
    """Also by a process that met the rows before they were mended."""
    async with Runtime(agents(), store=address, recover=True) as runtime:
        await runtime.list_threads()
        async with asyncio.timeout(30):
            assert (await runtime.wait(run_of("submit-key"))).ok
        store = store_at(address)
        found = await checked(store, tmp_path / "old.jsonl")
        await store.close()

        assert set(found.values()) == {"mended", "left"}
        assert {thread for (_, thread), out in found.items() if out == "left"} == NOT_MENDABLE
        assert {row.id for row in (await runtime.list_threads()).unreadable} == set()
        for thread in ("run-user", "run-principal", "usage-whole"):
            assert (await runtime.run("a", "hello", thread=thread)).ok
        await runtime.recover()
        submitted = [run_of(thread) for thread in ("submit-new", "submit-request", "submit-time")]
        for run in (*submitted, run_of("submit-key", -2), *map(run_of, IN_LISTS["ticket"])):
            async with asyncio.timeout(30):
                assert (await runtime.wait(run)).ok
        of_user = await runtime.list_runs(RunQuery(user="7"))
        assert {run.thread_id for run in of_user} >= {"run-user", "submit-new"}


async def test_a_row_of_a_live_owner_is_left_alone(
    address: str, store: SqliteStore, tmp_path: Path
) -> None:
    other = store_at(address)
    fence = await other.claim("approve-by", at_ms=1)

    found = await checked(store, tmp_path / "old.jsonl")
    assert found["ticket", "approve-by"] == f"its thread is owned by {other.owner}, which is alive"
    assert found["ticket", "deny-by"] == "mended"

    await other.release(fence)
    await other.close()
    again = await checked(store, tmp_path / "older.jsonl")
    assert again["ticket", "approve-by"] == "mended"


async def test_a_row_that_has_changed_meanwhile_is_left_alone(
    address: str, store: SqliteStore, tmp_path: Path
) -> None:
    class Changing:
        """The store of a check; before that changes a run, another process does."""

        load_rows = staticmethod(store.load_rows)

        @staticmethod
        async def replace_rows(changes: Any) -> Any:
            if any(change.kind is RowKind.RUN for change in changes):
                where = f"id = '{run_of('run-user')}'"
                await change(address, "runs", "record", b'{"changed":1}', where)
            return await store.replace_rows(changes)

    outcomes = {
        row.thread_id: row.why_left
        async for part in check_rows(Changing(), Backup(tmp_path / "old.jsonl"))
        for row in part.unreadable
        if row.kind is RowKind.RUN
    }

    assert outcomes["run-user"] == "another process has changed it meanwhile"
    assert outcomes["run-principal"] is None


async def test_old_bytes_are_kept_before_anything_is_changed(
    store: SqliteStore, tmp_path: Path
) -> None:
    backup = tmp_path / "old.jsonl"
    backup.write_text("mine")
    before = await checked(store)

    with pytest.raises(FileExistsError):
        await checked(store, backup)
    with pytest.raises(FileNotFoundError):
        await checked(store, tmp_path / "missing" / "old.jsonl")

    assert backup.read_text() == "mine"
    assert await checked(store) == before
    await checked(store, tmp_path / "new.jsonl")
    assert (tmp_path / "new.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_row_with_fields_of_a_later_version_is_not_mended(
    address: str, store: SqliteStore, tmp_path: Path
) -> None:
    pk = next(pk for pk, id in thread_ids().items() if id == "run-user")
    text = b'{"user":7,"mood":"fine"}'
    await change(address, "thread_metadata", "record", text, f"thread = {pk}")

    found = await checked(store, tmp_path / "old.jsonl")

    assert found["thread", "run-user"] == "left"
    assert found["run", "run-user"] == "mended"


class _Dies(Exception):
    """The process ends here."""


@pytest.mark.parametrize("survived", range(6))
async def test_whenever_mending_breaks_off_old_bytes_are_kept_and_a_repetition_ends_it(
    store: SqliteStore, tmp_path: Path, survived: int
) -> None:
    class Dying:
        """The store of a check that ends after some batches: before, or after, the next is
        written."""

        def __init__(self, *, writes: bool) -> None:
            self.left = survived
            self.writes = writes

        load_rows = staticmethod(store.load_rows)

        async def replace_rows(self, changes: Any) -> Any:
            self.left -= 1
            if self.left >= 0 or self.writes:
                answer = await store.replace_rows(changes)
            if self.left < 0:
                raise _Dies
            return answer

    before = await every_body(store)
    for number, writes in enumerate((False, True)):
        with contextlib.suppress(_Dies):
            await checked(Dying(writes=writes), tmp_path / f"{number}.jsonl")
        kept = kept_in(tmp_path)
        now = await every_body(store)
        assert {old for old, new in zip(before, now, strict=True) if old != new} <= kept

    await checked(store, tmp_path / "last.jsonl")
    assert set((await checked(store)).values()) == {"left"}


def kept_in(folder: Path) -> set[bytes]:
    """The old bytes in the files of a folder."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return {base64.b64decode(loads(line)["old"]) for line in lines}


async def every_body(store: HasRows) -> list[bytes]:
    return [row.body for kind in RowKind for row in await store.load_rows(kind, None, 1_000)]
