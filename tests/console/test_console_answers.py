"""Answering in the console: every kind of question, several at once, and by several people."""

from __future__ import annotations

import asyncio
import csv
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from asking import AGENTS, crash
from console_kit import Shop, open_shop, said
from playwright.async_api import Browser, Page, expect

from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.server.keys import add_key

pytestmark = pytest.mark.anyio


async def decided(shop: Shop, thread: str) -> Ticket:
    """The ticket of a thread, once it was answered."""
    while True:
        (ticket,) = await shop.runtime.list_tickets(TicketQuery(thread_id=thread))
        if ticket.decision is not None:
            return ticket
        await asyncio.sleep(0.02)


async def asked(shop: Shop, agent: str, thread: str) -> str:
    """The id of a run that waits for an answer."""
    result = await shop.runtime.run(agent, "Go on.", thread=thread)
    assert result.waiting
    return result.run_id


class Kind(NamedTuple):
    """A kind of question, how it is answered in the page, and the same answer by API."""

    agent: str
    answer: dict[str, Any]
    deed: Callable[[Page], Awaitable[None]]


async def approve(page: Page) -> None:
    await page.get_by_label("Why").fill("seen")
    await page.get_by_role("button", name="Approve").click()


async def deny(page: Page) -> None:
    await page.get_by_label("Why").fill("too much")
    await page.get_by_role("button", name="Deny").click()


async def edit(page: Page) -> None:
    await page.get_by_label("euros").fill("20")
    await expect(page.locator(".difference")).to_contain_text('+ "euros": 20')
    await page.get_by_role("button", name="Approve as edited").click()


async def tell(page: Page) -> None:
    await page.get_by_label("Your answer").fill("Ann, on Friday")
    await page.get_by_role("button", name="Answer", exact=False).dblclick()


async def allow(page: Page) -> None:
    await page.get_by_label("How much more").fill("3")
    await page.get_by_role("button", name="Allow").click()


async def end(page: Page) -> None:
    await page.get_by_role("button", name="End the run").click()


async def it_happened(page: Page) -> None:
    await page.get_by_label("Its result").fill("paid on Monday")
    await page.get_by_role("button", name="It happened").click()


async def it_did_not(page: Page) -> None:
    await page.get_by_role("button", name="It did not happen").click()


KINDS = {
    "approve": Kind("desk", {"action": "approve", "reason": "seen"}, approve),
    "deny": Kind("desk", {"action": "deny", "reason": "too much"}, deny),
    "edit": Kind("desk", {"action": "edit", "result": {"order": 7, "euros": 20}}, edit),
    "value": Kind("host", {"action": "approve", "result": "Ann, on Friday"}, tell),
    "budget": Kind("spender", {"action": "approve", "result": 3}, allow),
    "no-budget": Kind("spender", {"action": "deny"}, end),
    "happened": Kind("teller", {"action": "approve", "result": "paid on Monday"}, it_happened),
    "did-not": Kind("teller", {"action": "deny"}, it_did_not),
}


async def test_each_kind_of_question_is_answered_as_by_the_api(page: Page, tmp_path: Path) -> None:
    """07/CO-17: the same decision, by the signed-in name, and the same end of the run."""
    (tmp_path / "kinds").mkdir()
    dying = [f"{by}-{name}" for name in ("happened", "did-not") for by in ("page", "api")]
    await crash(tmp_path / "kinds" / "shop.db", *dying)
    async with open_shop(tmp_path / "kinds", agents=AGENTS) as shop:
        for name, kind in KINDS.items():
            page_thread, api_thread = f"page-{name}", f"api-{name}"
            for thread in (page_thread, api_thread):
                if kind.agent == "host":
                    await shop.asking_run(thread)
                elif kind.agent != "teller":
                    await asked(shop, kind.agent, thread)
            (given,) = await shop.runtime.list_tickets(TicketQuery(thread_id=api_thread))
            answer = {"ticket": given.key, "digest": given.digest, **kind.answer}
            told = await shop.client.post(f"/v1/runs/{given.run_id}/decisions", json=[answer])
            assert told.status_code == 200, told.text
            await page.goto(shop.link(f"threads/{page_thread}"))
            await kind.deed(page)
            one, other = await decided(shop, page_thread), await decided(shop, api_thread)
            assert one.decision is not None
            assert other.decision is not None
            for part in ("action", "result", "reason", "by"):
                assert getattr(one.decision, part) == getattr(other.decision, part), (name, part)
            assert one.decision.by == "local"
            ends = [await shop.runtime.wait(ticket.run_id) for ticket in (one, other)]
            assert ends[0].response == ends[1].response, name
            assert ends[0].termination == ends[1].termination, name
        assert shop.paid.count("paid 20 euros back for order 7") == 2
        assert len(shop.paid) == 4


