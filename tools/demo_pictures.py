"""The two pictures of the README: the demo's page as PNG, and the demo in a terminal as SVG.

PYTHONPATH=tests .venv/bin/python tools/demo_pictures.py
"""

from __future__ import annotations

import asyncio
import io
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

from playwright.async_api import expect
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from browser_kit import open_browser

HOME = Path(__file__).resolve().parents[1]
FOLDER = HOME / "docs" / "img"
AWAKEN = [sys.executable, "-P", "-m", "awaken.cli", "demo"]
COLUMNS = 104
LAST = "What you saw"
SPINNER = re.compile(r"\s*[\u2800-\u28ff]")
FONTS = re.compile(r"@font-face \{.*?\n\s*\}\n", re.DOTALL)


async def page_picture() -> None:
    """The page with a waiting approval."""
    demo = await asyncio.create_subprocess_exec(
        *AWAKEN, "--console", "--no-open", stdout=subprocess.PIPE, start_new_session=True
    )
    assert demo.stdout is not None
    try:
        link = (await demo.stdout.readline()).decode().split(": ", 1)[1].strip()
        async with open_browser() as browser:
            page = await browser.new_page(viewport={"width": 1280, "height": 600})
            await page.goto(link)
            await expect(page.get_by_role("button", name="Approve")).to_be_visible(timeout=60_000)
            await page.screenshot(path=FOLDER / "console.png")
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        await demo.communicate()


def terminal_picture() -> None:
    """What the demo prints in a terminal, up to what to try next."""
    leader, follower = pty.openpty()
    demo = subprocess.Popen(
        [*AWAKEN, "--terminal", "--fast", "--yes"],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)},
    )
    os.close(follower)
    printed = _read(leader)
    demo.wait()
    told = printed.partition(LAST)[0].replace("\r\n", "\n").rstrip()
    told = re.sub(r"/\S+/awaken-demo-\w+/", "", told)
    text = Text.from_ansi(told)
    lines = [line for line in text.split() if not SPINNER.match(line.plain)]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text("\n").join(lines))
    drawn = console.export_svg(title="awaken demo --terminal", theme=MONOKAI)
    # The fonts would be fetched from elsewhere: those of the reader's machine do as well.
    (FOLDER / "demo.svg").write_text(FONTS.sub("", drawn))


def _read(leader: int) -> str:
    found = b""
    while True:
        try:
            piece = os.read(leader, 65_536)
        except OSError:  # the last process with the other end has gone
            return found.decode()
        if not piece:
            return found.decode()
        found += piece


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    terminal_picture()
    asyncio.run(page_picture())
    for picture in sorted(FOLDER.iterdir()):
        print(f"{picture.relative_to(HOME)}: {picture.stat().st_size // 1000} KB")
