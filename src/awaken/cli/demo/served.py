"""The process that serves the demo shop in the browser; its parent starts it again after a kill.

It is run as `awaken demo --served` with `DemoServerOptions` as JSON.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import msgspec
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from awaken.cli.demo.story import (
    PROMPT,
    STOCK_PROMPT,
    EffectFile,
    EffectHooks,
    EffectRecord,
    stock_agent,
    story_agents,
)
from awaken.cli.output import open_page, say
from awaken.clock import SYSTEM_CLOCK
from awaken.codec import loads
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.budget import Price
from awaken.core.thread import ThreadPatch
from awaken.runtime import Runtime
from awaken.server import app
from awaken.server.auth import LOCAL
from awaken.server.call import ApiCall
from awaken.server.endpoint import Endpoint, Resource
from awaken.server.limits import Limits, StreamLimit
from awaken.server.observe import set_up_logs
from awaken.server.route import KeyRole, Route
from awaken.server.serve import Serving, address_of

CASE_THREAD = "case-1042"
STOCK_THREAD = "stock"
KILL_WINDOW_SECONDS = 4.0
"""How long a refund that has been paid waits for its answer: the time to press the button."""
DRAIN_SECONDS = 0.5
_PRICE = {"story": Price(input=0.25, output=2.0)}
log = logging.getLogger("awaken.demo")


class DemoServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that the parent passes to the process: the folder of the demo, the socket,
    whether an earlier process was killed, whether to open a browser, and the story's speed."""

    home: str
    socket: int
    is_again: bool
    opens: bool
    speed: float


class DemoServer:
    """Serves the shop in one process. The story begins or is resumed there."""

    def __init__(self, options: DemoServerOptions) -> None:
        self._options = options
        self._listening = socket.socket(fileno=options.socket)
        home, speed = Path(options.home), options.speed
        agents = story_agents(
            speed, EffectFile(home / "books.jsonl"), EffectHooks(self._wait_after_effect, _ignore)
        )
        self._runtime = Runtime(
            [*agents, stock_agent(speed)], store=f"sqlite:///{home / 'demo.db'}", prices=_PRICE
        )
        self._application = app(self._runtime)
        self._application.router.routes.insert(0, self._kill_route())
        self._application.state.features = ("kill",)
        self._tasks = OwnedTasks(log)

    async def serve(self) -> None:
        """Serve until Ctrl-C."""
        serving = Serving(
            self._runtime,
            self._application,
            drain=DRAIN_SECONDS,
            reload=lambda: "the demo has nothing to reload",
        )
        await serving.run(self._listening, self._open)

    def _open(self) -> None:
        self._tasks.start_logged(self._submit_runs(), "the demo could not begin")

    async def _submit_runs(self) -> None:
        """Submit the runs of the two agents, and print the address of the page. After a kill, the
        address is not printed again."""
        runtime = self._runtime
        case = await runtime.submit("support", PROMPT, thread=CASE_THREAD, key=CASE_THREAD)
        await runtime.submit("stock", STOCK_PROMPT, thread=STOCK_THREAD, key=STOCK_THREAD)
        if self._options.is_again:
            return
        for thread, title in ((CASE_THREAD, "The broken mug"), (STOCK_THREAD, "Stock-taking")):
            await runtime.update_thread(thread, ThreadPatch(title=title))
        word = self._application.state.sessions.make_word(LOCAL)
        address = address_of(self._listening, "127.0.0.1")
        link = f"{address}/console/runs/{case.run_id}#t={word}"
        say(f"the demo shop is open: {link}")
        if not (self._options.opens and open_page(link)):
            say("open this address in a browser; an approval waits there for you")
        say("stop with Ctrl-C")
        sys.stdout.flush()

    async def _wait_after_effect(self, tool: str, entry: EffectRecord) -> None:
        """The side effect has happened and the call has not ended: no worse moment for a kill."""
        await SYSTEM_CLOCK.sleep(KILL_WINDOW_SECONDS)

    def _kill_route(self) -> StarletteRoute:
        route = Route(
            method="POST",
            path="/v1/demo/kill",
            handle=_kill,
            name="kill_this_process",
            summary="Kill this process with SIGKILL",
            needs=(KeyRole.ADMIN,),
            answers={},
        )
        return StarletteRoute(
            route.path, Resource({"POST": Endpoint(route, self._runtime, Limits(), StreamLimit(1))})
        )


async def _kill(call: ApiCall) -> ASGIApp:
    # Answered first: a browser sends a request again whose connection breaks before its answer, and
    # would kill the next process as well.
    return Response(status_code=202, background=BackgroundTask(_kill_process))


async def _kill_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _ignore(tool: str, entry: EffectRecord) -> None:
    """A later process has found a side effect in the books; the page shows that by itself."""


def serve(options: str) -> None:
    """Serve the demo until Ctrl-C. `options` is a `DemoServerOptions` as JSON."""
    demo = loads(options.encode(), DemoServerOptions)
    set_up_logs("none")
    asyncio.run(DemoServer(demo).serve())
