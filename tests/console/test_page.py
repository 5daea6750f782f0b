"""The console in a real Chromium, on a real server and a SQLite file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from asking import AGENTS, ARRIVED, SHIPPING
from console_kit import ANN, Shop, open_shop
from hostile import TEXTS
from playwright.async_api import Browser, Page, Route, expect

from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ToolCallResume
from awaken.core.thread import ThreadPatch
from awaken.server.keys import add_key
from poisoned_kit import agents as poisoned_agents
from poisoned_kit import poison_sqlite

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


async def test_a_receipt_shows_everything_it_reached_what_is_unknown_first(
    page: Page, tmp_path: Path
) -> None:
    """07/CO-15: before it is sent, the dialogue names what would be stopped."""
    (tmp_path / "ships").mkdir()
    SHIPPING.clear()
    ARRIVED.clear()
    async with open_shop(tmp_path / "ships", agents=AGENTS) as shop:
        run = await shop.submit("parcel", "shipper", "Send it.")
        await page.goto(shop.link(f"runs/{run}"))
        await asyncio.to_thread(SHIPPING.wait)
        await expect(row(page, "call", "ship").locator(".pulse")).to_be_visible()
        await page.keyboard.press("x")
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("listitem")).to_have_text(["run shipper", "call ship"])
        async with page.expect_response("**/cancel?*") as told:
            await page.get_by_role("button", name="Cancel the run").click()
        items = (await (await told.value).json())["items"]
        rows = dialog.locator("tbody tr")
        await expect(rows).to_have_count(len(items))
        assert {item["outcome"] for item in items} == {"unknown", "stopped", "finished"}
        await expect(rows.first).to_contain_text("unknown")
        await expect(rows.first).to_contain_text("ship")
        for item in items:
            one = dialog.get_by_role("row", name=f"{item['kind']} {item['name']}")
            await expect(one).to_contain_text(item["outcome"])
            await expect(one).to_contain_text(item["note"] or "")
        await expect(dialog).to_contain_text("What to do")
        ARRIVED.set()


async def test_a_server_that_comes_back_is_heard_again_without_a_gap(
    page: Page, shop: Shop
) -> None:
    """07/CO-29, with the server gone and back on the same port."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}"))
    await expect(row(page, "call", "refund")).to_be_visible()
    await shop.stop()
    await expect(page.get_by_text("has not been heard")).to_be_visible()
    await shop.answer_elsewhere("order-7")
    await shop.start()
    await expect(page.locator(".head-bar .badge")).to_have_text("finished")
    await expect(row(page, "call", "refund")).to_have_count(1)
    await expect(row(page, "call", "refund")).to_contain_text("denied")
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_server_that_dies_leaves_every_page_as_it_was_and_failed_ones_come_by_themselves(
    page: Page, shop: Shop
) -> None:
    """07/CO-29, 07/CO-55: also a page that is opened while there is no server."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link("inbox"))
    foot, places = page.locator(".foot"), ("inbox", "threads", "audit", "threads/order-7")
    texts = dict(
        zip(places, ("refund", "order-7", "people and programs", "My mug arrived"), strict=True)
    )
    for place, text in texts.items():
        await page.evaluate(GO, place)
        await expect(page.get_by_text(text).first).to_be_visible()
        await shop.stop()
        await expect(foot).to_contain_text("lost")
        await expect(page.get_by_text(text).first).to_be_visible()
        await shop.start()
        await expect(foot).to_contain_text("connected")
    await shop.stop()
    await expect(foot).to_contain_text("lost")
    for place in ("runs", f"runs/{run}"):
        await page.evaluate(GO, place)
        await expect(page.get_by_role("alert").first).to_contain_text("cannot be reached")
    await shop.start()
    await expect(row(page, "call", "refund")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_the_keyboard_alone_opens_a_run_inspects_a_step_and_decides(
    page: Page, shop: Shop
) -> None:
    """07/CO-52, without the fork: from the first page to the answer without a mouse."""
    await shop.waiting_run("order-7")
    await page.goto(shop.link("threads"))
    await expect(page.get_by_text("order-7")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    opened = page.locator("a.item", has_text="desk")
    await expect(opened).to_be_visible()
    for _ in range(40):
        if await opened.evaluate("(one) => one === document.activeElement"):
            break
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    tree = page.get_by_role("tree")
    await expect(row(page, "call", "refund")).to_be_visible()
    while not await tree.evaluate("(one) => one === document.activeElement"):
        await page.keyboard.press("Tab")
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("3")
    await expect(page.get_by_role("tabpanel")).to_contain_text("I look at the order")
    await page.keyboard.press("1")
    await page.keyboard.press("End")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".head-bar .badge")).to_have_text("finished")
    assert len(shop.paid) == 1


async def test_folding_the_root_and_back_keeps_the_selection(page: Page, shop: Shop) -> None:
    """07/CO-31."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}"))
    await row(page, "call", "policy").click()
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("policy")
    selected = page.url
    twist = page.get_by_role("treeitem").first.locator(".twist")
    await twist.click()
    await expect(page.get_by_role("treeitem")).to_have_count(1)
    await expect(page.locator(".side h2")).to_contain_text("policy")
    await twist.click()
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("policy")
    assert page.url == selected