async def test_an_outcome_that_the_approver_could_not_find_out_is_an_answer_that_the_model_reads(
    page: Page, tmp_path: Path
) -> None:
    """The third answer to a call that a crash cut short; the list says what is unknown."""
    (tmp_path / "crashed").mkdir()
    await crash(tmp_path / "crashed" / "shop.db", "rent")
    async with open_shop(tmp_path / "crashed", agents=AGENTS) as shop:
        await page.goto(shop.link("inbox"))
        await expect(page.locator(".list")).to_contain_text(
            "outcome unknown: did the call take effect?"
        )
        await expect(page.locator(".side")).to_contain_text("I pay the rent.")
        await page.get_by_role("button", name="I could not find out", exact=True).click()
        ticket = await decided(shop, "rent")
        result = await shop.runtime.wait(ticket.run_id)
        assert "the approver could not find out whether the call took effect" in result.response


async def test_arguments_that_the_tool_refuses_are_told_in_its_words(
    page: Page, shop: Shop
) -> None:
    """07/CO-18, in fields and as JSON; nothing is sent."""
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    await shop.waiting_run("order-7")
    await page.goto(shop.link("inbox"))
    await page.get_by_label("euros").fill("many")
    await page.get_by_role("button", name="Approve as edited").click()
    await expect(page.get_by_role("alert")).to_contain_text("euros")
    await page.get_by_role("button", name="as JSON").click()
    await page.get_by_label("Arguments").fill("{euros")
    await page.get_by_role("button", name="Approve as edited").click()
    await expect(page.get_by_role("alert")).to_contain_text("not JSON")
    assert not any("/decisions" in url for url in sent)
    assert shop.paid == []
    await page.get_by_label("Arguments").fill('{"order": 7, "euros": 20}')
    await page.get_by_role("button", name="Approve as edited").click()
    await expect(page.locator(".side")).to_contain_text("by local")
    await asyncio.wait_for(shop.paying.wait(), 60)
    assert shop.paid == ["paid 20 euros back for order 7"]


async def test_a_question_that_expires_or_is_superseded_on_screen_loses_its_buttons(
    page: Page, tmp_path: Path
) -> None:
    """07/CO-21: within a second of the page's own clock, whether or not the server has noticed."""
    (tmp_path / "sale").mkdir()
    async with open_shop(tmp_path / "sale", agents=AGENTS) as shop:
        await asked(shop, "seller", "vase")
        await page.clock.install()
        await page.goto(shop.link("inbox"))
        await expect(page.locator(".card")).to_contain_text("59 min left")
        await page.clock.fast_forward(3_600_000)
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        await expect(page.locator(".card")).to_contain_text("expired")
        await shop.waiting_run("order-7")
        await page.goto(shop.link("threads/order-7"))
        await expect(page.get_by_role("button", name="Approve")).to_be_visible()
        shop.scripts["desk-1"] = [said("As you like.")]
        await shop.runtime.run("desk", "Never mind.", thread="order-7")
        await page.clock.resume()
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        (ticket,) = await shop.runtime.list_tickets(TicketQuery(thread_id="order-7"))
        assert ticket.status is TicketStatus.CLOSED


async def test_a_ticket_is_decided_with_keys_and_a_key_held_down_decides_nothing(
    page: Page, shop: Shop
) -> None:
    """07/CO-22, 07/CO-52: `a` twice is a yes, `d` asks for the reason; held down, neither is."""
    await shop.waiting_run("order-7")
    await page.goto(shop.link())
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await page.keyboard.down("a")
    for _ in range(5):
        await page.keyboard.down("a")
    await page.keyboard.up("a")
    await expect(page.locator(".card")).to_contain_text("press a again")
    (ticket,) = await shop.runtime.list_tickets(TicketQuery())
    assert ticket.decision is None
    await page.keyboard.press("a")
    await expect(page.locator(".side")).to_contain_text("approved by local")
    await asyncio.wait_for(shop.paying.wait(), 60)
    await shop.waiting_run("order-8")
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page.get_by_role("heading", name="Threads")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("i")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await page.keyboard.press("d")
    await expect(page.get_by_label("Why")).to_be_focused()
    await page.keyboard.type("a duplicate")
    await page.keyboard.press("Enter")
    await expect(page.locator(".side")).to_contain_text("denied by local")
    assert (await decided(shop, "order-8")).decision.reason == "a duplicate"  # type: ignore[union-attr]
    assert len(shop.paid) == 1


