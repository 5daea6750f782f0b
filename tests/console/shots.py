"""Pictures of every screen, in light and dark, with data, empty and failed: `make shots`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from console_kit import Shop, open_shop
from playwright.async_api import Browser, Locator, Page

from awaken.server.keys import add_key
from browser_kit import HOME, open_browser

FOLDER = HOME / "build" / "shots"
THEMES = ("light", "dark")


async def fill(shop: Shop) -> dict[str, str]:
    """A few threads: finished, failed, waiting."""
    result = await shop.runtime.run("desk", "My plate arrived in pieces.", thread="order-6")
    await shop.runtime.run(thread="order-6", answers={result.tickets[0]: True})
    parcel = await shop.runtime.run("porter", "How heavy is P-1?", thread="parcel-1")
    await shop.waiting_run("order-7")
    await shop.waiting_run("order-9")
    return {
        "parcel-1": parcel.run_id,
        "order-6": result.run_id,
        "order-8": await shop.waiting_run("order-8"),
    }


def call_row(page: Page, name: str) -> Locator:
    return page.locator(".row:has(.icon.call)", has_text=name)


class Camera:
    """Takes pictures of one page in one theme."""

    def __init__(self, page: Page, shop: Shop, theme: str) -> None:
        self.page, self._shop, self._theme = page, shop, theme

    async def go(self, place: str) -> None:
        await self.page.goto(f"{self._shop.address}/console/{place}")

    async def shoot(self, name: str) -> None:
        await self.page.wait_for_timeout(400)
        await self.page.screenshot(path=FOLDER / f"{name}_{self._theme}.png")


async def empty_screens(camera: Camera) -> None:
    for place in ("threads", "inbox", "runs"):
        await camera.go(place)
        await camera.shoot(f"{place}_empty")


async def full_screens(camera: Camera, runs: dict[str, str]) -> None:
    page = camera.page
    await camera.go("")
    await camera.shoot("inbox")
    await page.get_by_label("Arguments").fill('{\n  "order": 7,\n  "euros": 20\n}')
    await camera.shoot("inbox_edited")
    for place in ("threads", "runs", "threads/order-7", "threads/order-6"):
        await camera.go(place)
        await camera.shoot(place.replace("/", "_"))
    await camera.go(f"runs/{runs['order-8']}")
    await call_row(page, "refund").click()
    await camera.shoot("run")
    for tab in ("Request", "State", "Events"):
        await page.get_by_role("tab", name=tab).click()
        await camera.shoot(f"run_{tab.lower()}")
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Cancel the run").click()
    await camera.shoot("run_cancelled")
    await camera.go(f"runs/{runs['order-6']}")
    await camera.shoot("run_finished")
    await camera.go("inbox?show=history")
    await camera.shoot("inbox_history")
    await camera.go("audit")
    await camera.shoot("audit")
    await camera.go("inbox")
    await page.get_by_role("button", name="alike").click()
    await camera.shoot("inbox_alike")


async def failed_screens(camera: Camera, runs: dict[str, str]) -> None:
    page = camera.page
    await camera.go("threads/none")
    await camera.shoot("thread_unknown")
    await camera.go(f"runs/{runs['parcel-1']}")
    await call_row(page, "weigh").click()
    await page.get_by_role("tab", name="Result").click()
    await camera.shoot("run_failed")
    await page.route("**/v1/threads?*", lambda route: route.fulfill(status=503, body="{}"))
    await camera.go("threads")
    await camera.shoot("threads_failed")
    await page.unroute("**/v1/threads?*")


async def narrow_screens(camera: Camera, runs: dict[str, str]) -> None:
    await camera.page.set_viewport_size({"width": 360, "height": 740})
    for name, place in (("inbox", "inbox"), ("run", f"runs/{runs['order-6']}")):
        await camera.go(place)
        await camera.shoot(f"{name}_narrow")


async def screens(browser: Browser, theme: str, folder: Path) -> None:
    page = await browser.new_page(
        viewport={"width": 1360, "height": 820},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page.on("pageerror", lambda error: print(theme, "page error", error))
    async with open_shop(folder) as shop:
        camera = Camera(page, shop, theme)
        await page.goto(shop.link())
        await empty_screens(camera)
        runs = await fill(shop)
        await full_screens(camera, runs)
        await failed_screens(camera, runs)
        await narrow_screens(camera, runs)
        await page.close()


async def sign_in(browser: Browser, theme: str, folder: Path) -> None:
    add_key(folder / "keys.toml", name="ann", roles=("read",))
    page = await browser.new_page(color_scheme="dark" if theme == "dark" else "light")
    async with open_shop(folder, keys=folder / "keys.toml") as shop:
        camera = Camera(page, shop, theme)
        await camera.go("")
        await camera.shoot("sign_in")
        await page.close()


async def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with open_browser() as browser:
        for theme in THEMES:
            for take in (screens, sign_in):
                with tempfile.TemporaryDirectory() as folder:
                    await take(browser, theme, Path(folder))
    print(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER}")


if __name__ == "__main__":
    asyncio.run(main())
