"""Messages that a run has left behind are sent by whoever is there, once (03 §2, 03/DB-5)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from outbox_stage import READER, SENDER, reader, sender

from awaken import Runtime
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.store.commits import NeverLost
from awaken.core.store.threads import RunQuery
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import waiting_threads

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("outbox_stage.py")


async def begin(part: str, path: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(STAGE), part, str(path), stdout=asyncio.subprocess.PIPE
    )


async def written_and_killed(path: Path, part: str = "write") -> None:
    """A process has written to a thread it does not reach, and was killed when its run was over."""
    process = await begin(part, path)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(100):
            assert await process.stdout.readline() == b"ended\n"
    finally:
        process.kill()
        await process.wait()


async def sent_and_died(path: Path, times: int = 1) -> None:
    """So many processes have sent what was left, all at once, and died before they noted it."""
    processes = [await begin("send", path) for _ in range(times)]
    try:
        async with asyncio.timeout(100):
            codes = [await process.wait() for process in processes]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
    assert codes == [-signal.SIGKILL] * times


async def make_reader(path: Path) -> None:
    async with Runtime([reader()], store=f"sqlite:///{path}", recover=False) as runtime:
        await runtime.run("reader", "hi", thread=READER)


async def hellos(runtime: Runtime) -> list[Message]:
    return [m for m in await runtime.messages(READER) if m.text() == "hello"]


async def all_read(runtime: Runtime) -> None:
    """Wait until the message was read, and nothing is left to send or to do."""
    store, seen = runtime.store, 0
    async with asyncio.timeout(100):
        while not await hellos(runtime):
            seen = await store.wait_changed(READER, seen)
        seen = 0
        while await store.list_outboxes():
            seen = await store.wait_changed(SENDER, seen)
        await runtime.wait(READER)
    assert not await waiting_threads(store)
    (run,) = await runtime.list_runs(RunQuery(thread_id=SENDER))
    assert run.status is RunStatus.DONE, "nobody has asked the sender anything"


async def test_who_opens_the_store_sends_what_a_dead_process_has_left(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await written_and_killed(path)
    await make_reader(path)

    async with Runtime([sender(), reader()], store=f"sqlite:///{path}") as runtime:
        await all_read(runtime)
        assert len(await hellos(runtime)) == 1


async def test_who_has_the_store_open_sends_what_a_dead_process_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NeverLost, "poll_interval", 0.05)
    path = tmp_path / "a.db"
    await make_reader(path)
    async with Runtime([sender(), reader()], store=f"sqlite:///{path}") as runtime:
        await written_and_killed(path, "write in vain")
        await all_read(runtime)
        assert len(await hellos(runtime)) == 1


async def test_what_was_sent_is_not_read_twice_though_its_sender_died_before_it_knew(
    tmp_path: Path,
) -> None:
    """It is killed between the two, twice; then it is read, and sent once more."""
    path = tmp_path / "a.db"
    await written_and_killed(path)
    await make_reader(path)
    for _ in range(2):
        await sent_and_died(path)

    async with Runtime([sender(), reader()], store=f"sqlite:///{path}") as runtime:
        await all_read(runtime)
        assert len(await hellos(runtime)) == 1


async def test_processes_that_open_the_store_at_once_send_it_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await written_and_killed(path)
    await make_reader(path)
    await sent_and_died(path, times=3)

    async with Runtime([sender(), reader()], store=f"sqlite:///{path}") as runtime:
        await all_read(runtime)
        assert len(await hellos(runtime)) == 1


async def test_a_message_that_cannot_be_sent_becomes_a_dead_letter_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """03/MH-2: after five attempts, counted over processes."""
    monkeypatch.setattr(NeverLost, "poll_interval", 0.01)
    path = tmp_path / "a.db"
    await written_and_killed(path)
    store = SqliteStore(path)
    async with Runtime([sender()], store=store), asyncio.timeout(100):
        seen = 0
        while await store.list_outboxes():
            seen = await store.wait_changed(SENDER, seen)
        state = (await store.load_thread_state(SENDER)).extensions
    await store.close()

    (letter,) = state["background_failed_durable_messages"]["messages"]
    assert letter["request"]["message"] == "hello"
    assert READER in letter["error"]


async def test_only_who_has_its_agent_sends_what_a_thread_has_left(tmp_path: Path) -> None:
    """It may have a way of its own to bring messages."""
    path = tmp_path / "a.db"
    await written_and_killed(path)
    await make_reader(path)
    async with Runtime([reader()], store=f"sqlite:///{path}") as runtime:
        await runtime.engine.tasks.send_outboxes()
        assert await runtime.store.list_outboxes() == [SENDER]
        assert not await hellos(runtime)
