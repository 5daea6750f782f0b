"""Other processes on the same file: they are heard, and one that is killed loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing, contextmanager
from pathlib import Path

import pytest

from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import says, texts, wait_until_named, write

pytestmark = pytest.mark.anyio

PATIENCE = 100.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


@contextmanager
def child(path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `program` with a `store`, and says `ready` before it begins."""
    source = PROGRAM.format(program="\n    ".join(program.strip().splitlines()))
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert said(process) == "ready"
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


PROGRAM = """
import asyncio, sys
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import event, raw, record, says, texts, write

def say(what):
    print(what, flush=True)

def listen():
    return asyncio.to_thread(sys.stdin.readline)

async def main(store):
    say("ready")
    {program}

asyncio.run(main(SqliteStore(sys.argv[1])))
"""


async def test_what_another_process_does_is_noticed(store: SqliteStore, path: Path) -> None:
    await write(store, messages=says("a"))
    program = """
await listen()
await write(store, messages=says("b"))
await listen()
cancel = ThreadCommand(thread_id="t", kind=CommandKind.CANCEL)
await store.send(cancel)
await listen()
await write(store, "u", sends=(cancel,))
await store.close()
"""

    async def followed() -> list[str]:
        version = await store.wait_changed("t", 0)
        while len(found := await texts(store)) < 2:
            version = await store.wait_changed("t", version)
        return found

    with child(path, program) as other:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            commands = tasks.create_task(wait_until_named(store, "t"))
            follower = tasks.create_task(followed())
            await asyncio.sleep(0)
            tell(other)
            assert await follower == ["a", "b"]
            assert not commands.done()
            tell(other)
            await commands
            async with aclosing(store.watch_commands()) as ready:
                assert await anext(ready) == {"t"}
                tell(other)
                assert await anext(ready) == {"t"}
    assert len(await store.load_commands("t")) == 2


async def test_another_process_is_heard_though_this_one_writes_all_the_time(
    store: SqliteStore, path: Path
) -> None:
    """Nobody is idle here, so nothing is noticed by waiting."""
    await write(store, messages=says("a"))
    program = """
await listen()
await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL))
await store.close()
"""
    with child(path, program) as other:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            commands = tasks.create_task(wait_until_named(store, "t"))
            tell(other)
            while not commands.done():
                await write(store, "busy")
    assert len(await store.load_commands("t")) == 1


async def test_a_process_that_is_killed_while_it_writes_loses_nothing(
    store: SqliteStore, path: Path
) -> None:
    """What was answered is there; what was not is there as a whole, or not at all."""
    await write(store, "u")
    program = """
for n in range(10**6):
    commit = ThreadCommit(
        thread_id="t", expected_length=2 * n, messages=says(f"{n} a", f"{n} b"),
        run=record("r", revision=n), run_state=raw(n=n), thread_state=raw(n=n), events=(event(),),
        sends=(ThreadCommand(thread_id="u", kind=CommandKind.MESSAGES, at_ms=n),),
    )
    await store.commit(commit)
    say(n)
"""
    with child(path, program) as other:
        answered = [int(said(other)) for _ in range(130)]
        other.send_signal(signal.SIGKILL)
        # Not `communicate`, which passes over what was read ahead; the last line may be cut.
        assert other.stdout is not None
        lines = other.stdout.read().splitlines(keepends=True)
        answered += [int(line) for line in lines if line.endswith("\n")]

    thread = await store.load_thread("t")
    assert thread is not None
    commits = thread.event_count
    assert answered[-1] + 1 <= commits <= answered[-1] + 2
    assert thread.message_count == 2 * commits
    assert await texts(store) == [f"{n} {x}" for n in range(commits) for x in "ab"]
    assert (await store.load_thread_state("t")).extensions == {"n": commits - 1}
    run = await store.load_run("r")
    assert run is not None
    assert run.revision == commits - 1
    assert [sent.at_ms for sent in await store.load_commands("u")] == list(range(commits))
    await write(store, messages=says("and on"))
    await store.close()
    assert os.listdir(path.parent) == [path.name]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.timeout(100)
def test_a_process_that_never_closes_its_store_ends_all_the_same(path: Path) -> None:
    """Nothing that reads or writes for it holds it up."""
    program = """
        await write(store, messages=says("a"))
        say(await texts(store))
        globals()["kept"] = store
    """
    with child(path, textwrap.dedent(program)) as process:
        assert said(process) == "['a']"
        assert process.wait() == 0