class Watch:
    """What a page does that no text should make it do."""

    def __init__(self, page: Page) -> None:
        self.dialogues, self.asked, self.lines = list[str](), list[str](), list[str]()
        page.on("dialog", lambda shown: self.dialogues.append(shown.message))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda line: self.lines.append(line.text))


async def test_two_hundred_hostile_texts_are_shown_as_texts(page: Page, shop: Shop) -> None:
    """07/CO-44, 07/CO-45: as what a user, a model, a tool, a title, a key, a question, a reason and
    an error say, and in deep JSON: nothing runs, nothing is asked for, no global is new, and
    `innerHTML` raises."""
    assert len(TEXTS) >= 200
    seen = Watch(page)
    run = await shop.hostile_run("evil", TEXTS)
    await shop.runtime.update_thread("evil", ThreadPatch(title=TEXTS[0]))
    for thread in ("answered", "asked", "open"):
        await shop.hostile_question(thread, TEXTS)
    (ticket,) = await shop.runtime.list_tickets(TicketQuery(thread_id="answered"))
    no = ToolCallResume.deny("\n".join(TEXTS)[:4000], digest=ticket.digest)
    await shop.runtime.decide(ticket.run_id, {ticket.key: no}, principal=ANN)
    await page.goto(shop.link("threads"))
    await expect(page.get_by_text("<script>").first).to_be_visible()
    before = await page.evaluate("Object.keys(window).length")
    for place in (
        "runs",
        "inbox",
        "inbox?show=history",
        "threads/evil",
        "threads/asked",
        f"runs/{run}?tab=request",
        f"runs/{run}?tab=events",
    ):
        await page.evaluate(GO, place)
        await expect(page.get_by_text("<script>").first).to_be_visible()
        await page.evaluate(OPEN_ALL)
    await row(page, "call", "policy").first.click()
    for tab in ("Overview", "Request", "Result", "State", "Ledger", "Events"):
        await page.get_by_role("tab", name=tab).click()
        await page.evaluate(OPEN_ALL)
    await expect(page.locator(".side")).to_contain_text("<script>")
    evil = {"error": {"message": TEXTS[0], "hint": "\n".join(TEXTS)}}
    await page.route("**/v1/runs?*", lambda route: route.fulfill(status=500, json=evil))
    await page.evaluate(GO, "runs")
    await expect(page.get_by_role("alert")).to_contain_text("<script>")
    raised = await page.evaluate(
        "(() => { try { document.body.innerHTML = '<b>x</b>' } catch (e) { return e.name } })()"
    )
    assert raised == "TypeError"
    assert await page.evaluate("Object.keys(window).length") == before
    assert await page.locator("script, iframe, object, embed, img, form").count() == 1
    assert seen.dialogues == []
    expected = ("TrustedHTML", "500 (Internal Server Error)")
    assert [line for line in seen.lines if not any(word in line for word in expected)] == []
    assert all(url.startswith(shop.address) for url in seen.asked)


PARTS = {
    "threads": ("**/v1/threads?*", "order-7"),
    "runs": ("**/v1/runs?*", "desk"),
    "inbox": ("**/v1/tickets?*", "1 waits for an answer"),
    "inbox?show=history": ("**/v1/tickets?status=answered*", "No question was answered yet"),
    "audit": ("**/v1/audit", "signed in"),
    "threads/order-7": ("**/v1/threads/order-7/messages?*", "My mug arrived"),
    "runs/{run}": ("**/outline?*", "find_order"),
    "runs/{run}?tab=events": ("**/steps/2", "step_start"),
    "runs/{run}?tab=request": ("**/steps/2/request?*", "The system prompt"),
    "runs/{run}?tab=ledger": ("**/steps/2", "waits for an answer"),
    "runs/{run}?tab=state": ("**/steps/2/state", "Changed by step 2"),
    "runs/{run}?tab=overview": ("**/v1/tickets/*0", "Approve"),
}
"""Each part of the page, by its place: what it loads, and what it shows then."""


