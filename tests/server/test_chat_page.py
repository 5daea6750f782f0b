"""The page of `examples/chat_page`, bundled and driven in a real Chromium."""

from __future__ import annotations

import asyncio
import runpy
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from playwright.async_api import Route as PageRoute
from server_kit import served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awaken import Agent, Runtime
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.server import app
from awaken.testing import FunctionModel, ScriptedModel
from browser_kit import HOME, KIT, open_browser

pytestmark = pytest.mark.anyio
expect.set_options(timeout=60_000)
CLERK, TALKER = "/v1/ai-sdk/agents/clerk/chat", "/v1/ai-sdk/agents/talker/chat"
ESBUILD = KIT / "node_modules" / "@esbuild" / "linux-x64" / "bin" / "esbuild"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, with its script bundled."""
    folder = tmp_path_factory.mktemp("page") / "chat_page"
    shutil.copytree(HOME / "examples" / "chat_page", folder)
    subprocess.run(
        [ESBUILD, "chat.jsx", "--bundle", "--jsx=automatic", "--outfile=chat.js"],
        cwd=folder,
        env={"NODE_PATH": str(KIT / "node_modules")},
        check=True,
        capture_output=True,
        timeout=550,
    )
    return folder


async def new_page(browser: Browser, address: str) -> Page:
    page = await browser.new_page()
    page.set_default_timeout(60_000)
    await page.goto(f"{address}/#case-7")
    return page


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def test_a_page_asks_for_an_approval_and_shows_the_chat_when_it_is_loaded_again(
    folder: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06/SV-20, with `useChat` in a browser."""
    monkeypatch.chdir(folder)
    made = runpy.run_path("app.py")
    async with made["runtime"], served(made["application"]) as address:
        page = await new_page(browser, address)
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


class CutOnce:
    """Cuts the first stream of a chat behind its first words."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self.was_cut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_on(message: Message) -> None:
            await send(message)
            if b"text-delta" in message.get("body", b"") and not self.was_cut:
                self.was_cut = True
                raise ConnectionError

        is_sent = scope["type"] == "http" and scope["method"] == "POST"
        await self._application(scope, receive, send_on if is_sent else send)


async def test_a_page_follows_its_run_when_its_connection_breaks(
    folder: Path, browser: Browser
) -> None:
    begun, released = asyncio.Event(), asyncio.Event()

    async def answer(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="Half of it, ")
        begun.set()
        await released.wait()
        yield TextDelta(delta="and the rest.")
        yield Stop(reason=StopReason.END_TURN)

    runtime = Runtime([Agent("clerk", model=FunctionModel(answer))])

    async def script(request: Request) -> FileResponse:
        return FileResponse(folder / "chat.js")

    async def html(request: Request) -> FileResponse:
        return FileResponse(folder / "index.html")

    agents = CutOnce(app(runtime))
    routes = [Route("/", html), Route("/chat.js", script), Mount("/", agents)]
    async with runtime, served(Starlette(routes=routes)) as address:
        page = await new_page(browser, address)
        await say(page, "Hi")
        await begun.wait()
        await expect(page.get_by_role("alert")).to_have_count(1)
        assert agents.was_cut
        released.set()
        await expect(page.locator(".assistant p")).to_have_text(["Half of it, and the rest."])
        await expect(page.locator("output")).to_have_text("ready")
        await expect(page.get_by_role("alert")).to_have_count(0)


class CutAtWill:
    """Cuts all open streams of a chat when the test says so."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._streams: set[asyncio.Task[None]] = set()
        self.most = 0

    @property
    def open(self) -> int:
        return len(self._streams)

    def cut(self) -> None:
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(("/chat", "/stream")):
            await self._application(scope, receive, send)
            return
        stream = asyncio.create_task(self._stream(scope, receive, send))
        self._streams.add(stream)
        self.most = max(self.most, self.open)
        try:
            await asyncio.wait([stream])
        finally:
            self._streams.discard(stream)
        if stream.cancelled():
            raise ConnectionError
        stream.result()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


