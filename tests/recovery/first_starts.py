"""Processes that start at once on an empty Postgres schema, or die while they set it up.

    python tests/recovery/first_starts.py --rounds 100 --nodes 8

First: in each round, `--nodes` processes open the same empty schema at once, and each runs an
agent. Second: a process is killed with SIGKILL before its first, second, … statement of a set-up,
and another one opens the schema. Third: the server ends the session that sets the schema up after
its first, second, … statement that makes something, also within a script. Fourth: earlier releases
took each step in a transaction of its own, and a process has died after each of them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

import asyncpg  # noqa: E402

from awaken import Agent, Runtime  # noqa: E402
from awaken.errors import StoreUnavailable  # noqa: E402
from awaken.stores.postgres import PostgresStore  # noqa: E402
from awaken.stores.sql.migrations import load_migrations  # noqa: E402
from postgres_kit import running_postgres  # noqa: E402
from postgres_wire import Wire  # noqa: E402

AGENT = Agent("a", model="demo")
_ENDING = """
CREATE FUNCTION end_session() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.made') = {number} THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
END $$;
"""


async def run_once(address: str) -> None:
    """Run an agent on a store, as the first thing that its process does with it."""
    async with Runtime([AGENT], store=address) as runtime:
        result = await runtime.run("a", "hi")
        assert result.response


def start_process(address: str, begin: float = 0.0) -> int:
    """Start a process that runs an agent at a given time. It ends with 0, or 7 after an error."""
    pid = os.fork()
    if pid:
        return pid
    try:
        time.sleep(max(0.0, begin - time.monotonic()))
        asyncio.run(run_once(address))
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {str(error)[:300]}\n".encode())
        os._exit(7)
    os._exit(0)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def open_at_once(address: str, nodes: int) -> int:
    """Open an empty schema from several processes at once. Returns how many of them failed."""
    begin = time.monotonic() + 0.02 * nodes
    return sum(
        code != 0 for code in map(exit_code, [start_process(address, begin) for _ in range(nodes)])
    )


async def kill_before(port: int, schema: str, number: int) -> bool:
    """Kill a process before its statement `number` reaches the server. Returns false if the process
    ended before that."""
    wire = Wire(port)
    server = await asyncio.start_server(wire._serve, "127.0.0.1", 0)
    wire.stops_at = number
    through = server.sockets[0].getsockname()[1]
    pid = start_process(f"postgresql://awaken@127.0.0.1:{through}/postgres?schema={schema}")
    ended = asyncio.create_task(asyncio.to_thread(exit_code, pid))
    stopped = asyncio.create_task(wire.stopped.wait())
    await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        os.kill(pid, signal.SIGKILL)
    stopped.cancel()
    code = await ended
    server.close()
    await wire.close()
    return code == -signal.SIGKILL


@asynccontextmanager
async def ending_sessions(dsn: str, number: int) -> AsyncIterator[None]:
    """While this is open, the server ends the session in which statement `number` that makes or
    alters something has ended. Only the first session that comes so far is ended."""
    admin = await asyncpg.connect(dsn)
    try:
        await admin.execute("CREATE SEQUENCE made")
        await admin.execute(_ENDING.format(number=number))
        await admin.execute(
            "CREATE EVENT TRIGGER ends ON ddl_command_end EXECUTE FUNCTION end_session()"
        )
        yield
    finally:
        await admin.execute("DROP EVENT TRIGGER IF EXISTS ends")
        await admin.execute("DROP FUNCTION end_session; DROP SEQUENCE made")
        await admin.close()


async def end_after(dsn: str, schema: str, number: int) -> bool:
    """Open an empty schema; the server ends the session after statement `number`. Returns false if
    there are fewer statements."""
    store = PostgresStore(f"{dsn}?schema={schema}")
    async with ending_sessions(dsn, number):
        try:
            await store.open()
        except StoreUnavailable:
            return True
        await store.close()
        return False


async def leave_half_made(dsn: str, schema: str, steps: int) -> None:
    """Take the first steps of a schema as earlier releases did, without ever registering a node."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            f'CREATE SCHEMA "{schema}"; SET search_path = "{schema}"; '
            "CREATE TABLE migrations (number int PRIMARY KEY, name text NOT NULL, "
            "at timestamptz NOT NULL DEFAULT now())"
        )
        for step in load_migrations("postgres")[:steps]:
            await connection.execute(step.script)
            await connection.execute(
                "INSERT INTO migrations (number, name) VALUES ($1, $2)", step.number, step.name
            )
    finally:
        await connection.close()


async def drop(dsn: str, schema: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    await connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="kill at every n-th statement")
    options = parser.parse_args()
    wrong = 0
    with running_postgres(max_locks_per_transaction="256") as server:
        dsn = server.dsn

        def reopen(schema: str) -> int:
            failed = int(exit_code(start_process(f"{dsn}?schema={schema}")) != 0)
            asyncio.run(drop(dsn, schema))
            return failed

        failed = 0
        for turn in range(options.rounds):
            schema = f"first{turn}"
            failed += open_at_once(f"{dsn}?schema={schema}", options.nodes)
            asyncio.run(drop(dsn, schema))
        print(
            f"{options.rounds} schemas, {options.nodes} nodes at once each: {failed} starts failed"
        )
        wrong += failed

        def kill(name: str, at: Callable[[str, int], bool]) -> int:
            number, failed = 1, 0
            while at(f"{name}{number}", number):
                failed += reopen(f"{name}{number}")
                number += options.every
            asyncio.run(drop(dsn, f"{name}{number}"))
            print(f"{name}: {number - 1} places, {failed} schemas could not be opened afterwards")
            return failed

        wrong += kill("killed", lambda schema, n: asyncio.run(kill_before(server.port, schema, n)))
        wrong += kill("ended", lambda schema, n: asyncio.run(end_after(dsn, schema, n)))
        failed = 0
        for steps in range(1, len(load_migrations("postgres"))):
            asyncio.run(leave_half_made(dsn, f"half{steps}", steps))
            failed += reopen(f"half{steps}")
        print(f"half made by earlier releases: {failed} schemas could not be opened afterwards")
        wrong += failed
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
