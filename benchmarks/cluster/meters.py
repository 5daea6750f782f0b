"""What a store's own process and the database server spend."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import asyncpg

from benchmarks.durable.disk import Disk
from postgres_kit import Postgres

REAL = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on", "shared_buffers": "256MB"}
"""The server as it is run for others: the tests' own one does not wait for its disk."""


class Spent(NamedTuple):
    """Seconds of CPU and bytes that were written, at one moment or from one to another."""

    client: float
    server: float
    wall: float
    written: float

    def since(self, before: Spent) -> Spent:
        return Spent(*(now - then for now, then in zip(self, before, strict=True)))

    def of(self, count: int) -> Spent:
        return Spent(*(value / count for value in self))


class PostgresMeter:
    """Reads the clocks of the server's processes, and where its log ends."""

    def __init__(self, server: Postgres, connection: asyncpg.Connection) -> None:
        self._server, self._connection = server, connection

    async def take(self) -> Spent:
        wal = await self._connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'")
        server = _ended(self._server.pid) + sum(map(_cpu, _processes(self._server.pid)))
        return Spent(time.process_time(), server, time.perf_counter(), float(wal))

    async def settle(self) -> None:
        """Clean up after what was done, and write a checkpoint, so that neither is counted in what
        is measured next."""
        await self._connection.execute("VACUUM (ANALYZE)")
        await self._connection.execute("CHECKPOINT")


@asynccontextmanager
async def metered(server: Postgres) -> AsyncIterator[PostgresMeter]:
    connection = await asyncpg.connect(server.dsn)
    try:
        yield PostgresMeter(server, connection)
    finally:
        await connection.close()


class SqliteMeter:
    """Reads the clock of this process, which has the writer, and what it gave the disk to keep:
    the log's file begins again when it is full."""

    def __init__(self, path: Path) -> None:
        self._disk = Disk(path)

    async def take(self) -> Spent:
        now = self._disk.take()
        return Spent(now.cpu, 0.0, now.wall, now.written)

    async def settle(self) -> None:
        self._disk.settle()


Meter = PostgresMeter | SqliteMeter


def _processes(first: int) -> Iterator[int]:
    yield first
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it has ended
            if int(stat.rpartition(")")[2].split()[1]) == first:
                yield int(entry.name)


def _ended(pid: int) -> float:
    """Seconds that the children of a process have run which have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _cpu(pid: int) -> float:
    """Seconds that a process has run; of one that has ended, none."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0