async def test_alike_questions_are_answered_at_once_and_one_that_is_refused_is_named(
    page: Page, shop: Shop
) -> None:
    """07/CO-23: exactly those that were shown."""
    for number in range(4):
        await shop.waiting_run(f"order-{number}")
    await page.goto(shop.link("inbox"))
    await page.get_by_role("button", name="Answer 4 alike").click()
    await expect(page.get_by_role("dialog").get_by_role("row")).to_have_count(5)
    await shop.waiting_run("order-later")
    await shop.answer_elsewhere("order-2")
    await page.get_by_role("button", name="Approve all 4").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("approved", exact=True)).to_have_count(3)
    await expect(dialog.get_by_role("row", name="order-2")).to_contain_text("refused")
    left = await shop.runtime.list_tickets(TicketQuery(status=TicketStatus.OPEN))
    assert [ticket.thread_id for ticket in left] == ["order-later"]


async def test_of_two_people_one_wins_and_the_other_sees_who(
    browser: Browser, tmp_path: Path
) -> None:
    """07/CO-19, 07/CO-17 with `by` the signed-in name, 07/CO-22."""
    keys = tmp_path / "keys.toml"
    names = {name: add_key(keys, name=name, roles=("read", "decide")) for name in ("ann", "bob")}
    async with open_shop(tmp_path, keys=keys) as shop:
        await shop.waiting_run("order-7")
        pages = []
        for key in names.values():
            page = await (await browser.new_context()).new_page()
            await page.goto(f"{shop.address}/console/inbox")
            await page.get_by_label("Key").fill(key)
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_role("button", name="Approve")).to_be_visible()
            pages.append(page)
        async with asyncio.TaskGroup() as both:
            for page, name in zip(pages, ("Approve", "Deny"), strict=True):
                both.create_task(page.get_by_role("button", name=name).click(force=True))
        ticket = await decided(shop, "order-7")
        assert ticket.decision is not None
        assert ticket.decision.by in names
        for page in pages:
            await expect(page.locator(".side .card")).to_contain_text(f"by {ticket.decision.by}")
        for page in pages:
            await page.context.close()


async def test_an_old_card_does_not_answer_a_changed_question(page: Page, shop: Shop) -> None:
    """07/CO-20, 07/CO-21: the server refuses the digest that the card was made with."""
    await shop.waiting_run("order-7")

    (ticket,) = (await shop.client.get("/v1/tickets")).json()["items"]
    older = {**ticket, "digest": "0" * 32}
    await page.route(re.compile("/v1/tickets/[^/]+%3A0$"), lambda route: route.fulfill(json=older))
    await page.goto(shop.link("threads/order-7"))
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("alert")).to_contain_text("changed")
    assert shop.paid == []


async def test_the_history_tells_of_answers_however_they_were_given(
    page: Page, shop: Shop, tmp_path: Path
) -> None:
    """07/CO-25: by a command, by API and in the page: who, when, why, before and after."""
    await shop.waiting_run("order-6")
    await shop.edit_elsewhere("order-6", {"order": 6, "euros": 20})
    await decided(shop, "order-6")
    denied = await shop.waiting_run("order-7")
    words = ["decide", denied, "no", "--reason", "too late", "--by", "eve"]
    store = ["--store", f"sqlite:///{tmp_path / 'shop.db'}"]
    command = [sys.executable, "-m", "awaken.cli", *words, *store]
    assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
    await decided(shop, "order-7")
    await shop.waiting_run("order-8")
    await page.goto(shop.link("inbox?ticket="))
    await page.locator(".item", has_text="order-8").click()
    await page.get_by_label("Why").fill("=1+1 seen the photo")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    await page.get_by_role("button", name="history").click()
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(0)).to_contain_text("local")
    await expect(rows.nth(0)).to_contain_text("seen the photo")
    await expect(rows.nth(0).locator("time")).to_have_attribute("title", re.compile(r"^20\d\d-"))
    late = page.get_by_role("row", name="too late")
    await expect(late).to_contain_text("eve")
    await expect(late).to_contain_text("no")
    half = page.get_by_role("row", name="half of it")
    await expect(half).to_contain_text("ann")
    await expect(half).to_contain_text('"euros":40')
    await expect(half).to_contain_text('"euros":20')
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Download CSV").click()
    file = await (await saved.value).path()
    with file.open(newline="") as lines:
        table = list(csv.DictReader(lines))
    assert [line["answer"] for line in table] == ["yes", "no", "yes, with another value"]
    assert table[0]["why"] == "'=1+1 seen the photo", "a spreadsheet would take it as a formula"
    assert table[2]["given"] == '{"order":6,"euros":20}'


