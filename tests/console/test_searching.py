"""Searching in the console: the palette and the lists ask the server (07 §6, CO-40, CO-43)."""

from __future__ import annotations

import pytest
from console_kit import Shop
from playwright.async_api import Browser, Page, expect

from awaken.core.store.commits import ThreadCommit
from awaken.core.thread import ThreadPatch

pytestmark = pytest.mark.anyio


async def test_the_palette_finds_a_thread_behind_the_first_two_hundred(
    page: Page, shop: Shop
) -> None:
    await shop.runtime.run("porter", "A parcel of zeppelins.", thread="case-1")
    for n in range(210):
        await shop.runtime.store.commit(
            ThreadCommit(thread_id=f"other-{n}", expected_length=0, at_ms=4_000_000_000_000 + n)
        )
    await page.goto(shop.link("threads"))
    await expect(page.get_by_role("heading", name="Threads")).to_be_visible()
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Name of a place")
    found = page.get_by_role("listbox").get_by_role("option")
    await field.fill("case-1")
    await expect(found).to_contain_text(["Thread: case-1"])
    await field.fill("parcel zepp")
    await expect(found).to_contain_text(["Thread: case-1 · "])
    await field.fill("status:broken")
    await expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text(
        "status:broken: "
    )
    await field.fill("zepp")
    await expect(found).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log")).to_contain_text("A parcel of zeppelins.")


async def test_the_address_alone_restores_a_search(
    page: Page, shop: Shop, browser: Browser
) -> None:
    """07/CO-43: words and filters, in another browser."""
    await shop.runtime.run("porter", "A parcel of zeppelins.", thread="t1")
    await shop.runtime.run("porter", "A parcel of balloons.", thread="t2")
    await shop.runtime.update_thread("t2", ThreadPatch(title="<b>Birthday</b>"))
    await page.goto(shop.link("threads"))
    field = page.get_by_role("searchbox", name="Words and filters")
    items = page.locator("ul.list a.item")
    await expect(items).to_have_count(2)
    await field.fill("parcel balloons agent:porter")
    await field.press("Enter")
    await expect(items).to_have_count(1)
    await expect(items).to_contain_text("<b>Birthday</b>")
    other = await browser.new_page()
    await other.goto(shop.link("threads?q=" + page.url.partition("?q=")[2]))
    await expect(other.locator("ul.list a.item")).to_contain_text(["<b>Birthday</b>"])
    shown = other.get_by_role("searchbox", name="Words and filters")
    await expect(shown).to_have_value("parcel balloons agent:porter")
    await shown.fill("nothing has this")
    await shown.press("Enter")
    await expect(other.get_by_text("Nothing was found")).to_be_visible()
    await shown.fill("cost:1")
    await shown.press("Enter")
    await expect(other.get_by_text("cost:1: '1' is no comparison")).to_be_visible()
    await shown.fill("")
    await shown.press("Enter")
    await expect(other.locator("ul.list a.item")).to_have_count(2)
    await other.close()


async def test_failed_runs_are_listed(page: Page, shop: Shop) -> None:
    await shop.runtime.run("porter", "A parcel.", thread="t1")
    shop.scripts["porter-1"] = []
    with pytest.raises(Exception, match="failed"):
        await shop.runtime.run("porter", "A broken parcel.", thread="t2")
    await page.goto(shop.link("runs"))
    await page.get_by_role("button", name="failed").click()
    items = page.locator("ul.list a.item")
    await expect(items).to_have_count(1)
    await expect(items).to_contain_text("A broken parcel.")
    await page.get_by_role("searchbox", name="Words and filters").fill("zebra")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Nothing was found")).to_be_visible()
    assert "status=failed" in page.url
    assert "q=zebra" in page.url
