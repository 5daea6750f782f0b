"""Pictures of every screen, in light and dark, with data, empty and failed: `make shots`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from asking import AGENTS, crash
from console_kit import Shop, open_shop, said
from playwright.async_api import Browser, Locator, Page, expect

from awaken.server.keys import add_key
from browser_kit import HOME, open_browser

FOLDER = HOME / "build" / "shots"
THEMES = ("light", "dark")
GO = """(place) => {
    history.pushState(null, '', '/console/' + place);
    dispatchEvent(new PopStateEvent('popstate'));
}"""


LONG = "a very long text that never seems to end " * 12
MANY = {
    "long": f"{LONG}\n\n{'unbroken' * 40}",
    "arabic": "مرحبا، وصل الكوب مكسورًا. أريد استرداد 40 يورو.",
    "emoji": "🎉🏺 My vase 👩🏽‍🔧 — naïve façade — 你好，世界",
    "markdown": "# A head\n\nText with **strong**, *soft* and `code`.\n\n- one\n- two\n\n> said\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nprint('hi')\n```\n[a link](https://example.org/x)",
    "hidden": "pay\u202eeuros 04\u202c \x1b[31mred\x1b[0m \u200bzero",
}
"""Texts that are hard to show."""


async def fill(shop: Shop) -> dict[str, str]:
    """A few threads: finished, failed, waiting."""
    result = await shop.runtime.run("desk", "My plate arrived in pieces.", thread="order-6")
    await shop.runtime.run(thread="order-6", answers={result.tickets[0]: True})
    parcel = await shop.runtime.run("porter", "How heavy is P-1?", thread="parcel-1")
    await shop.waiting_run("order-7")
    await shop.waiting_run("order-9")
    for agent, thread in (("seller", "vase"), ("spender", "roof")):
        await shop.runtime.run(agent, "Go on.", thread=thread)
    strange = await hard_run(shop)
    return {
        "strange": strange,
        "parcel-1": parcel.run_id,
        "order-6": result.run_id,
        "order-8": await shop.waiting_run("order-8"),
    }


async def hard_run(shop: Shop) -> str:
    """A run with texts and ids that are hard to show."""
    known = shop.scripts["desk-1"]
    shop.scripts["desk-1"] = [
        *(
            said(text, ("policy", {"topic": text, "deep": {"list": [1, {"a": text}]}}))
            for text in MANY.values()
        ),
        said("\n\n".join(MANY.values())),
    ]
    thread = "an-id-that-is-far-too-long-for-any-column-" + "0123456789" * 6
    result = await shop.runtime.run("desk", "\n\n".join(MANY.values()), thread=thread)
    shop.scripts["desk-1"] = known
    return result.run_id


def call_row(page: Page, name: str) -> Locator:
    return page.locator(".row:has(.icon.call)", has_text=name)


class Camera:
    """Takes pictures of one page in one theme."""

    def __init__(self, page: Page, shop: Shop, theme: str) -> None:
        self.page, self._shop, self._theme = page, shop, theme

    async def go(self, place: str) -> None:
        await self.page.goto(f"{self._shop.address}/console/{place}")

    async def shoot(self, name: str) -> None:
        await expect(self.page.locator(".lines")).to_have_count(0 if "loading" not in name else 1)
        await self.page.wait_for_timeout(300)
        await self.page.screenshot(path=FOLDER / f"{name}_{self._theme}.png")


async def empty_screens(camera: Camera) -> None:
    for place in ("threads", "inbox", "runs"):
        await camera.go(place)
        await camera.shoot(f"{place}_empty")


async def full_screens(camera: Camera, runs: dict[str, str]) -> None:
    page = camera.page
    await camera.go("")
    await page.locator(".item", has_text="thread order-7").click()
    await camera.shoot("inbox")
    await page.get_by_label("euros").fill("20")
    await camera.shoot("inbox_edited")
    for thread in ("vase", "roof", "rent"):
        await page.locator(".item", has_text=f"thread {thread}").click()
        await camera.shoot(f"inbox_{thread}")
    await page.keyboard.press("?")
    await camera.shoot("keys")
    for place in ("threads", "runs", "threads/order-7", "threads/order-6"):
        await camera.go(place)
        await camera.shoot(place.replace("/", "_"))
    await camera.go(f"runs/{runs['order-8']}")
    await call_row(page, "refund").click()
    await camera.shoot("run")
    for tab in ("Request", "State", "Ledger", "Events"):
        await page.get_by_role("tab", name=tab).click()
        await camera.shoot(f"run_{tab.lower()}")
    await page.get_by_role("button", name="Cancel").click()
    await camera.shoot("run_cancel")
    await page.get_by_role("button", name="Cancel the run").click()
    await camera.shoot("run_cancelled")
    await camera.go(f"runs/{runs['order-6']}")
    await camera.shoot("run_finished")
    await page.get_by_label("Density").select_option("roomy")
    await camera.shoot("run_roomy")
    await page.get_by_label("Density").select_option("dense")
    await page.keyboard.press("Control+k")
    await camera.shoot("palette")
    await page.keyboard.press("Escape")
    await camera.go(f"runs/{runs['strange']}")
    await call_row(page, "policy").first.click()
    await camera.shoot("strange_run")
    await page.locator(".side").evaluate("(side) => side.scrollTo(0, 500)")
    await camera.go("threads/an-id-that-is-far-too-long-for-any-column-" + "0123456789" * 6)
    await camera.shoot("strange_thread")
    await page.locator(".messages").evaluate("(box) => box.scrollTo(0, 0)")
    await camera.shoot("strange_thread_begin")
    await camera.go("inbox?show=history")
    await camera.shoot("inbox_history")
    await camera.go("audit")
    await camera.shoot("audit")
    await camera.go("inbox")
    await page.locator(".item", has_text="thread order-7").click()
    await page.get_by_role("button", name="alike").click()
    await camera.shoot("inbox_alike")
    await camera.go("threads")
    await page.get_by_role("button", name="New thread").click()
    await camera.shoot("thread_new")


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
    await page.route("**/v1/**", lambda route: route.fulfill(status=503, body="{}"))
    for place in ("inbox", "runs", "audit", "threads/order-7", f"runs/{runs['order-8']}"):
        await page.evaluate(GO, place)
        await camera.shoot(f"{place.split('/')[0]}{'_one' if '/' in place else ''}_failed")
    await page.unroute("**/v1/**")
    await page.route("**/v1/threads?*", lambda route: None)
    await camera.go("threads")
    await camera.shoot("threads_loading")
    await page.unroute("**/v1/threads?*")


async def narrow_screens(camera: Camera, runs: dict[str, str]) -> None:
    places = {
        "inbox": "inbox",
        "threads": "threads",
        "thread": "threads/order-7",
        "run": f"runs/{runs['order-6']}",
        "strange": f"runs/{runs['strange']}",
        "history": "inbox?show=history",
    }
    for size, width, height in (("narrow", 360, 740), ("wide", 1600, 900), ("middle", 900, 700)):
        await camera.page.set_viewport_size({"width": width, "height": height})
        for name, place in places.items():
            await camera.go(place)
            await camera.shoot(f"{name}_{size}")


async def screens(browser: Browser, theme: str, folder: Path) -> None:
    page = await browser.new_page(
        viewport={"width": 1360, "height": 820},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page.on("pageerror", lambda error: print(theme, "page error", error))
    (folder / "empty").mkdir()
    async with open_shop(folder / "empty") as shop:
        await page.goto(shop.link())
        await empty_screens(Camera(page, shop, theme))
    await crash(folder / "shop.db", "rent")
    async with open_shop(folder, agents=AGENTS) as shop:
        camera = Camera(page, shop, theme)
        await page.goto(shop.link())
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
