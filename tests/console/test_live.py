"""Watching a run while it works: hundreds of events a second, readers who scroll, hidden tabs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from console_kit import Shop, open_shop
from playwright.async_api import Browser, Page, expect

from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.runtime import Agent
from awaken.tool import tool

pytestmark = pytest.mark.anyio
WORDS = 3_000
HIDE = """(isHidden) => {
    Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
SAID = "document.querySelector('.side').textContent.match(/w\\d+ /g)?.length ?? 0"


class Talker:
    """A model that says many words as fast as they are taken, when it may."""

    name = "talker"

    def __init__(self) -> None:
        self.may_begin = asyncio.Event()

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        await self.may_begin.wait()
        for number in range(WORDS):
            yield TextDelta(delta=f"w{number} ")
        yield Stop(reason=StopReason.END_TURN)


class Counter:
    """A model that calls a tool a given number of times, one call in each step."""

    name = "counter"

    def __init__(self, steps: int) -> None:
        self.steps, self.allowed = steps, asyncio.Semaphore(0)

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        await self.allowed.acquire()
        given = sum(message.role is Role.ASSISTANT for message in request.messages)
        if given < self.steps:
            yield ToolCallStart(id="c", name="count")
            yield ToolCallDelta(id="c", args_delta="{}")
        yield Stop(reason=StopReason.TOOL_USE if given < self.steps else StopReason.END_TURN)


@tool(effect="read")
async def count() -> str:
    """Count."""
    return "one more"


async def opened(browser: Browser, shop: Shop) -> Page:
    page = await browser.new_page(viewport={"width": 1360, "height": 500})
    page.on("pageerror", lambda error: shop.problems.append(str(error)))
    return page


async def streams_are(shop: Shop, number: int) -> None:
    """Wait until the server has so many requests under way: streams, when nothing else is."""
    while len(shop._server.server_state.tasks) != number:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@contextmanager
def deaf_watcher(shop: Shop, path: str) -> Iterator[None]:
    """A client that asks for a stream, has little room for it, and reads nothing."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", int(shop.address.rpartition(":")[2])))
        head = "Host: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
        client.sendall(f"GET {path} HTTP/1.1\r\n{head}".encode())
        yield


async def test_nothing_is_lost_of_thousands_of_events_also_while_the_tab_is_hidden(
    browser: Browser, tmp_path: Path
) -> None:
    """07/CO-26, but for the clock: `make bench-console` measures that. 07/CO-28: a tab that is
    hidden for ten minutes lets go of its stream. 07/CO-30: a watcher that takes nothing does not
    hold the run up."""
    talker = Talker()
    async with open_shop(tmp_path, agents=[Agent("talker", model=talker)]) as shop:
        pages = [await opened(browser, shop) for _ in range(2)]
        run = await shop.submit("talk", "talker", "Talk.")
        await pages[1].clock.install()
        for page in pages:
            await page.goto(shop.link(f"runs/{run}"))
            await expect(page.locator(".head-bar .badge")).to_have_text("live")
        await streams_are(shop, 4)  # of tickets and of the thread, for each page
        await pages[1].evaluate(HIDE, True)
        await pages[1].clock.fast_forward(600_000)
        await streams_are(shop, 3)
        with deaf_watcher(shop, "/v1/threads/talk/events?after=0"):
            await streams_are(shop, 4)
            talker.may_begin.set()
            await asyncio.wait_for(shop.runtime.wait(run), 60)
        await pages[1].evaluate(HIDE, False)
        for page in pages:
            await expect(page.locator(".head-bar .badge")).to_have_text("finished")
            await page.locator(".row:has(.icon.step)").first.click()
            await expect(page.locator(".side")).to_contain_text(f"w{WORDS - 1}")
            assert await page.evaluate(SAID) == WORDS
            await page.close()
        assert shop.problems == []


async def test_a_reader_who_has_scrolled_up_is_not_moved(browser: Browser, tmp_path: Path) -> None:
    """07/CO-27: what is new is counted, and a button leads there."""
    counter = Counter(40)
    agent = Agent("counter", model=counter, tools=[count], max_rounds=100)
    async with open_shop(tmp_path, agents=[agent]) as shop:
        page = await opened(browser, shop)
        run = await shop.submit("counting", "counter", "Count.")
        await page.goto(shop.link(f"runs/{run}"))
        for _ in range(20):
            counter.allowed.release()
        await expect(page.get_by_text("step 20", exact=True)).to_be_visible()
        await page.locator(".tree").evaluate("(tree) => (tree.scrollTop = 100)")
        await expect(page.get_by_text("step 20", exact=True)).to_have_count(0)
        for _ in range(15):
            counter.allowed.release()
        await expect(page.get_by_role("button", name="new")).to_be_visible()
        assert await page.locator(".tree").evaluate("(tree) => tree.scrollTop") == 100
        for _ in range(6):
            counter.allowed.release()
        await shop.runtime.wait(run)
        await page.close()
        assert shop.problems == []