async def test_a_part_that_fails_leaves_the_rest_and_can_be_tried_again_alone(
    page: Page, shop: Shop
) -> None:
    """07/CO-55, for each part."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link("threads"))
    for place, (address, text) in PARTS.items():
        await page.route(address, lambda route: route.fulfill(status=503, body="{}"))
        await page.goto(f"{shop.address}/console/{place.format(run=run)}")
        await expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
        await expect(page.get_by_role("navigation", name="Places")).to_be_visible()
        if "tab" in place:
            await expect(row(page, "call", "refund")).to_be_visible()
        await page.unroute(address)
        again = page.get_by_role("button", name="Try again")
        # It may be gone: the page looks by itself, too.
        await again.evaluate_all("found => found.forEach((one) => one.click())")
        await expect(page.locator("main").get_by_text(text).first).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)


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


async def test_grey_lines_are_there_before_the_first_of_the_page_s_code(
    page: Page, shop: Shop
) -> None:
    """07 §10: on a slow network the page is not blank, and the lines give way to it."""
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/app.mjs", hold)
    await page.goto(shop.link("threads"), wait_until="commit")
    await expect(page.get_by_role("status", name="Loading")).to_be_visible()
    held.set()
    await expect(page.get_by_text("No threads yet")).to_be_visible()
    await expect(page.locator(".lines")).to_have_count(0)


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


async def test_lists_say_how_many_rows_the_server_cannot_read(
    browser: Browser, tmp_path: Path
) -> None:
    poison_sqlite(tmp_path / "shop.db")
    async with open_shop(tmp_path, agents=poisoned_agents()) as shop:
        page = await browser.new_page()
        places = {"threads": "3 rows", "runs": "6 rows", "inbox?show=history": "3 rows"}
        for name, count in places.items():
            await page.goto(shop.link(name))
            line = page.get_by_text("of this list cannot be read")
            await expect(line).to_contain_text(count)
            await expect(line).to_contain_text("awaken db check")
        await page.goto(shop.link("threads"))
        await expect(page.get_by_text("healthy")).to_be_visible()
        await page.close()


async def test_a_link_of_somebody_else_asks_before_it_replaces_a_session(
    browser: Browser, tmp_path: Path
) -> None:
    """Whoever makes a link could otherwise have the viewer write into a tenant of theirs."""
    file = tmp_path / "keys.toml"
    mine = add_key(file, name="ann", scope="acme", roles=("admin",))
    theirs = add_key(file, name="eve", scope="other", roles=("admin",))
    async with open_shop(tmp_path, keys=file) as shop:

        async def link(key: str) -> str:
            head = {"authorization": f"Bearer {key}"}
            made = await shop.client.post("/v1/session/words", headers=head)
            return f"{shop.address}/console/threads#t={made.json()['word']}"

        context = await browser.new_context()
        page = await context.new_page()
        heading = page.get_by_role("heading", name="Threads", exact=True)
        await page.goto(await link(mine))
        await expect(heading).to_be_visible()
        again = await context.new_page()
        await again.goto(await link(mine))
        await expect(again.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
        await again.close()
        for answer, name, scope in (
            ("Stay as I am", "ann", "acme"),
            ("Use the link", "eve", "other"),
        ):
            other = await context.new_page()
            await other.goto(await link(theirs))
            asked = other.get_by_role("main")
            await expect(asked).to_contain_text("signs you in as eve of other")
            await expect(asked).to_contain_text("signed in as ann of acme")
            await other.get_by_role("button", name=answer).click()
            await expect(other.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
            who = await other.evaluate(
                """async () => (await fetch('/v1/me', {headers: {authorization:
                `Bearer ${sessionStorage.getItem('awaken.session')}`}})).json()"""
            )
            assert (who["name"], who["scope"]) == (name, scope)
            await other.close()
        await context.close()


async def test_a_link_in_a_text_says_where_it_leads(page: Page, shop: Shop) -> None:
    await shop.hostile_run(
        "links",
        [
            "[https://bank.example/login](https://k.example/x)",
            "[the bank at k.example](https://k.example/y)",
            "[https://bank.example@k.example/z](https://bank.example@k.example/z)",
            "[https://k.example/own](https://k.example/own)",
        ],
    )
    await page.goto(shop.link("threads/links"))
    for path, hosts in (("x", 1), ("y", 1), ("z", 1), ("own", 0)):
        link = page.locator(f'a[href$="k.example/{path}"]').last
        await expect(link).to_be_visible()
        assert await link.locator("xpath=following-sibling::*[1][self::small]").count() == hosts, (
            path
        )
