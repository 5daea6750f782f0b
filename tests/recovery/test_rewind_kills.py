"""A kill around a rewind leaves the old view and the submission, or the new view (06 §2.11)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from rewind_stage import THREAD, echo

import forked
from awaken import Runtime
from awaken.core.event import MessagesRewound

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("rewind_stage.py")
PATIENCE = 100
OLD = ["one", "one", "two", "one+two"]
NEW = ["one", "one", "edited", "one+edited"]


async def play(*arguments: object) -> int:
    """The return code of a process that plays a part."""
    return (await forked.play_beside(STAGE, *arguments)).returncode


@pytest.mark.parametrize(("part", "at"), [("before", 1), ("after", 1), ("before", 2)])
async def test_a_rewind_and_its_new_message_are_kept_together(
    tmp_path: Path, part: str, at: int
) -> None:
    path = tmp_path / "a.db"
    address = f"sqlite:///{path}"
    async with Runtime([echo()], store=address, recover=False) as runtime:
        for prompt in ("one", "two"):
            await runtime.run("echo", prompt, thread=THREAD)
        edited = (await runtime.messages(THREAD))[2].id

    assert await play("submit", path, edited) == -signal.SIGKILL
    assert await play(part, path, at) == -signal.SIGKILL

    async with Runtime([echo()], store=address, recover=False) as runtime:
        view = [message.text() for message in await runtime.messages(THREAD)]
        waiting = await runtime.store.load_commands(THREAD)
        is_new = (part, at) != ("before", 1)
        assert (view, bool(waiting)) == ((NEW[:3], False) if is_new else (OLD, True))
        (run,) = [run for run in await runtime.list_runs() if run.status.value != "done"]
    async with Runtime([echo()], store=address) as runtime:
        await runtime.wait(run.run_id, timeout=PATIENCE)
        assert [message.text() for message in await runtime.messages(THREAD)] == NEW
        log = [message.text() for message in await runtime.messages(THREAD, hidden=True)]
        assert log == [*OLD, *NEW[2:]]
        told = [event.event async for event in runtime.events(THREAD, follow=False)]
        assert sum(isinstance(event, MessagesRewound) for event in told) == 1
        again = await runtime.submit("echo", "edited", thread=THREAD, rewind_to=edited, key="k")
        assert (again.run_id, again.is_new) == (run.run_id, False)
