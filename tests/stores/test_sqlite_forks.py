"""Forked children, and several who look at once: nobody dead seems alive, nobody alive dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awaken.errors import ThreadOwned
from awaken.stores.sqlite import SqliteStore, owners
from awaken.testing.conformance.helpers import expect_error, names, says, texts, write

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
]

PARENT = """
import asyncio, os, signal, sys
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import record, says, texts, write

def say(*what):
    print(*what, flush=True)

def listen():
    return sys.stdin.readline()

store = SqliteStore(sys.argv[1])

async def own():
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("parent"), run=record("r"), fence=fence)

asyncio.run(own())
pid = os.fork()
signal.alarm(20)
"""

LIVES_ON = """
if pid == 0:
    say("child")
    listen()
    say("still here")
    os._exit(0)
os.waitpid(pid, 0)
"""

USES_THE_STORE = """
async def use():
    before = store.owner
    try:
        await store.claim("t", at_ms=2)
    except Exception as error:
        say(type(error).__name__)
    fence = await store.claim("u", at_ms=2)
    await write(store, "u", messages=says("child"), fence=fence)
    say(before != store.owner, store.owner == fence.owner)
    await store.close()

async def go_on():
    say(*await texts(store), *await texts(store, "u"))
    await store.close()

if pid == 0:
    asyncio.run(use())
    os._exit(0)
os.waitpid(pid, 0)
asyncio.run(go_on())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


@contextmanager
def parent(path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that owns thread `t`, has forked, and goes on as `program` says."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT + program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()  # the end of its input is the end of a child that lives on


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_a_child_that_lives_on_does_not_keep_its_dead_parents_threads(
    store: SqliteStore, path: Path
) -> None:
    """A worker of a pool, say; the lock goes with the process that took it."""
    with parent(path, LIVES_ON) as process:
        assert said(process) == "child"
        await expect_error(ThreadOwned, store.claim("t", at_ms=2))
        assert names(await store.list_interrupted(now_ms=2)) == []

        process.send_signal(signal.SIGKILL)
        process.wait()

        assert names(await store.list_interrupted(now_ms=2)) == ["r"]
        fence = await store.claim("t", at_ms=3)
        await write(store, messages=says("next"), fence=fence)
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert said(process) == "still here"
    assert await texts(store) == ["parent", "next"]


async def test_a_store_can_be_used_in_a_forked_child(path: Path) -> None:
    """Under another name: what the parent owns stays the parent's, and it goes on undisturbed."""
    with parent(path, USES_THE_STORE) as process:
        out, _ = process.communicate(timeout=250)

    assert out.splitlines() == ["ThreadOwned", "True True", "parent child"]
    assert process.returncode == 0
    assert os.listdir(path.parent) == [path.name]


async def test_two_who_look_at_once_do_not_take_each_other_for_the_owner(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each locks the file of a dead owner for a moment; it is dead to both."""
    os.close(os.open(f"{path}-owner-dead", os.O_CREAT))
    one, other = owners.Owners(str(path), "one"), owners.Owners(str(path), "other")
    unlink, seen = os.unlink, []

    def unlink_while_the_other_looks(name: str) -> None:
        monkeypatch.undo()
        seen.append(other.is_alive("dead"))
        unlink(name)

    monkeypatch.setattr(os, "unlink", unlink_while_the_other_looks)

    assert not one.is_alive("dead")
    assert seen == [False]


async def test_who_looks_at_a_living_owner_leaves_it_alone(path: Path) -> None:
    """A look shares its lock with other looks, and never with the owner."""
    alive, one = owners.Owners(str(path), "alive"), owners.Owners(str(path), "one")
    alive.lock()

    assert one.is_alive("alive")
    assert one.tidy() == 0

    alive.unlock()
    assert not one.is_alive("alive")
