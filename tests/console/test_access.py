"""The console for everybody: what `axe` finds, a narrow screen, and the types of its source."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from asking import AGENTS
from console_kit import Shop, open_shop, said
from playwright.async_api import Browser, Page, Route, expect

from awaken.server.console.pages import FOLDER
from browser_kit import KIT, NODE

pytestmark = pytest.mark.anyio
AXE = KIT / "node_modules" / "axe-core" / "axe.min.js"
TSC = KIT / "node_modules" / ".bin" / "tsc"
FOUND = """async (options) => (await axe.run(document, options)).violations.map(
    (one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160)).join(' | '))"""
GO = """(place) => {
    history.pushState(null, '', '/console/' + place);
    dispatchEvent(new PopStateEvent('popstate'));
}"""
ALL = {"resultTypes": ["violations"]}
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"], **ALL}


class Inspection:
    """What `axe` finds on the places of one page. The theme changes colours alone, so in the dark
    the rules about colours are asked again."""

    def __init__(self, page: Page) -> None:
        self.page, self.wrong = page, dict[str, list[str]]()

    async def look(self, places: dict[str, str]) -> None:
        """Look at each place, which is ready when its text is there."""
        for place, text in places.items():
            await self.page.evaluate(GO, place)
            await expect(self.page.get_by_text(text).first).to_be_visible()
            await self.look_here(place)

    async def look_here(self, place: str) -> None:
        found: list[str] = await self.page.evaluate(FOUND, ALL)
        await self.page.emulate_media(color_scheme="dark")
        found += [f"dark {one}" for one in await self.page.evaluate(FOUND, COLOURS)]
        await self.page.emulate_media(color_scheme="light")
        if found:
            self.wrong[place] = found


async def test_axe_finds_nothing_in_both_themes(browser: Browser, tmp_path: Path) -> None:
    """07/CO-51, on each screen: empty, with data, loading and failed, and in its dialogues."""
    context = await browser.new_context(bypass_csp=True, color_scheme="light")
    page = await context.new_page()
    seen = Inspection(page)
    async with open_shop(tmp_path, agents=AGENTS) as shop:
        await page.goto(shop.link("threads"))
        await page.add_script_tag(path=AXE)
        await seen.look(
            {"threads": "No threads yet", "inbox": "Nothing waits for you", "runs": "No runs yet"}
        )
        await seen.look({"inbox?show=history": "No question was answered yet"})
        run = await shop.waiting_run("order-7")
        await fill(shop)
        await seen.look(
            {
                "threads": "order-7",
                "inbox": "wait for an answer",
                "inbox?show=history": "ann",
                "runs": "desk",
                "threads/order-7": "My mug arrived in pieces.",
                "threads/order-8": "Head",
                f"runs/{run}": "find_order",
                f"runs/{run}?tab=result": "Approve refund?",
                f"runs/{run}?tab=events": "The durable events of step 2",
                f"runs/{run}?tab=request": "The system prompt",
                f"runs/{run}?tab=state": "Changed by step 2",
                f"runs/{run}?tab=ledger": "find_order",
                "audit": "signed in",
                "threads/none": "There is nothing here",
            }
        )
        await look_at_questions(seen)
        await look_at_dialogues(seen, run)
        await look_at_failures(seen, run)
    await context.close()
    assert seen.wrong == {}


async def fill(shop: Shop) -> None:
    """Questions of every kind, one answered, and a text with everything that Markdown has."""
    for agent, thread in (("seller", "vase"), ("spender", "roof")):
        await shop.runtime.run(agent, "Go on.", thread=thread)
    await shop.asking_run("visit")
    await shop.waiting_run("order-9")
    await shop.waiting_run("order-6")
    await shop.answer_elsewhere("order-6")
    table = "# Head\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n> [x](https://example.org)\n- one"
    shop.scripts["desk-1"] = [said(table)]
    await shop.runtime.run("desk", "A table, please.", thread="order-8")


async def look_at_questions(seen: Inspection) -> None:
    page = seen.page
    await page.evaluate(GO, "inbox")
    for thread in ("vase", "roof", "visit"):
        await page.locator(".item", has_text=f"thread {thread}").click()
        await expect(page.locator("section.card")).to_be_visible()
        await seen.look_here(f"the question of {thread}")
    await page.locator(".item", has_text="thread order-7").click()
    await page.get_by_label("euros").fill("20")
    await seen.look_here("edited arguments")


async def look_at_dialogues(seen: Inspection, run: str) -> None:
    page = seen.page
    for place, name in (
        ("inbox", "alike"),
        ("threads", "New thread"),
        (f"runs/{run}", "Cancel"),
        ("runs", "Keys"),
    ):
        await page.evaluate(GO, place)
        await page.get_by_role("button", name=name).click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await seen.look_here(f"the dialogue {name}")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Name of a place")).to_be_focused()
    await seen.look_here("the names of all places")
    await page.keyboard.press("Escape")


async def look_at_failures(seen: Inspection, run: str) -> None:
    page = seen.page
    await page.route("**/v1/**", lambda route: route.fulfill(status=503, body="{}"))
    for place in ("threads", "runs", "audit", "threads/order-7", f"runs/{run}"):
        await page.evaluate(GO, place)
        await expect(page.get_by_role("alert")).to_be_visible()
        await seen.look_here(f"{place}, failed")
    await page.unroute("**/v1/**")
    waiting: list[Route] = []
    await page.route("**/v1/threads?*", lambda route: waiting.append(route))
    await page.evaluate(GO, "threads")
    await expect(page.get_by_label("Loading")).to_be_visible()
    await seen.look_here("threads, loading")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("Key")).to_be_visible()
    await seen.look_here("signing in")
    for route in waiting:
        await route.abort()


async def test_a_ticket_is_decided_at_360_pixels_and_with_text_twice_as_large(
    browser: Browser, shop: Shop
) -> None:
    """07/CO-54."""
    page = await browser.new_page(viewport={"width": 360, "height": 640})
    for thread, scale in (("order-7", 1), ("order-8", 2)):
        await shop.waiting_run(thread)
        await page.goto(shop.link())
        await page.evaluate(
            "(scale) => (document.documentElement.style.fontSize = `${scale * 16}px`)", scale
        )
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
        timeout=550,
    )
    assert done.returncode == 0, done.stdout


async def test_with_text_twice_as_large_no_number_of_a_row_lies_on_another(
    page: Page, shop: Shop
) -> None:
    """07 §10: text scales to 200 %."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}"))
    await expect(page.locator(".row:has(.icon.call)", has_text="refund")).to_be_visible()
    await page.evaluate("document.documentElement.style.fontSize = '32px'")
    cut = await page.evaluate(
        "[...document.querySelectorAll('.tree .number, .rail select, .rail .light, .shape')]"
        ".filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    )
    assert cut == []
    name = await page.locator(".tree .row .name").first.bounding_box()
    assert name is not None
    assert name["width"] > 200
