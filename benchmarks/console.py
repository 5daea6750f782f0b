"""The console's budgets, kept in a real Chromium: `make bench-console`.

    python -m benchmarks.console [--seconds 60] [--steps 10000]

The table says what each budget is and what was measured, and with which load. A page is watched
while a real runtime on a SQLite file streams to it over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from console_kit import Shop, open_shop
from playwright.async_api import Browser, CDPSession, Page

from awaken.clock import SYSTEM_CLOCK
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.runtime import Agent
from awaken.server.console import Pages
from browser_kit import open_browser

Row = tuple[str, str, str]
FRAMES = """() => {
    const seen = (window.seen = { frames: [], long: [] });
    let last = performance.now();
    const next = (now) => {
        seen.frames.push(now - last);
        last = now;
        requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
    const note = (list) => list.getEntries().forEach((one) => seen.long.push(one.duration));
    new PerformanceObserver(note).observe({ entryTypes: ['longtask'] });
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
SAID = "document.querySelector('.side')?.textContent.match(/w\\d+/g)?.length ?? 0"
SCROLL = """async () => {
    const tree = document.querySelector('.tree');
    const frames = [];
    let last = performance.now();
    const step = tree.scrollHeight / 120;
    for (let at = 0; at < 120; at += 1) {
        tree.scrollTop += step;
        await new Promise(requestAnimationFrame);
        frames.push(performance.now() - last);
        last = performance.now();
    }
    return frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.95)];
}"""


class Talker:
    """A model that says `seconds` times `pace` words, evenly."""

    name = "talker"

    def __init__(self, pace: int, seconds: float) -> None:
        self.pace, self.words = pace, int(pace * seconds)
        self.may_begin = asyncio.Event()

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        await self.may_begin.wait()
        began = SYSTEM_CLOCK.monotonic()
        for number in range(self.words):
            due = began + number / self.pace
            if (left := due - SYSTEM_CLOCK.monotonic()) > 0.002:
                await asyncio.sleep(left)
            yield TextDelta(delta=f"w{number} ")
        yield Stop(reason=StopReason.END_TURN)


async def metric(session: CDPSession, name: str) -> float:
    told: dict[str, Any] = await session.send("Performance.getMetrics")
    return float(next(one["value"] for one in told["metrics"] if one["name"] == name))


async def files(page: Page, shop: Shop) -> list[Row]:
    pages = Pages()
    loaded = [name for name in pages._files if name.endswith(".mjs") or name == "all.css"]
    size = sum(len(pages._files[name].packed) for name in loaded)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(shop.link())
    await page.get_by_text("No threads yet").wait_for()
    elsewhere = sum(not url.startswith(shop.address) for url in asked)
    told = f"{len(asked)}, {elsewhere} elsewhere"
    return [
        ("all JS and CSS, gzip", "80 KB", f"{size / 1000:.1f} KB"),
        ("requests for the first page", "30, none elsewhere", told),
    ]


async def first_rows(page: Page, shop: Shop) -> list[Row]:
    run = await shop.long_run("two-hundred", 199)
    await page.goto(shop.link(f"runs/{run}"))
    await page.locator(".tree .row").first.wait_for()
    rows = await page.evaluate("performance.now()")
    paint = await page.evaluate(PAINT)
    told = f"{paint:.0f} ms / {rows:.0f} ms"
    return [("first paint / rows of a 200-step run", "300 ms / 600 ms", told)]


async def streamed(browser: Browser, folder: Path, pace: int, seconds: float) -> list[Row]:
    """A run that says so many words a second, watched on its page."""
    talker = Talker(pace, seconds)
    async with open_shop(folder, agents=[Agent("talker", model=talker)]) as shop:
        page = await browser.new_page()
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")
        run = await shop.submit("talk", "talker", "Talk.")
        await page.goto(shop.link(f"runs/{run}"))
        await page.locator(".head-bar .badge", has_text="live").wait_for()
        await page.evaluate(FRAMES)
        before = await metric(session, "TaskDuration")
        began = SYSTEM_CLOCK.monotonic()
        talker.may_begin.set()
        await shop.runtime.wait(run)
        await page.locator(".head-bar .badge", has_text="finished").wait_for()
        took = SYSTEM_CLOCK.monotonic() - began
        busy = (await metric(session, "TaskDuration") - before) / took
        seen = await page.evaluate("window.seen")
        await page.locator(".row:has(.icon.step)").first.click()
        said = await page.evaluate(SAID)
        await page.close()
    fps = len(seen["frames"]) / took
    longest = max(seen["long"], default=0)
    lost = talker.words - min(said, talker.words)
    told = f"{busy:.0%} of a core, longest task {longest:.0f} ms, {fps:.0f} fps, {lost} lost"
    budget = "35 %, 100 ms, 50 fps" if pace <= 500 else "nothing lost, 30 fps"
    return [(f"{pace} events/s for {seconds:g} s", budget, f"{told} (took {took:.0f} s)")]


async def long_run(browser: Browser, folder: Path, steps: int) -> list[Row]:
    async with open_shop(folder) as shop:
        run = await shop.long_run("long", steps - 1)
        page = await browser.new_page()
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")
        await page.goto(shop.link(f"runs/{run}"))
        await page.locator(".tree .row").first.wait_for()
        rows = await page.evaluate("performance.now()")
        p95 = await page.evaluate(SCROLL)
        elements = await page.evaluate("document.querySelectorAll('*').length")
        heap = await metric(session, "JSHeapUsedSize")
        await page.close()
    told = f"{rows:.0f} ms; {p95:.0f} ms"
    return [
        (f"{steps:,} steps: first rows; p95 of a frame while scrolling", "700 ms; 33 ms", told),
        ("elements; heap", "700; 80 MB", f"{elements}; {heap / 1e6:.0f} MB"),
    ]


def imported() -> list[Row]:
    code = (
        "import sys, awaken; print(sum(name.startswith('awaken.server') for name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [("`import awaken`: modules of the server", "none", found.stdout.strip())]


async def measure(seconds: float, steps: int) -> list[Row]:
    rows: list[Row] = []
    async with open_browser() as browser:
        with tempfile.TemporaryDirectory() as folder:
            async with open_shop(Path(folder)) as shop:
                page = await browser.new_page()
                rows += await files(page, shop)
                rows += await first_rows(page, shop)
                await page.close()
        for pace, length in ((500, seconds), (2_000, min(seconds, 10))):
            with tempfile.TemporaryDirectory() as folder:
                rows += await streamed(browser, Path(folder), pace, length)
        with tempfile.TemporaryDirectory() as folder:
            rows += await long_run(browser, Path(folder), steps)
    return rows + imported()


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.console")
    asked.add_argument("--seconds", type=float, default=60)
    asked.add_argument("--steps", type=int, default=10_000)
    given = asked.parse_args()
    before = os.getloadavg()[0]
    rows = asyncio.run(measure(given.seconds, given.steps))
    print("| | at most | measured |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(f"\n{os.cpu_count()} cores, load {before:.1f} before and {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
