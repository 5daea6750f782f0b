"""The console for everybody: what `axe` finds, a narrow screen, and the types of its source."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest
from console_kit import Shop, open_shop
from playwright.async_api import Browser, Page, expect

from awaken.server.console.pages import FOLDER
from browser_kit import KIT, NODE, open_browser

pytestmark = pytest.mark.anyio
expect.set_options(timeout=30_000)
AXE = KIT / "node_modules" / "axe-core" / "axe.min.js"
TSC = KIT / "node_modules" / ".bin" / "tsc"
FOUND = """async () => (await axe.run()).violations.map(
    (one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160)).join(' | '))"""


async def faults(page: Page) -> list[str]:
    await page.add_script_tag(path=AXE)
    found: list[str] = await page.evaluate(FOUND)
    return found


async def look(
    browser: Browser, shop: Shop, theme: Literal["light", "dark"], places: dict[str, str]
) -> dict[str, list[str]]:
    """What is wrong with each place, which is ready when its text is there."""
    context = await browser.new_context(bypass_csp=True, color_scheme=theme)
    page = await context.new_page()
    await page.goto(shop.link("settings"))
    wrong = {}
    for place, text in places.items():
        await page.goto(f"{shop.address}/console/{place}")
        await expect(page.get_by_text(text).first).to_be_visible()
        if found := await faults(page):
            wrong[place] = found
    await context.close()
    return wrong


async def test_axe_finds_nothing_in_both_themes(tmp_path: Path) -> None:
    """07/CO-51, on the screens that there are, empty, with data and failed."""
    empty = {"threads": "No threads yet", "inbox": "Nothing waits for you", "runs": "No runs yet"}
    async with open_browser() as browser, open_shop(tmp_path) as shop:
        wrong = [
            await look(browser, shop, "light", empty),
            await look(browser, shop, "dark", empty),
        ]
        run = await shop.waiting_run("order-7")
        full = {
            "threads": "order-7",
            "inbox": "waits for an answer",
            "runs": "desk",
            "threads/order-7": "My mug arrived in pieces.",
            f"runs/{run}": "find_order",
            f"runs/{run}?tab=events": "Choose a step",
            "threads/none": "There is nothing here",
        }
        wrong += [await look(browser, shop, "light", full), await look(browser, shop, "dark", full)]
        assert wrong == [{}, {}, {}, {}]


async def test_a_ticket_is_decided_at_360_pixels(tmp_path: Path) -> None:
    """07/CO-54."""
    async with open_browser() as browser, open_shop(tmp_path) as shop:
        await shop.waiting_run("order-7")
        page = await browser.new_page(viewport={"width": 360, "height": 640})
        await page.goto(shop.link())
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_text("was denied by local")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.close()


def test_the_types_of_the_pages_fit() -> None:
    done = subprocess.run(
        [TSC, "-p", FOLDER.parent / "jsconfig.json"],
        env={"PATH": os.pathsep.join([str(NODE.parent), os.environ["PATH"]])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
