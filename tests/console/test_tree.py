"""The tree of the run page, fed with the events of a real run; without a browser."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from console_kit import Shop
from stories import record_all

from awaken.codec import dumps
from awaken.runtime.live.tree import follow_tree
from awaken.server.console.pages import FOLDER
from awaken.stores.bus.local import LocalBus
from browser_kit import NODE

pytestmark = pytest.mark.anyio


def check_laws(laws: str, story: Path) -> None:
    program = [NODE, Path(__file__).parent / laws, FOLDER, story]
    done = subprocess.run(program, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr


async def test_what_a_watcher_saw_is_what_the_log_tells_in_every_story(tmp_path: Path) -> None:
    """07/CO-7, 07/CO-8, 07/CO-10, 07/CO-16: delegates to three levels, calls side by side, tasks,
    hand-over, a stream that broke, recovery, cancelled, failed, suspended twice, a summary."""
    story = tmp_path / "stories.json"
    story.write_bytes(dumps(await record_all(tmp_path)))
    check_laws("story_laws.mjs", story)


async def test_a_tree_is_the_same_however_its_stream_is_cut(tmp_path: Path) -> None:
    """07/CO-9, 07/CO-11, 07/CO-32, and the laws of differences, marks and Markdown."""
    shop = Shop(tmp_path)
    async with shop.runtime, shop.client:
        run_id = await shop.waiting_run("order-7")
        await shop.answer_elsewhere("order-7")
        await shop.runtime.wait(run_id)
        told = follow_tree(shop.runtime.store, LocalBus(), "order-7", live=False)
        events = [event async for event in told]
    story = tmp_path / "story.json"
    story.write_bytes(dumps({"run_id": run_id, "events": events}))
    check_laws("tree_laws.mjs", story)
