"""A store with rows that cannot be read back, as a version before made it (see
`stores/data/make_poisoned.py`), loaded into SQLite and into Postgres."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg

from awaken import Agent, tool
from awaken.models import TokenUsage
from awaken.stores.postgres import PostgresStore
from awaken.stores.sql.migrations import load_migrations
from awaken.testing import FunctionModel, text_response

_ROWS = Path(__file__).parent / "stores" / "data" / "poisoned.json"
_BYTES = frozenset(("record", "body", "delta", "state", "piece"))
"""The columns with records."""

IN_LISTS = {
    "thread": {"run-user", "run-principal", "submit-new"},
    "run": {
        "run-user",
        "run-principal",
        "usage-half",
        "usage-whole",
        "submit-new",
        "submit-request",
    },
    "ticket": {"approve-by", "deny-reason", "deny-by"},
}
"""The threads whose row, or one of whose rows, each list leaves out."""
NOT_MENDABLE = {"usage-half", "submit-half-time"}
ALL = {
    *("approve-by", "deny-by", "deny-reason", "run-principal", "run-user", "submit-half-time"),
    *("submit-key", "submit-new", "submit-request", "submit-time", "usage-half", "usage-whole"),
}
"""The threads with something that cannot be read; the thread `healthy` has nothing."""


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def _count(request: object) -> object:
    return text_response("x", TokenUsage(prompt_tokens=2, completion_tokens=2))


def agents() -> list[Agent[Any, Any]]:
    """Those that the runs of the store belong to."""
    return [
        Agent("a", model="demo"),
        Agent("p", model="demo", tools=[pay]),
        *[Agent(name, model=FunctionModel(_count)) for name in ("half", "whole")],  # type: ignore[arg-type]
    ]


@cache
def rows() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(_ROWS.read_text())
    return found


def thread_ids() -> dict[int, str]:
    return {row["pk"]: row["id"] for row in rows()["threads"]}


def run_of(thread_id: str, number: int = -1) -> str:
    """The id of a run of a thread: the last one."""
    pk = next(pk for pk, id in thread_ids().items() if id == thread_id)
    return str([row["id"] for row in rows()["runs"] if row["thread"] == pk][number])


def poison_sqlite(path: Path) -> str:
    """Make the store in a new file; returns its address."""
    with closing(sqlite3.connect(path)) as db:
        for step in load_migrations("sqlite"):
            db.executescript(step.script)
        db.execute("DELETE FROM epochs")
        for table, lines in rows().items():
            for line in lines:
                values = [
                    value.encode() if name in _BYTES else value for name, value in line.items()
                ]
                marks = ", ".join("?" * len(values))
                db.execute(f"INSERT INTO {table} ({', '.join(line)}) VALUES ({marks})", values)
        db.execute("PRAGMA application_id = 0x41574B4E")
        db.execute(f"PRAGMA user_version = {len(load_migrations('sqlite'))}")
        db.commit()
    return f"sqlite:///{path}"


async def poison_postgres(address: str) -> str:
    """Make the store in an empty schema; returns its address."""
    store = PostgresStore(address)
    await store.open()
    await store.close()
    dsn, _, schema = address.partition("?schema=")
    db = await asyncpg.connect(dsn, server_settings={"search_path": schema.partition("&")[0]})
    try:
        for table, lines in rows().items():
            for line in lines if table != "epochs" else ():
                values = _in_postgres(table, line)
                marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
                await db.execute(
                    f"INSERT INTO {table} ({', '.join(values)}) OVERRIDING SYSTEM VALUE "
                    f"VALUES ({marks})",
                    *values.values(),
                )
        for table, column in (
            ("threads", "pk"),
            ("runs", "pk"),
            ("tickets", "pk"),
            ("commands", "id"),
        ):
            await db.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), 1000)")
    finally:
        await db.close()
    return address


def _in_postgres(table: str, line: dict[str, Any]) -> dict[str, Any]:
    """A row of SQLite's table, as the table of Postgres has it."""
    values = {
        name: value.encode() if name in (*_BYTES, "user_id") and value is not None else value
        for name, value in line.items()
    }
    if table == "commits":
        values["thread"], values["position"] = values["id"] >> 32, values.pop("id") & 0xFFFFFFFF
    elif table == "runs":
        values["delegated"] = values["suspect"] = False
        values["changed_at"] = values["updated_at_ms"]
    elif table == "thread_metadata":
        values["labels"] = []
    elif table == "commands" and values["not_before"] is not None:
        values["not_before"] = int(values["not_before"])
    return values
