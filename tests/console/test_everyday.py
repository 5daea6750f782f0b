"""What makes the console quick to work with: the ledger, names for everything, densities, news."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from asking import AGENTS, crash
from console_kit import Shop, open_shop
from hostile import TEXTS
from playwright.async_api import Browser, Page, expect

from awaken.core.thread import ThreadPatch
from awaken.server.keys import add_key

pytestmark = pytest.mark.anyio
NOTED = """() => {
    window.noted = [];
    window.Notification = class {
        static permission = 'default';
        static requestPermission = async () => (Notification.permission = 'granted');
        constructor(title, more) { noted.push([title, more.body, more.tag]); noted.last = this; }
        close() {}
    };
}"""
"""Notifications of a browser whose reader says yes; the one of the tests has none to show."""
HIDE = "(is) => Object.defineProperty(document, 'hidden', { value: is, configurable: true })"


def call_row(page: Page, name: str) -> Any:
    return page.locator(".row:has(.icon.call)", has_text=name)


async def test_the_ledger_tells_what_was_meant_what_came_of_it_and_who_decided(
    browser: Browser, tmp_path: Path
) -> None:
    """07 §5.1: of a call whose process died in it, and that a person settled."""
    await crash(tmp_path / "shop.db", "rent")
    async with open_shop(tmp_path, agents=AGENTS) as shop:
        page = await browser.new_page()
        await page.goto(shop.link("inbox"))
        await page.get_by_label("Why").fill("the bank says so")
        await page.locator(".card").get_by_role("button", name="It happened").click()
        await expect(page.get_by_text("was approved by local")).to_be_visible()
        (run,) = [run for run in await shop.runtime.list_runs() if run.agent_id == "teller"]
        await shop.runtime.wait(run.run_id)
        await page.goto(shop.link(f"runs/{run.run_id}?tab=ledger"))
        await expect(page.get_by_role("tabpanel")).to_contain_text("Choose a step")
        await call_row(page, "transfer").click()
        panel = page.get_by_role("tabpanel")
        await expect(panel).to_contain_text("once")
        lines = [text.strip() for text in await panel.locator("tbody tr").all_text_contents()]
        told = ("intent", "taken up again", "waits", "answered by local: the bank says so")
        found = [next(i for i, line in enumerate(lines) if words in line) for words in told]
        assert found == sorted(found), lines
        assert lines[-1].endswith("succeeded"), lines
        await page.close()
        assert shop.problems == []


async def test_the_ledger_of_a_step_has_a_line_for_each_phase_of_its_calls(shop: Shop) -> None:
    run = await shop.waiting_run("order-7")
    steps = [(await shop.client.get(f"/v1/runs/{run}/steps/{n}")).json() for n in (1, 2)]
    told = [[(one["tool_name"], one["phase"]) for one in step["ledger"]] for step in steps]
    assert sorted(told[0]) == sorted(
        (name, phase) for name in ("agent_run_clerk", "policy") for phase in ("intent", "succeeded")
    )
    assert [phase for name, phase in told[1] if name == "refund"][-1] == "suspended"
    assert {one["tool_name"] for one in steps[1]["ledger"]} == {"refund"}
    traits = {
        one["tool_name"]: (one["effect"], one["recovery"])
        for step in steps
        for one in step["ledger"]
    }
    assert traits["refund"] == ("once", "report")
    assert traits["policy"] == ("read", "retry")
    keys = {one["key"] for one in steps[1]["ledger"]}
    assert keys == {f"{steps[1]['step']['message_id']}:0"}


async def test_sums_of_a_thread_count_its_delegates_once(page: Page, shop: Shop) -> None:
    """07/CO-10, of a whole conversation; a price that nobody knows is said (07/CO-11)."""
    waiting = await shop.waiting_run("order-7")
    await shop.answer_elsewhere("order-7")
    await shop.runtime.wait(waiting)
    await shop.runtime.run("porter", "Weigh it, too.", thread="order-7")
    await shop.waiting_run("order-8")
    runs = [run for run in await shop.runtime.list_runs() if run.thread_id.startswith("order-7")]
    assert {run.agent_id for run in runs} == {"desk", "clerk", "porter"}
    told = (await shop.client.get("/v1/threads/order-7/usage")).json()
    assert told["runs"] == 2
    used = sum(run.input_tokens + run.output_tokens for run in runs)
    assert told["usage"]["total_tokens"] == used
    costs = [run.cost for run in runs if run.cost is not None]
    assert told["cost"] == pytest.approx(sum(costs))
    assert told["has_unknown_cost"]
    await page.goto(shop.link("threads/order-7"))
    shown = page.locator(".stats span")
    await expect(shown.filter(has_text="tokens").locator("b")).to_have_text(f"{used:,}")
    await expect(shown.filter(has_text="cost").locator("b")).to_contain_text("+ ?")
    await shop.runtime.run("porter", "Again.", thread="order-7")
    await expect(shown.filter(has_text="runs").locator("b")).to_have_text("3")


async def test_anything_is_done_by_name_with_the_keyboard_alone(page: Page, shop: Shop) -> None:
    """07 §9, 07/CO-52, 07/CO-53: `Ctrl K`, also from a field; hostile titles are text."""
    await shop.runtime.run("porter", "Weigh it.", thread="parcel")
    await shop.runtime.update_thread("parcel", ThreadPatch(title=TEXTS[0]))
    await page.goto(shop.link("threads/parcel"))
    message = page.get_by_label("Message")
    await message.focus()
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Name of a place")
    await expect(field).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(message).to_be_focused()
    found = page.get_by_role("listbox").get_by_role("option")
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.type("go runs")
    await expect(found).to_have_text(["Go to Runs"])
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox", name="Words and filters")).to_be_focused()
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.type("thread:")
    await expect(found).to_contain_text([TEXTS[0].splitlines()[0]])
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log")).to_contain_text("Weigh it.")
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.type("theme")
    await expect(found).to_have_count(3)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.type("nothing is called this")
    await expect(page.get_by_text("Nothing has such a name")).to_be_visible()
    await page.keyboard.press("Enter")
    await page.keyboard.press("ArrowUp")
    await expect(field).to_be_focused()
    await field.fill("new thread")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog", name="New thread")).to_be_visible()


async def test_a_viewer_is_not_offered_what_only_others_may_do(
    browser: Browser, tmp_path: Path
) -> None:
    """07/CO-47: neither by name, nor by a key, nor by an address."""
    key = add_key(tmp_path / "keys.toml", name="eve", roles=("read",))
    async with open_shop(tmp_path, keys=tmp_path / "keys.toml") as shop:
        run = await shop.waiting_run("order-7")
        page = await browser.new_page()
        await page.goto(f"{shop.address}/console/threads?new=1")
        await page.get_by_label("Key").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("order-7")).to_be_visible()
        await page.keyboard.press("n")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.keyboard.press("Control+k")
        field = page.get_by_role("combobox", name="Name of a place")
        for words, found in (("order-7", ["Thread: order-7"]), ("new", []), ("audit", [])):
            await field.fill(words)
            await expect(page.get_by_role("listbox").get_by_role("option")).to_have_text(found)
        await page.keyboard.press("Escape")
        await page.goto(f"{shop.address}/console/runs/{run}?tab=request")
        tabs = ["Overview", "Result", "Ledger", "Events"]
        await expect(page.get_by_role("tab")).to_have_text(tabs)
        await page.close()
        assert shop.problems == []


async def test_rows_are_dense_or_roomy_and_grow_with_the_text(page: Page, shop: Shop) -> None:
    """07 §10: 26 and 34 pixels, kept for the next visit; the last row can be reached in each."""
    run = await shop.long_run("audit", 400)
    await page.goto(shop.link(f"runs/{run}"))
    tree = page.get_by_role("tree")
    last = tree.get_by_text("step 401", exact=True)
    heights = []
    for density in ("dense", "roomy", None):
        if density is not None:
            await page.get_by_label("Density").select_option(density)
        else:
            await page.reload()
            await expect(page.get_by_label("Density")).to_have_value("roomy")
            await page.evaluate("document.documentElement.style.fontSize = '32px'")
        await expect(page.locator(".stats b").first).to_have_text("401")
        await tree.focus()
        await page.keyboard.press("Home")
        await page.keyboard.press("End")
        await expect(last).to_be_in_viewport(ratio=0.9)
        box = await page.locator(".tree .row").first.bounding_box()
        assert box is not None
        heights.append(round(box["height"]))
    assert heights == [26, 34, 68]


async def test_new_questions_are_told_of_while_the_page_is_not_seen(page: Page, shop: Shop) -> None:
    """07 §5.3: once the reader has said yes, and only of those that are new."""
    await page.add_init_script(f"({NOTED})()")
    await shop.waiting_run("order-1")
    await page.goto(shop.link("inbox"))
    await page.get_by_role("button", name="Notify me").click()
    await expect(page.get_by_role("button", name="Notify me")).to_have_count(0)
    await shop.waiting_run("order-2")
    await expect(page.get_by_text("2 wait for an answer")).to_be_visible()
    assert await page.evaluate("noted") == []
    await page.evaluate(HIDE, True)
    await shop.waiting_run("order-3")
    await expect(page.get_by_text("3 wait for an answer")).to_be_visible()
    ((title, body, key),) = await page.evaluate("noted")
    assert (title, body) == ("refund waits for an answer", "thread order-3")
    await shop.answer_elsewhere("order-3")
    await expect(page.get_by_text("2 wait for an answer")).to_be_visible()
    assert len(await page.evaluate("noted")) == 1
    await page.evaluate(HIDE, False)
    await page.evaluate("noted.last.onclick()")
    await expect(page.locator(".side")).to_contain_text("was denied by ann")
    assert key in unquote(page.url)
