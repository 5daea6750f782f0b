"""The demo as `make run` opens it: a page, an approval that waits, a button that kills."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from awaken.cli.output import has_browser

pytestmark = pytest.mark.anyio


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo on a machine whose browser is a program that writes down what it is to open."""
    opened = tmp_path / "opened.txt"
    opener = tmp_path / "open"
    opener.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    opener.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "awaken.cli", "demo", "--console", "--fast"],
        cwd=tmp_path,
        env={**os.environ, "DISPLAY": ":0", "BROWSER": str(opener), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def books_in(folder: Path) -> list[Path]:
    """The files that the shop enters refunds in."""
    return list(folder.glob("awaken-demo-*/books.jsonl"))


async def test_an_approval_waits_and_a_killed_server_comes_to_the_same_end(
    browser: Browser, demo: subprocess.Popen[str], tmp_path: Path
) -> None:
    """07/CO-6, 07/CO-29: the refund is paid, the server is killed before the call has answered, and
    another one finds that it was paid."""
    assert demo.stdout is not None
    link = demo.stdout.readline().split(": ", 1)[1].strip()
    assert demo.stdout.readline() == "stop with Ctrl-C\n"
    assert (tmp_path / "opened.txt").read_text().strip() == link
    page = await browser.new_page()
    await page.goto(link)
    await page.get_by_role("button", name="Approve").click()
    while not books_in(tmp_path):  # noqa: ASYNC110 the shop's process writes it
        await asyncio.sleep(0.01)
    await page.get_by_role("button", name="Kill the server").click()
    await expect(page.locator(".demo")).to_contain_text("was dead for", timeout=60_000)
    await expect(page.locator(".head-bar .badge")).to_have_text("finished", timeout=60_000)
    await expect(page.locator(".side")).to_contain_text("24.00 € paid back for order 1042")
    assert [len(books.read_text().splitlines()) for books in books_in(tmp_path)] == [1]
    await page.close()
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0
    assert books_in(tmp_path) == []


def test_a_machine_without_a_display_has_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not has_browser()
