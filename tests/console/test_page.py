"""The console in a real Chromium, on a real server and a SQLite file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from console_kit import Shop, open_shop
from hostile import TEXTS
from playwright.async_api import Browser, Page, expect

from awaken.domain.metadata import ThreadPatch
from awaken.server.keys import add_key

pytestmark = pytest.mark.anyio
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => (one.open = true))"
GO = """(place) => {
    history.pushState(null, '', '/console/' + place);
    dispatchEvent(new PopStateEvent('popstate'));
}"""


def row(page: Page, kind: str, text: str) -> Any:
    return page.locator(f".row:has(.icon.{kind})", has_text=text)


async def test_a_link_opens_the_page_once_and_leaves_no_trace_of_its_word(
    page: Page, shop: Shop
) -> None:
    """07/CO-4, 07/CO-49: the token is in `sessionStorage` and nowhere else, and nothing is loaded
    from elsewhere (07/CO-1)."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    address = shop.link()
    await page.goto(address)
    await expect(page.get_by_text("No threads yet")).to_be_visible()
    assert "#" not in page.url
    assert all(url.startswith(shop.address) for url in asked)
    assert len(asked) <= 30, asked
    kept = await page.evaluate(
        "[sessionStorage.length, JSON.stringify(localStorage), document.cookie, location.href]"
    )
    token = await page.evaluate("sessionStorage.getItem('awaken.session')")
    assert kept[0] == 1
    assert token.startswith("awc_")
    assert not any(token in place for place in (*kept[1:], *asked))
    again = await shop.client.post("/v1/session", json={"word": address.partition("#t=")[2]})
    assert again.status_code == 401
    assert "set-cookie" not in again.headers


async def test_a_run_is_watched_live_and_reads_the_same_when_it_is_loaded_again(
    page: Page, shop: Shop
) -> None:
    """07/CO-7: the tree of live events is the tree of the log; 07/CO-9: calls of one id in two
    steps are two rows; 07/CO-10: sums count each thing once."""
    shop.gate.clear()
    submitted = await shop.submit("order-7", "desk", "My mug arrived in pieces.")
    await page.goto(shop.link(f"runs/{submitted}"))
    await expect(page.get_by_role("tree")).to_be_visible()
    await expect(page.locator(".head-bar .badge")).to_have_text("live")
    shop.gate.set()
    await expect(page.locator(".head-bar .badge")).to_have_text("waits for an answer")
    await expect(row(page, "call", "refund")).to_contain_text("asks")
    live = await page.locator(".row:not(.column-names) .words").all_text_contents()
    await page.reload()
    await expect(row(page, "call", "refund")).to_be_visible()
    await expect(page.locator(".row:not(.column-names) .words")).to_have_text(live)
    assert sum("find_order" in words for words in live) == 1
    assert len([words for words in live if words in ("policy", "agent_run_clerk")]) == 2
    runs = (await shop.runtime.list_runs()).items
    used = sum(run.input_tokens + run.output_tokens for run in runs)
    await expect(page.locator(".stats span", has_text="tokens").locator("b")).to_have_text(
        f"{used:,}"
    )


