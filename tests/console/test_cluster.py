"""`make cluster`: three nodes, and a page that goes on when the node that answers is killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from cluster.agent import ANSWER, FIRST

pytestmark = pytest.mark.anyio

HOME = Path(__file__).parents[2]
FOLDERS = os.pathsep.join(str(HOME / folder) for folder in ("tests", "tests/stores", "tools"))


@asynccontextmanager
async def cluster(folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cluster", "--lease", "1", *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": FOLDERS, "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


async def printed(process: asyncio.subprocess.Process, until: str) -> list[str]:
    """The lines that are printed up to one with this text."""
    assert process.stdout is not None
    found: list[str] = []
    while until not in (found[-1] if found else ""):
        line = await process.stdout.readline()
        assert line, "".join(found)
        found.append(line.decode())
    return found


def pids(lines: list[str]) -> list[int]:
    return [int(pid) for line in lines for pid in re.findall(r"pid (\d+)", line)]


def noted(folder: Path) -> list[str]:
    """The lines that the agent's tool has written."""
    (notes,) = folder.glob("awaken-cluster-*/notes.txt")
    return notes.read_text().splitlines()


async def test_the_page_goes_on_by_itself_when_a_node_is_killed(
    browser: Browser, tmp_path: Path
) -> None:
    """06/CL-24. The node that answers is killed, and then the one that serves the page: the text is
    whole and the tool was called once."""
    async with cluster(tmp_path, "--console", "--no-open", "--pace", "0.06") as process:
        begun = await printed(process, "Enter kills")
        (link,) = [line.split(": ", 1)[1].strip() for line in begun if "page is open" in line]
        page = await browser.new_page()
        await page.goto(link)
        chat = page.get_by_role("log")
        await expect(chat).to_contain_text("has claimed our thread", timeout=60_000)

        assert process.stdin is not None
        process.stdin.write(b"\n")
        told = await printed(process, "goes on with the answer")
        killed, *_, taker = pids(told)
        serves = next(pid for pid in pids(begun) if pid != killed)
        if killed != pids(begun)[0]:
            os.kill(serves, signal.SIGKILL)

        for words in (FIRST, *ANSWER.split("\n\n")):
            await expect(chat).to_contain_text(words, timeout=120_000)
        await expect(page.get_by_role("button", name="Stop")).to_have_count(0, timeout=60_000)
        text = await chat.inner_text()
        assert [text.count(part) for part in ANSWER.split("\n\n")] == [1, 1, 1, 1]
        assert len(noted(tmp_path)) == 1
        assert taker != killed
        await page.close()


async def test_without_a_terminal_it_is_played_to_its_end(tmp_path: Path) -> None:
    """06/CL-24, as `make cluster </dev/null` plays it."""
    async with cluster(tmp_path, "--pace", "0.01") as process:
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert "was killed (SIGKILL)" in out.decode()
    assert "equals what is stored" in out.decode()
    assert "was called 1 time\n" in out.decode()
