"""The console where its server has only a part of a host: mounted, or behind a proxy."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from console_kit import Shop, open_shop
from playwright.async_api import Browser, expect

from nginx_kit import open_nginx

pytestmark = pytest.mark.anyio

PROXY = """server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    location {prefix}/ {{ proxy_pass http://127.0.0.1:{to}; }}
}}"""


async def use_console(browser: Browser, shop: Shop, address: str) -> None:
    """Open, chat, answer and reload, as somebody does at this address; all of it lies there."""
    asked: list[str] = []
    waiting = await shop.waiting_run("order-7")
    page = await browser.new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: shop.problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    word = shop.link().partition("#t=")[2]

    await page.goto(f"{address}/#t={word}")
    await expect(page.get_by_role("button", name="Approve").first).to_be_visible()
    await expect(page).to_have_url(f"{address}/console/inbox")
    await page.get_by_role("link", name="order-7").first.click()
    await expect(page).to_have_url(f"{address}/console/threads/order-7")
    await expect(page.get_by_text("The mug came broken").first).to_be_visible()
    await page.reload()  # one folder deeper than the page that came first
    await expect(page.get_by_text("The mug came broken").first).to_be_visible()
    await page.goto(f"{address}/console/runs/{waiting}/")
    await expect(page.locator(".row", has_text="refund").first).to_be_visible()
    await shop.answer_elsewhere("order-7")  # the page hears of it by a stream
    await expect(page.get_by_text("Ann has been told").first).to_be_visible()
    await page.close()

    assert shop.problems == []
    assert {url for url in asked if not url.startswith(f"{address}/")} == set()


async def test_a_mounted_console_has_all_its_addresses_under_the_mount(
    browser: Browser, tmp_path: Path
) -> None:
    async with open_shop(tmp_path, prefix="/agents") as shop:
        await use_console(browser, shop, shop.address)


@pytest.mark.parametrize("is_stripped", [True, False], ids=["stripped", "passed"])
async def test_a_console_behind_a_proxy_has_all_its_addresses_under_the_prefix(
    browser: Browser, tmp_path: Path, is_stripped: bool
) -> None:
    """The proxy takes the prefix off, or leaves it to the application that mounts the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with open_shop(tmp_path, prefix="" if is_stripped else "/team/agents") as shop:
        to = shop.address.removeprefix("http://127.0.0.1:").partition("/")[0]
        blocks = PROXY.format(port=port, prefix="/team/agents", to=f"{to}/" if is_stripped else to)
        async with open_nginx(tmp_path, blocks, port):
            await use_console(browser, shop, f"http://127.0.0.1:{port}/team/agents")
