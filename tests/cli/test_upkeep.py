"""`fork` and `gc`, and what `decide` says to those it cannot help."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cli_process import Here, Printed, awaken
from store_kit import write_store

from awaken import Agent, Message, Runtime
from awaken.clock import SYSTEM_CLOCK
from awaken.codec import from_json, loads
from awaken.core.access import KeyEntry
from awaken.core.access_store import Access
from awaken.core.profile import ProfileOwner
from awaken.core.store.threads import DeleteResult
from awaken.core.thread import Thread
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.access import a_deed
from awaken.testing.conformance.helpers import record, write
from awaken.worker import RunRequest


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Two and three?", thread="sums-1")
    await runtime.run("adder", "Once more?", thread="sums-2")
    await runtime.run("payer", "Pay!", thread="bill")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_store(tmp_path, fill)


def test_a_fork_goes_another_way_from_any_step(printed: Printed) -> None:
    watched = printed("watch", "sums-1", "--no-follow")
    assert "  · step ended · seq 6\n" in watched
    told = printed("fork", "sums-1", "--at", "6", "--as", "sums-1b")
    assert told.startswith("thread sums-1b begins with 3 messages of sums-1\n")
    assert "awaken run MODULE:AGENT … --thread sums-1b" in told
    thread = loads(printed("fork", "sums-1", "--json"), Thread)
    assert (thread.forked_from, thread.message_count) == ("sums-1", 4)
    assert "I heard: 5. And you said: Hm." in printed(
        "run", "app:adder", "Hm.", "--thread", "sums-1b"
    )


def test_a_fork_that_cannot_be_made_says_why(here: Here) -> None:
    taken = here("fork", "sums-1", "--as", "sums-2")
    assert taken.code == 1
    assert "'sums-2' already exists" in taken.err
    later = here("fork", "sums-1", "--at", "999")
    assert later.code == 1
    assert "999" in later.err
    assert here("fork", "nowhere").code == 2


def test_gc_deletes_what_is_old_and_says_what_was_freed(home: Path) -> None:
    dry = awaken("gc", "--older-than", "0s", "--dry-run", cwd=home)
    assert dry.returncode == 0, dry.stderr
    assert {line.split()[0] for line in dry.stdout.splitlines()[1:-1]} == {"sums-1", "sums-2"}
    assert dry.stdout.endswith("2 threads would be deleted; nothing was deleted\n")
    young = awaken("gc", cwd=home)
    assert young.stdout == "nothing to delete\n"
    done = awaken("gc", "--older-than", "0s", "--vacuum", cwd=home)
    assert done.stdout.startswith("deleted 2 threads, 2 runs, ")
    assert " now\n" in done.stdout
    left = awaken("threads", cwd=home)
    assert [line.split()[0] for line in left.stdout.splitlines()[1:]] == ["bill"]


def test_gc_deletes_from_the_audit_only_when_it_is_told_to(home: Path) -> None:
    async def with_access(work: Callable[[Access], Awaitable[Any]]) -> Any:
        store = SqliteStore(home / "awaken.db")
        try:
            return await work(store.access)
        finally:
            await store.close()

    async def note(access: Access) -> None:
        for at in (1, now):
            await access.note_deed(a_deed(at))

    now = SYSTEM_CLOCK.now_ms()
    asyncio.run(with_access(note))
    awaken("gc", cwd=home)
    assert len(asyncio.run(with_access(lambda access: access.list_deeds("", limit=9)))) == 2
    done = awaken("gc", "--audit-older-than", "365d", cwd=home)
    assert done.stdout.endswith("deleted 1 line of the audit\n")
    ((_, left),) = asyncio.run(with_access(lambda access: access.list_deeds("", limit=9)))
    assert left.at == now


async def fill_beneath(runtime: Runtime) -> None:
    await runtime.run("payer", "Pay!", thread="bill")
    beneath = RunRequest(
        thread_id="beneath",
        parent_thread_id="bill",
        agent_id="adder",
        messages=(Message.user("Two and three?"),),
    )
    await runtime.engine.run(beneath)


def test_gc_sweeps_blobs_that_no_thread_uses(home: Path) -> None:
    (store,) = home.glob("*.db")
    left = Path(f"{store}-blobs", "_", "00", "0" * 32)
    left.parent.mkdir(parents=True)
    left.write_bytes(b" " * 4096 + b"left")
    assert awaken("gc", cwd=home).stdout == "nothing to delete\n"
    os.utime(left, (1, 1))
    done = awaken("gc", cwd=home)
    assert done.stdout == "deleted 0 threads, 0 runs, 0 commits, 1 blob, 4 bytes\n"
    assert not left.exists()


def test_gc_keeps_what_belongs_to_a_run_that_is_not_over(tmp_path: Path) -> None:
    """Else that run would have it done once more; whoever wants it gone cancels first."""
    home = write_store(tmp_path, fill_beneath)
    dry = awaken("gc", "--older-than", "0s", "--dry-run", cwd=home)
    assert dry.stdout == "0 threads would be deleted; nothing was deleted\n"
    assert awaken("gc", "--older-than", "0s", cwd=home).stdout == "nothing to delete\n"
    for thread in ("bill", "beneath"):
        refused = awaken("gc", "--thread", thread, "--children", "cascade", cwd=home)
        assert refused.returncode == 1
        assert "is open: cancel that run or let it end first" in " ".join(refused.stderr.split())
    done = awaken("gc", "--thread", "bill", "--children", "cascade", "--force", cwd=home)
    assert done.stdout.startswith("deleted 2 threads, 2 runs, ")


def test_gc_as_json_tells_what_was_freed_or_would_be(printed: Printed) -> None:
    dry = loads(printed("gc", "--older-than", "0s", "--dry-run", "--json"))
    assert {t.id for t in from_json(dry["would_free"], list[Thread])} == {"sums-1", "sums-2"}
    done = loads(printed("gc", "--thread", "sums-1", "--vacuum", "--json"))
    freed = from_json(done["freed"], DeleteResult)
    assert (freed.threads, freed.runs) == (1, 1)
    assert freed.commits > 0
    assert freed.bytes > 0
    assert done["compacted"]["after"] <= done["compacted"]["before"]
    assert "sums-1" not in printed("threads")


@pytest.mark.parametrize("age", ["30", "d", "30 days", "-3d", ""])
def test_an_age_that_is_none_is_refused(here: Here, age: str) -> None:
    done = here("gc", f"--older-than={age}")
    assert done.code == 2
    assert "is no length of time: write a number and s, m, h, d or w" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bill",), "say yes or no, or give --edit or --value"),
        (("bill", "c9", "yes"), "no call 'c9' waits in thread bill; these do: "),
        (("bill", "c1", "yes"), "name the one that was seen by its key, or give its --digest"),
        (("bill", "yes", "--digest", "0"), "no question of digest '0' waits in thread bill"),
        (("bill", "c1", "maybe"), "'maybe' is neither yes nor no"),
        (("bill", "--edit", "[7]"), "--edit takes all arguments as a JSON object, not [7]"),
        (("bill", "no", "--value", "1"), "no leaves nothing to edit"),
        (("bill", "--edit", "{}", "--value", "1"), "give either --edit"),
        (("sums-1", "yes"), "nothing in thread sums-1 waits for an answer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_decision_that_makes_no_sense_is_refused_with_the_next_move(
    here: Here, arguments: tuple[str, ...], words: str
) -> None:
    done = here("decide", *arguments)
    assert done.code == 2
    assert words in done.err
    assert "waits for an answer\n  ? refund(euros=7)" in here("show", "bill").out


# -- a tenant -----------------------------------------------------------------------------------


def test_a_tenant_is_forgotten_and_the_others_stay(tmp_path: Path) -> None:
    """06 §5.6: a run that is carried out is named, and the next time goes on with the rest."""
    store = f"sqlite:///{tmp_path / 'awaken.db'}"
    (tmp_path / "empty").mkdir()

    def forget(*words: str) -> subprocess.CompletedProcess[str]:
        return awaken("db", "forget", "--store", store, *words, cwd=tmp_path / "empty")

    async def work() -> None:
        async with Runtime([Agent("echo", model="demo")], store=store) as runtime:
            for thread in ("acme/one", "acme/two"):
                await write(runtime.store, thread, run=record(f"run {thread}", thread))
            await runtime.run("echo", "hello", thread="mine")
            await runtime.store.profiles.set(ProfileOwner(scope="acme"), "mood", "fine")
            access = runtime.store.access
            for id, scope in (("theirs", "acme"), ("ours", "")):
                await access.add_key(id, KeyEntry(sha256="0" * 64, scope=scope))
            fence = await runtime.store.claim("acme/two", at_ms=1)
            dry = await asyncio.to_thread(forget, "--scope", "acme", "--dry-run")
            assert dry.stdout.endswith("2 threads would be deleted; nothing was deleted\n")
            cut = await asyncio.to_thread(forget, "--scope", "acme")
            assert cut.returncode == 1
            assert cut.stdout.startswith("deleted 1 thread, 1 run, ")
            assert [id for id, _ in await access.list_keys()] == ["ours"], "no new threads may come"
            assert "acme/two runs, and is kept: `awaken cancel acme/two`" in cut.stderr
            await runtime.store.release(fence)
            done = await asyncio.to_thread(forget, "--scope", "acme", "--json")
            assert loads(done.stdout)["freed"]["threads"] == 1
            assert loads(done.stdout)["kept"] == []
            assert await runtime.store.profiles.list(ProfileOwner(scope="acme")) == []
            assert [thread.id for thread in await runtime.list_threads()] == ["mine"]

    asyncio.run(work())
    assert forget("--scope", "acme").stdout == "nothing to delete\n"
    refused = forget("--scope", "")
    assert refused.returncode == 2
    assert "1 to 63 characters" in refused.stderr
