"""`awaken db check`, and the other commands beside rows that cannot be read."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import Here, Printed

from poisoned_kit import (
    ALL,
    IN_LISTS,
    NOT_MENDABLE,
    poison_postgres,
    poison_sqlite,
    run_of,
    thread_ids,
)
from postgres_kit import Postgres


@pytest.fixture
def home(tmp_path: Path) -> Path:
    poison_sqlite(tmp_path / "awaken.db")
    return tmp_path


def bytes_of(path: Path) -> list[bytes]:
    """All records of a store, as they are stored."""
    with closing(sqlite3.connect(path)) as db:
        return [
            record
            for table, column in (("runs", "record"), ("commits", "delta"), ("commands", "body"))
            for (record,) in db.execute(f"SELECT {column} FROM {table} ORDER BY rowid")
        ]


def test_a_check_names_each_row_and_changes_nothing(here: Here, home: Path) -> None:
    before = bytes_of(home / "awaken.db")

    done = here("db", "check")
    said = json.loads(here("db", "check", "--json").out)

    assert done.code == 1
    for thread in ALL:
        assert f" thread {thread}:" in done.out or f"thread {thread}: " in done.out, thread
    assert "22 cannot be read, of which 19 can be mended" in done.out
    assert "awaken db check --mend" in done.err
    assert (said["rows"], len(said["unreadable"]), said.get("backup")) == (62, 22, None)
    assert bytes_of(home / "awaken.db") == before
    assert not list(home.glob("*.jsonl"))


def test_mending_keeps_the_old_bytes_and_leaves_what_would_lose_something(
    here: Here, home: Path
) -> None:
    before = bytes_of(home / "awaken.db")

    done = here("db", "check", "--mend")

    assert done.code == 1, "two threads have a value that is no whole number"
    (backup,) = home.glob("awaken.db.mended-*.jsonl")
    assert str(backup) in done.out
    assert backup.stat().st_mode & 0o777 == 0o600
    kept = [json.loads(line) for line in backup.read_text().splitlines()]
    assert {line["thread_id"] for line in kept} == ALL - {*NOT_MENDABLE}
    assert {base64.b64decode(line["old"]) for line in kept if line["kind"] == "run"} <= {*before}
    now = bytes_of(home / "awaken.db")
    assert {base64.b64decode(line["new"]) for line in kept if line["kind"] == "run"} <= {*now}

    again = here("db", "check", "--mend", "--json")
    left = json.loads(again.out)
    assert again.code == 1
    assert {row["thread_id"] for row in left["unreadable"]} == NOT_MENDABLE
    assert left.get("backup") is None, "nothing was changed, so there is no file"


def test_a_store_that_can_be_read_is_said_to_be_whole(printed: Printed, home: Path) -> None:
    for thread in NOT_MENDABLE:
        printed("gc", "--thread", thread, "--force")
    done = printed("db", "check", "--mend")
    assert "left that cannot be read" in done
    assert "all can be read" in printed("db", "check")


def test_a_file_that_is_there_is_not_written_over(here: Here, home: Path) -> None:
    (home / "mine").write_text("mine")
    before = bytes_of(home / "awaken.db")

    there = here("db", "check", "--mend", "--backup", "mine")
    nowhere = here("db", "check", "--mend", "--backup", "no/such/folder")
    alone = here("db", "check", "--backup", "other")

    assert [done.code for done in (there, nowhere, alone)] == [2, 2, 2]
    assert (home / "mine").read_text() == "mine"
    assert "no row is changed" in nowhere.err
    assert bytes_of(home / "awaken.db") == before


def test_a_link_is_not_followed(here: Here, home: Path) -> None:
    os.symlink(home / "elsewhere", home / "link")
    assert here("db", "check", "--mend", "--backup", "link").code == 2
    assert not (home / "elsewhere").exists()


def test_a_store_in_postgres_is_checked_and_mended(
    here: Here, home: Path, postgres: Postgres
) -> None:
    address = asyncio.run(poison_postgres(postgres.address()))

    assert here("db", "check", "--store", address).code == 1
    done = here("db", "check", "--mend", "--store", address)
    left = json.loads(here("db", "check", "--json", "--store", address).out)

    (backup,) = home.glob("awaken.mended-*.jsonl")
    assert backup.name in done.out
    assert {row["thread_id"] for row in left["unreadable"]} == NOT_MENDABLE


def test_lists_say_in_one_line_how_much_they_leave_out(here: Here, home: Path) -> None:
    for command, count in (("threads", len(IN_LISTS["thread"])), ("runs", len(IN_LISTS["run"]))):
        done = here(command, "--limit", "50")
        assert done.code == 0
        (line,) = done.err.splitlines()
        assert line.startswith(f"awaken: {count} rows of this list cannot be read")
        assert "awaken db check" in line
        page = json.loads(here(command, "--limit", "50", "--json").out)
        assert len(page["unreadable"]) == count
    page = json.loads(here("threads", "--limit", "1", "--json").out)
    assert page["cursor"]


def test_a_thread_is_shown_without_what_cannot_be_read(here: Here, home: Path) -> None:
    for thread in sorted(thread_ids().values()):
        done = here("show", thread)
        assert done.out.startswith(f"thread {thread}\n")
        assert (done.code, bool(done.err)) in ((0, False), (1, True))
    shown = json.loads(here("show", "run-user", "--json").out)
    assert [row["kind"] for row in shown["unreadable"]] == ["run", "thread"]
    assert len(shown["messages"]) == 2
    by_run = here("show", run_of("run-user"))
    assert (by_run.code, "cannot be read" in by_run.err) == (1, True)


def spoil(home: Path, thread: str, position: int) -> None:
    """Make a commit unreadable."""
    pk = next(pk for pk, id in thread_ids().items() if id == thread)
    with closing(sqlite3.connect(home / "awaken.db")) as db:
        db.execute(
            "UPDATE commits SET delta = ? WHERE id = ?",
            (b'{"messages":[{"id":7}]}', pk << 32 | position),
        )
        db.commit()


def test_the_rest_of_a_log_is_shown_and_its_commit_is_named(here: Here, home: Path) -> None:
    spoil(home, "healthy", 1)

    done = here("show", "healthy")
    exported = here("export", "healthy", "--pytest")

    assert done.code == 1
    assert "commit 1 of thread healthy cannot be read" in done.err
    assert "You said" in done.out, "the answer is in the second commit"
    assert exported.code == 1
    assert "commit 1 of thread 'healthy' cannot be read" in exported.err


def test_an_export_names_what_cannot_be_read_and_writes_no_file(here: Here, home: Path) -> None:
    spoil(home, "healthy", 2)
    for id, told in (
        ("healthy", "commit 2 of thread 'healthy' cannot be read"),
        (run_of("healthy"), "commit 2 of thread 'healthy' cannot be read"),
        ("run-user", f"run '{run_of('run-user')}' of thread 'run-user' cannot be read"),
        (run_of("run-user"), f"run '{run_of('run-user')}' cannot be read"),
    ):
        done = here("export", id, "--pytest")
        assert (done.code, done.out) == (1, "")
        (line,) = done.err.splitlines()
        assert line.startswith(f"awaken: {told} (Expected `"), id
        assert "`awaken db check` lists all such rows" in line
    assert not list(home.glob("test_*.py"))


def test_a_cancel_ends_what_it_can_and_names_the_rest(here: Here, home: Path) -> None:
    spoil(home, "approve-by", 1)

    done = here("cancel", "approve-by")
    other = here("cancel", "deny-by")

    assert done.code == 3
    assert "commit 1 of thread 'approve-by' cannot be read" in done.out
    assert other.code == 0, other.err


def test_a_thread_that_cannot_be_read_is_deleted(printed: Printed, home: Path) -> None:
    spoil(home, "healthy", 1)
    for thread in thread_ids().values():
        printed("gc", "--thread", thread, "--force")
    assert printed("threads").strip() == "no threads"
