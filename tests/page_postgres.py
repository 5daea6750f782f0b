"""A Postgres while a block of a page runs: a page says that the reader has one.

The page names the database `agents` on `db.example.org`. Connections to it go to a server of this
machine.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from typing import Any

import asyncpg

from postgres_kit import running_postgres

PLACE = "db.example.org/agents"


def serve() -> None:
    """Have a Postgres answer until this process ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    server = stack.enter_context(running_postgres())
    connect = asyncpg.connect

    def connect_there(dsn: str, **named: Any) -> Any:
        return connect(dsn.replace(PLACE, f"127.0.0.1:{server.port}/postgres"), **named)

    vars(asyncpg)["connect"] = connect_there