async def test_an_approval_is_given_in_the_inspector_and_the_run_goes_on(
    page: Page, shop: Shop
) -> None:
    """07/CO-17 with `by` the signed-in name; 07/CO-22: a double click decides once."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}"))
    await row(page, "call", "refund").click()
    await page.get_by_label("Why").fill("the photo shows it")
    await page.get_by_role("button", name="Approve").dblclick()
    await expect(page.locator(".head-bar .badge")).to_have_text("finished")
    await expect(page.locator(".side")).to_contain_text("by local: “the photo shows it”")
    assert shop.paid == ["paid 40 euros back for order 7"]


async def test_a_question_that_was_answered_elsewhere_says_by_whom(page: Page, shop: Shop) -> None:
    """07/CO-19, 07/CO-21: the buttons go."""
    await shop.waiting_run("order-7")
    await page.goto(shop.link("inbox"))
    await expect(page.get_by_role("button", name="Deny")).to_be_visible()
    await shop.answer_elsewhere("order-7")
    await expect(page.get_by_role("button", name="Deny")).to_have_count(0)
    await expect(page.locator(".side")).to_contain_text("denied by ann")


async def test_a_thread_is_begun_and_cancelled_with_a_receipt(page: Page, shop: Shop) -> None:
    """07/CO-15, 07/CO-53: the focus goes back to the button of the dialogue."""
    await page.goto(shop.link("threads"))
    await page.get_by_role("button", name="New thread").click()
    await page.get_by_role("combobox", name="Agent").select_option("desk")
    await page.get_by_role("textbox", name="Message").fill("My mug arrived in pieces.")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Keep it running").click()
    await expect(page.locator("dialog")).to_have_count(0)
    await expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Cancel the run").click()
    await expect(page.get_by_role("row", name="stopped")).to_have_count(2)
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator(".side .shape.cancelled")).to_be_visible()


async def test_a_server_that_comes_back_is_heard_again_without_a_gap(
    page: Page, shop: Shop
) -> None:
    """07/CO-29, with the server gone and back on the same port."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}"))
    await expect(row(page, "call", "refund")).to_be_visible()
    await shop.stop()
    await expect(page.get_by_role("alert")).to_contain_text("has not been heard")
    await shop.answer_elsewhere("order-7")
    await shop.start()
    await expect(page.locator(".head-bar .badge")).to_have_text("finished")
    await expect(row(page, "call", "refund")).to_have_count(1)
    await expect(row(page, "call", "refund")).to_contain_text("denied")
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_the_keyboard_alone_opens_a_run_and_inspects_a_step(page: Page, shop: Shop) -> None:
    """07/CO-52, without the fork; 07/CO-31: folding the root keeps the selection."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}"))
    tree = page.get_by_role("tree")
    await expect(row(page, "call", "refund")).to_be_visible()
    await tree.focus()
    await page.keyboard.press("End")
    await expect(page.locator(".side h2")).to_contain_text("refund")
    selected = page.url
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowLeft")
    await expect(page.get_by_role("treeitem")).to_have_count(1)
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("End")
    assert page.url == selected
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("refund")


async def test_two_hundred_hostile_texts_are_shown_as_texts(page: Page, shop: Shop) -> None:
    """07/CO-44, 07/CO-45: as what a user, a model, a tool, a title and a key say, and in deep JSON:
    nothing runs, nothing is asked for, no global is new, and `innerHTML` raises."""
    assert len(TEXTS) >= 200
    dialogues: list[str] = []
    asked: list[str] = []
    refused: list[str] = []
    page.on("dialog", lambda shown: dialogues.append(shown.message))
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda line: refused.append(line.text))
    run = await shop.hostile_run("evil", TEXTS)
    await shop.runtime.update_thread("evil", ThreadPatch(title=TEXTS[0]))
    await page.goto(shop.link("threads"))
    await expect(page.get_by_text("<script>").first).to_be_visible()
    before = await page.evaluate("Object.keys(window).length")
    for place in ("runs", "threads/evil", f"runs/{run}?tab=request", f"runs/{run}?tab=events"):
        await page.evaluate(GO, place)
        await expect(page.get_by_text("<script>").first).to_be_visible()
    await row(page, "call", "policy").first.click()
    for tab in ("Overview", "Request", "Result", "State", "Events"):
        await page.get_by_role("tab", name=tab).click()
        await page.evaluate(
            "document.querySelectorAll('details').forEach((one) => (one.open = true))"
        )
    await expect(page.locator(".side")).to_contain_text("<script>")
    raised = await page.evaluate(
        "(() => { try { document.body.innerHTML = '<b>x</b>' } catch (e) { return e.name } })()"
    )
    assert raised == "TypeError"
    assert await page.evaluate("Object.keys(window).length") == before
    assert await page.locator("script, iframe, object, embed, img, form").count() == 1
    assert dialogues == []
    assert [line for line in refused if "TrustedHTML" not in line] == []
    assert all(url.startswith(shop.address) for url in asked)


async def test_a_part_that_fails_can_be_tried_again(page: Page, shop: Shop) -> None:
    """07/CO-55."""
    await page.goto(shop.link("runs"))
    await expect(page.get_by_text("No runs yet")).to_be_visible()
    await page.route("**/v1/runs?*", lambda route: route.fulfill(status=503, body="{}"))
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    await page.unroute("**/v1/runs?*")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_text("No runs yet")).to_be_visible()


async def test_a_long_run_is_drawn_from_its_outline_and_a_step_is_read_when_it_is_opened(
    page: Page, shop: Shop
) -> None:
    """07/CO-31, in short: few elements are in the page, and folding keeps the selection."""
    run = await shop.long_run("audit", 320)
    await page.goto(shop.link(f"runs/{run}"))
    await expect(page.locator(".stats span", has_text="steps").locator("b")).to_have_text("321")
    await page.wait_for_function("document.querySelectorAll('*').length < 700")
    await page.get_by_role("tree").focus()
    await page.keyboard.press("End")
    await page.keyboard.press("ArrowUp")
    await expect(page.locator(".side h2")).to_contain_text("step 320")
    await page.keyboard.press("ArrowRight")
    await expect(row(page, "call", "policy")).to_have_count(1)
    await expect(row(page, "model", "desk-1")).to_have_count(1)
    used = sum(
        run.input_tokens + run.output_tokens for run in (await shop.runtime.list_runs()).items
    )
    shown = page.locator(".stats span", has_text="tokens").locator("b")
    await expect(shown).to_have_text(f"{used / 1000:.1f}k")


async def test_a_viewer_signs_in_with_a_key_and_is_offered_nothing_else(
    browser: Browser, tmp_path: Path
) -> None:
    """07/CO-47, in the page."""
    key = add_key(tmp_path / "keys.toml", name="eve", roles=("read",))
    async with open_shop(tmp_path, keys=tmp_path / "keys.toml") as shop:
        run = await shop.waiting_run("order-7")
        page = await browser.new_page()
        await page.goto(f"{shop.address}/console/runs/{run}")
        await page.get_by_label("Key").fill("awk_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("key is not known")
        await page.get_by_label("Key").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await row(page, "call", "refund").click()
        await expect(page.locator(".side .card")).to_contain_text("by someone with the role")
        await expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Key")).to_be_visible()
        assert await page.evaluate("sessionStorage.length") == 0
        await page.close()