@pytest.mark.parametrize("breaks", [1, 2])
async def test_a_page_follows_the_next_run_when_two_messages_were_sent(
    folder: Path, browser: Browser, breaks: int
) -> None:
    """A second break, while the page follows, starts no second follower."""
    released = {"one": asyncio.Event(), "two": asyncio.Event()}

    async def answer(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked = request.messages[-1].text()
        yield TextDelta(delta=f"Half of {asked}, ")
        await released[asked].wait()
        yield TextDelta(delta="and the rest.")
        yield Stop(reason=StopReason.END_TURN)

    runtime = Runtime([Agent("clerk", model=FunctionModel(answer))])
    agents = CutAtWill(app(runtime))
    pages = [Route(f"/{name}", shows(folder / (name or "index.html"))) for name in ("", "chat.js")]
    async with (
        runtime,
        served(Starlette(routes=[*pages, Mount("/", agents)])) as address,
    ):
        page = await new_page(browser, address)
        await expect(page.locator("output")).to_have_text("ready")
        await say(page, "one")
        await expect(page.locator(".assistant p")).to_have_text(["Half of one, "])
        await say(page, "two")
        await until(lambda: agents.open == 2)
        agents.most = 0
        for _ in range(breaks):
            agents.cut()
            await until(lambda: agents.open == 0)
            await until(lambda: agents.open == 1)
        released["one"].set()
        await expect(page.locator(".assistant p").last).to_have_text("Half of two, ")
        released["two"].set()
        await expect(page.locator("section p")).to_have_text(
            ["one", "Half of one, and the rest.", "two", "Half of two, and the rest."]
        )
        await expect(page.locator("output")).to_have_text("ready")
        await expect(page.get_by_role("alert")).to_have_count(0)
        assert agents.most == 1


def shows(file: Path) -> Callable[[Request], Awaitable[FileResponse]]:
    async def show(request: Request) -> FileResponse:
        return FileResponse(file)

    return show


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 no event tells it
        await asyncio.sleep(0.01)


async def test_a_question_comes_back_if_its_answer_is_refused(
    folder: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    made = runpy.run_path("app.py")
    async with made["runtime"], served(made["application"]) as address:
        page = await new_page(browser, address)
        await say(page, "Please pay 500 euros to Bob")
        await expect(page.get_by_role("button", name="Approve")).to_have_count(1)

        async def refuse(route: PageRoute) -> None:
            await route.fulfill(status=429, body="too many requests")

        await page.route("**/chat", refuse)
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("alert")).to_have_text("too many requests")
        await page.unroute("**/chat")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator(".assistant").last).to_contain_text("paid 500 € to Bob.")
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_page_waits_for_a_server_and_loses_nothing(
    folder: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crashed server is away until it is started again; a proxy before it says 502 by then."""
    monkeypatch.chdir(folder)
    made = runpy.run_path("app.py")
    turns: dict[str, int] = {}

    async def away_at_first(route: PageRoute) -> None:
        turn = turns[route.request.url] = turns.get(route.request.url, 0) + 1
        if turn == 1:
            await route.abort("connectionrefused")
        elif turn == 2:
            await route.fulfill(status=502, body="<h1>502 Bad Gateway</h1>")
        else:
            await route.continue_()

    async with made["runtime"], served(made["application"]) as address:
        page = await browser.new_page()
        page.set_default_timeout(60_000)
        await page.route("**/v1/**", away_at_first)
        await page.goto(f"{address}/#case-8")
        await say(page, "Please pay 20 euros to Ann")
        await expect(page.locator(".assistant")).to_contain_text("paid 20 € to Ann")
        assert turns == dict.fromkeys(turns, 3)
        await expect(page.locator("section")).to_have_count(2)
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_page_of_a_listed_origin_works_and_of_another_one_does_not(
    folder: Path, browser: Browser
) -> None:
    """06/SV-28, in a browser: the page and the agents have an origin each."""
    runtime = Runtime([Agent("talker", model=ScriptedModel(["Hello."] * 9))])
    places: dict[str, str] = {}

    async def script(request: Request) -> Response:
        text = (folder / "chat.js").read_text()
        return Response(text.replace(CLERK, f"{places['listed']}{TALKER}"))

    async def html(request: Request) -> FileResponse:
        return FileResponse(folder / "index.html")

    static = Starlette(routes=[Route("/", html), Route("/chat.js", script)])
    async with (
        runtime,
        served(static) as pages,
        served(app(runtime, cors_origins=[pages])) as listed,
        served(app(runtime)) as foreign,
    ):
        places["listed"] = listed
        page = await new_page(browser, pages)
        await say(page, "Hi")
        await expect(page.locator(".assistant")).to_contain_text("Hello.")
        read = "address => fetch(address).then(answer => answer.status, error => error.name)"
        assert await page.evaluate(read, f"{listed}/v1/agents") == 200
        assert await page.evaluate(read, f"{foreign}/v1/agents") == "TypeError"
        send = """address => fetch(address, {
            method: 'POST', headers: {'content-type': 'application/json'}, body: '{}',
        }).then(answer => answer.status, error => error.name)"""
        code = """address => fetch(address).then(answer => answer.headers.get('x-awaken-error'))"""
        nobody = "/v1/ai-sdk/agents/nobody/chat/c/messages"
        assert await page.evaluate(code, f"{listed}{nobody}") == "not_found"
        assert await page.evaluate(send, f"{listed}/v1/threads") == 201
        assert await page.evaluate(send, f"{foreign}/v1/threads") == "TypeError"
        assert len(await runtime.list_threads()) == 2
