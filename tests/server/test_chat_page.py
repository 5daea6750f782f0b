"""The page of `examples/chat_page`, bundled and driven in a real Chromium."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from server_kit import served

from browser_kit import HOME, KIT, open_browser

pytestmark = pytest.mark.anyio
expect.set_options(timeout=60_000)
ESBUILD = KIT / "node_modules" / "@esbuild" / "linux-x64" / "bin" / "esbuild"


def bundle(folder: Path) -> None:
    subprocess.run(
        [ESBUILD, "chat.jsx", "--bundle", "--jsx=automatic", "--outfile=chat.js"],
        cwd=folder,
        env={"NODE_PATH": str(KIT / "node_modules")},
        check=True,
        capture_output=True,
        timeout=550,
    )


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def test_a_page_asks_for_an_approval_and_shows_the_chat_when_it_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06/SV-20, with `useChat` in a browser."""
    folder = tmp_path / "chat_page"
    shutil.copytree(HOME / "examples" / "chat_page", folder)
    bundle(folder)
    monkeypatch.chdir(folder)
    made = runpy.run_path("app.py")
    async with (
        made["runtime"],
        served(made["application"]) as address,
        open_browser() as browser,
    ):
        page = await browser.new_page()
        page.set_default_timeout(60_000)
        await page.goto(f"{address}/#case-7")
        await say(page, "Please pay 20 euros to Ann")
        await expect(page.locator(".assistant")).to_contain_text("paid 20 € to Ann")
        await say(page, "Please pay 500 euros to Bob")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator(".assistant").last).to_contain_text("paid 500 € to Bob.")
        await say(page, "Please pay 900 euros to Eve")
        await page.get_by_role("button", name="Deny").click()
        await expect(page.locator(".assistant").last).to_contain_text("output-denied")
        await expect(page.locator("output")).to_have_text("ready")
        shown = await page.locator("section").all_text_contents()
        await page.reload()
        await expect(page.locator("section")).to_have_text(shown)