async def test_a_live_run_is_steered_and_instead_cancels_it_first_with_a_receipt(
    page: Page, shop: Shop
) -> None:
    """07/CO-33: what was sent is in the next request; a run that waits is open, too."""
    shop.gate.clear()
    run = await shop.submit("order-7", "desk", "My mug arrived in pieces.")
    await page.goto(shop.link("threads/order-7"))
    box = page.get_by_role("textbox", name="Message")
    await expect(page.get_by_label("When")).to_be_visible()
    await box.fill("It was blue.")
    await box.press("Enter")
    await expect(box).to_have_value("")
    await expect(page.get_by_text("the run reads it at its next step")).to_be_visible()
    shop.gate.set()
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    first, second = (str(request.messages) for request in shop.received["desk-1"])
    assert "It was blue." not in first
    assert "It was blue." in second
    await page.get_by_label("When").select_option("instead")
    await box.fill("Forget it.")
    await box.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("What the cancel reached")
    await expect(dialog.get_by_role("row", name="stopped").first).to_be_visible()
    ended = await shop.runtime.find_run(run)
    assert ended is not None
    assert ended.cancelled_by == "local"
    await page.get_by_role("button", name="Close").click()
    await expect(page.get_by_text("Forget it.")).to_be_visible()


async def test_what_people_do_is_in_the_audit(page: Page, tmp_path: Path) -> None:
    """07/CO-50: with who, what and from where, also after the server was started again."""
    keys = tmp_path / "keys.toml"
    key = add_key(keys, name="ann", roles=("admin",))
    (tmp_path / "kept").mkdir()
    async with open_shop(tmp_path / "kept", keys=keys) as shop:
        head = {"authorization": f"Bearer {key}"}
        run = await shop.waiting_run("order-7")
        (ticket,) = await shop.runtime.list_tickets(TicketQuery(thread_id="order-7"))
        no = {"ticket": ticket.key, "action": "deny", "digest": ticket.digest}
        token = (await shop.client.post("/v1/session", json={}, headers=head)).json()["token"]
        session = {"authorization": f"Bearer {token}"}
        asked = {"agent_id": "desk", "messages": ["Hi"]}
        for method, path, body in (
            ("POST", f"/v1/runs/{run}/decisions", [no]),
            ("POST", f"/v1/runs/{run}/cancel", None),
            ("POST", "/v1/threads/order-7/runs", asked),
            ("POST", "/v1/threads/order-7/fork", {}),
            ("GET", f"/v1/runs/{run}/steps/1/request", None),
            ("GET", "/v1/tickets/export", None),
            ("DELETE", "/v1/threads/order-7", None),
            ("DELETE", "/v1/session", None),
        ):
            await shop.client.request(method, path, json=body, headers=session)
        await shop.client.post("/v1/runs", json=asked, headers={"authorization": "Bearer awk_no"})
        await shop.stop()
        await shop.start()
        told = (await shop.client.get("/v1/audit", headers=head)).json()["items"]
        deeds = [(deed["who"], deed["method"], deed["route"]) for deed in reversed(told)]
        assert [deed for deed in deeds if deed[0] == "ann"] == [
            ("ann", "POST", "/v1/session"),
            ("ann", "POST", "/v1/runs/{run}/decisions"),
            ("ann", "POST", "/v1/runs/{run}/cancel"),
            ("ann", "POST", "/v1/threads/{thread}/runs"),
            ("ann", "POST", "/v1/threads/{thread}/fork"),
            ("ann", "GET", "/v1/runs/{run}/steps/{step}/request"),
            ("ann", "GET", "/v1/tickets/export"),
            ("ann", "DELETE", "/v1/threads/{thread}"),
            ("ann", "DELETE", "/v1/session"),
        ]
        assert deeds[-1][0] == ""
        assert {deed["address"] for deed in told} == {"127.0.0.1"}
        for file in (tmp_path / "kept").rglob("*"):
            kept = file.read_bytes() if file.is_file() else b""
            assert token.encode() not in kept
            assert key.encode() not in kept
