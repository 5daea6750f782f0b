"""Pictures of every screen, in light and dark, with data, empty and failed: `make shots`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).parents[2]
sys.path[:0] = [
    str(HOME / "tests"),
    str(HOME / "tests" / "server"),
    str(HOME / "tests" / "console"),
]

from console_kit import link, opened, shop, until
from playwright.async_api import Browser, Page
from server_kit import served

from awaken import Runtime
from browser_kit import open_browser

FOLDER = HOME / "build" / "shots"
WIDE = {"width": 1360, "height": 820}
NARROW = {"width": 360, "height": 740}


async def fill(runtime: Runtime) -> dict[str, str]:
    """A few threads: finished, failed, waiting."""
    runs: dict[str, str] = {}
    for thread, agent, words in (
        ("order-6", "desk", "My plate arrived in pieces."),
        ("parcel-1", "porter", "How heavy is P-1?"),
        ("order-7", "desk", "My mug arrived in pieces."),
        ("order-8", "desk", "My bowl arrived in pieces."),
    ):
        result = await runtime.run(agent, words, thread=thread)
        runs[thread] = result.run_id
        if thread == "order-6":
            await runtime.run(thread=thread, answers={result.tickets[0]: True})
    return runs


async def shoot(page: Page, name: str, theme: str) -> None:
    await page.wait_for_timeout(400)
    await page.screenshot(path=FOLDER / f"{name}_{theme}.png")


async def screens(browser: Browser, theme: str, folder: Path) -> None:
    async with opened(folder) as (runtime, application), served(application) as address:
        page = await browser.new_page(viewport=WIDE, color_scheme=theme)
        page.on("console", lambda said: print(theme, said.type, said.text))
        page.on("pageerror", lambda error: print(theme, "page error", error))
        await page.goto(link(application, address))
        await shoot(page, "threads_empty", theme)
        for place in ("inbox", "runs"):
            await page.goto(f"{address}/console/{place}")
            await shoot(page, f"{place}_empty", theme)
        runs = await fill(runtime)
        await page.goto(f"{address}/console/")
        await shoot(page, "inbox", theme)
        await page.get_by_label("Arguments").fill('{\n  "order": 7,\n  "euros": 20\n}')
        await shoot(page, "inbox_edited", theme)
        for place in ("threads", "runs", "threads/order-7", "threads/order-6", "threads/none"):
            await page.goto(f"{address}/console/{place}")
            await shoot(page, place.replace("/", "_"), theme)
        await page.goto(f"{address}/console/runs/{runs['order-7']}")
        await shoot(page, "run", theme)
        await page.get_by_role("treeitem").first.click()
        await page.keyboard.press("*")
        await page.get_by_role("treeitem", name="refund").click()
        await shoot(page, "run_open", theme)
        await page.get_by_role("tab", name="Events").click()
        await shoot(page, "run_events", theme)
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Cancel the run").click()
        await shoot(page, "run_cancelled", theme)
        await page.goto(f"{address}/console/runs/{runs['parcel-1']}")
        await page.get_by_role("treeitem").first.click()
        await page.keyboard.press("*")
        await page.get_by_role("treeitem", name="weigh").click()
        await page.get_by_role("tab", name="Result").click()
        await shoot(page, "run_failed", theme)
        await page.set_viewport_size(NARROW)
        await page.goto(f"{address}/console/inbox")
        await shoot(page, "inbox_narrow", theme)
        await page.close()
    with tempfile.TemporaryDirectory() as other:
        keys = Path(other) / "keys.toml"
        from awaken.server.keys import add_key

        add_key(keys, name="ann", roles=("read",))
        async with (
            opened(Path(other), keys=keys) as (_, application),
            served(application) as address,
        ):
            page = await browser.new_page(viewport=WIDE, color_scheme=theme)
            await page.goto(f"{address}/console/")
            await shoot(page, "sign_in", theme)
            await page.close()


async def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with open_browser() as browser:
        for theme in ("light", "dark"):
            with tempfile.TemporaryDirectory() as folder:
                await screens(browser, theme, Path(folder))
    print(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER}")


if __name__ == "__main__":
    asyncio.run(main())
