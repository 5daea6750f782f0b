"""One browser for the tests of a module; each test has a page and a shop of its own.

Not one for the whole session: as long as an async fixture lives, all tests share its task, and a
test that cancels its own task would spoil those of other folders.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from console_kit import Shop, open_shop
from playwright.async_api import Browser, Page, expect

from browser_kit import open_browser

expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with open_browser() as made:
        yield made


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path) as made:
        yield made


@pytest.fixture
async def page(browser: Browser, shop: Shop) -> AsyncIterator[Page]:
    """A page in which no error goes unheard."""
    made = await browser.new_page(viewport={"width": 1360, "height": 820})
    made.set_default_timeout(60_000)
    made.on("pageerror", lambda error: shop.problems.append(str(error)))
    yield made
    await made.close()
    assert shop.problems == []
