"""Makes `poisoned.json`: a store with rows that cannot be read back.

Versions up to commit 4f7faa1c took values of wrong types and stored them. Later ones refuse them,
so this program runs with such a version only:

    git worktree add /tmp/before 4f7faa1c
    uv run --project /tmp/before python tests/stores/data/make_poisoned.py tests/stores/data

Every thread but `healthy` has one wrong value, which its name tells. The rows are those of the
SQLite tables, with their records as text; the tests load them into SQLite and into Postgres.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from awaken import Agent, Runtime, ToolCallResume, tool
from awaken.errors import StoreError
from awaken.models import TokenUsage
from awaken.runtime import Principal
from awaken.testing import FunctionModel, text_response

WRONG: Any = 7
LATER = float(round(time.time() * 1000) + 1000)
TABLES = (
    *("threads", "thread_metadata", "runs", "commits", "snapshots", "tickets", "commands"),
    *("command_keys", "submission_keys", "epochs"),
)


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def counting(tokens: Any) -> FunctionModel:
    async def answer(request: Any) -> Any:
        return text_response("x", TokenUsage(prompt_tokens=tokens, completion_tokens=2))

    return FunctionModel(answer)


AGENTS = [
    Agent("a", model="demo"),
    Agent("p", model="demo", tools=[pay]),
    Agent("half", model=counting(1.5)),
    Agent("whole", model=counting(2.0)),
]


async def begin(runtime: Runtime) -> None:
    """The runs and the questions; then the runtime ends."""
    principal = Principal(id=WRONG, scope="", roles=("admin",))
    await runtime.run("a", "hello", thread="run-user", user=WRONG)
    await runtime.run("a", "hello", thread="run-principal", principal=principal)
    await runtime.run("half", "hello", thread="usage-half")
    await runtime.run("whole", "hello", thread="usage-whole")
    for thread in ("approve-by", "deny-reason", "deny-by"):
        await runtime.run("p", "please pay 7", thread=thread)
    for thread in ("submit-key", "submit-request", "submit-time", "submit-half-time"):
        await runtime.run("a", "first", thread=thread)


async def poison(runtime: Runtime) -> None:
    """The answers and submissions, which the next process would read."""
    answers = {
        "approve-by": ToolCallResume.approve(by=WRONG),
        "deny-reason": ToolCallResume.deny(WRONG),
        "deny-by": ToolCallResume.deny("no", by=WRONG),
    }
    for thread, answer in answers.items():
        (ticket,) = [one for one in await runtime.list_tickets() if one.thread_id == thread]
        with suppress(StoreError):  # the answer is stored, and cannot be read back
            await runtime.decide(thread, {ticket.key: answer})
    wrong: dict[str, dict[str, Any]] = {
        "submit-new": {"user": WRONG},
        "submit-key": {"key": WRONG},
        "submit-request": {"request_id": WRONG},
        "submit-time": {"not_before_ms": LATER},
        "submit-half-time": {"not_before_ms": LATER + 0.5},
    }
    for thread, options in wrong.items():
        await runtime.submit("a", "second", thread=thread, **options)
    await runtime.submit("a", "third", thread="submit-key", user="bob")


async def make(path: Path) -> None:
    async with Runtime(AGENTS, store=f"sqlite:///{path}") as runtime:
        await begin(runtime)
    async with Runtime(AGENTS, store=f"sqlite:///{path}", recover=False) as runtime:
        await poison(runtime)
    async with Runtime(AGENTS, store=f"sqlite:///{path}", recover=False) as runtime:
        await runtime.run("a", "hello", thread="healthy", user="bob")


def shown(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def dump(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return {
            table: [
                {name: shown(row[name]) for name in row.keys()}  # noqa: SIM118  # a row is no dict
                for row in db.execute(f"SELECT * FROM {table}")
            ]
            for table in TABLES
        }


def main() -> None:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "poisoned.db"
        asyncio.run(make(path))
        text = json.dumps(dump(path), indent=1)
    Path(sys.argv[1], "poisoned.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
