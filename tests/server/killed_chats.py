"""A chat whose server is killed behind a frame; another process takes the run over, and the page
ends with the messages of an undisturbed run (06/SV-21).

    python tests/server/killed_chats.py                 behind each frame, for each client
    python tests/server/killed_chats.py --at 3,17       behind these

The run has three steps, a tool, and an approval. The AI SDK's own client talks to a proxy, which
counts frames, kills the server, and breaks the connection.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1]))

from chat_kit import ChatClient, chat_client
from server_kit import served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from awaken import Agent, Runtime, tool
from awaken.core.answer_stream import stream_of
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.message import Role
from awaken.server import app
from awaken.testing import FunctionModel, text_response, tool_call_response

CLIENTS = (("seven", False), ("loose", False), ("strict", True))
"""The versions, and whether the page has to load its messages before it resumes: the last strict
one adds a replay to what it has."""
PACE = 0.004
"""Seconds between two pieces of an answer, so that a kill falls into the middle of it."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["awaken.server", "awaken.testing", "awaken.stores.sqlite", "chat_kit"]
)


# -- the server -----------------------------------------------------------------------------------


def clerk() -> Agent:
    """An agent whose answers depend on the conversation alone."""

    @tool(effect="read")
    async def look() -> str:
        """Look at the bill."""
        return "500 for Bob"

    @tool(needs_approval=True, effect="idempotent")
    async def pay(amount: int) -> str:
        """Pay it."""
        return f"paid {amount}"

    async def answer(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        results = sum(message.role is Role.TOOL for message in request.messages)
        said = (
            tool_call_response("I will look at the bill.", "look", "c1", {}),
            tool_call_response("It can be paid.", "pay", "c2", {"amount": 500}),
            text_response("All of it is paid, and done."),
        )[results]
        for event in stream_of(said, 8):
            await asyncio.sleep(PACE)
            yield event

    return Agent("clerk", model=FunctionModel(answer), tools=[look, pay])


def serve(file: str, told: Connection) -> None:
    """Serve until killed; tells the port."""

    async def main() -> None:
        async with Runtime([clerk()], store=f"sqlite:///{file}") as runtime:
            listening = socket.socket()
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            config = uvicorn.Config(app(runtime), log_level="critical", lifespan="off")
            told.send(listening.getsockname()[1])
            await uvicorn.Server(config).serve([listening])

    asyncio.run(main())


class Servers:
    """One server at a time on one database. `kill_behind` counts the frames that clients get, over
    all connections: behind that one the server is killed, and another is started."""

    def __init__(self, file: Path, kill_behind: int | None) -> None:
        self._file, self._kill_behind = file, kill_behind
        self.frames = 0
        self.start()

    def start(self) -> None:
        mine, theirs = _FORKS.Pipe()
        self._process = _FORKS.Process(target=serve, args=(str(self._file), theirs), daemon=True)
        self._process.start()
        self.address = f"http://127.0.0.1:{mine.recv()}"
        mine.close()
        theirs.close()

    def count(self) -> None:
        """
        Raises:
            ConnectionError: this was the last frame of the server.
        """
        self.frames += 1
        if self.frames == self._kill_behind:
            self.kill()
            self.start()
            raise ConnectionError("the server was killed")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def proxy(servers: Servers, client: httpx2.AsyncClient) -> Starlette:
    """Passes requests on to the server of the moment, and answers back frame by frame."""

    async def passed_on(request: Request) -> Response:
        url = f"{servers.address}{request.url.path}"
        sent = client.build_request(request.method, url, content=await request.body())
        answer = await client.send(sent, stream=True)
        kept = ("content-type", "x-vercel-ai-ui-message-stream")
        headers = {name: answer.headers[name] for name in kept if name in answer.headers}
        if answer.status_code == 204:
            await answer.aclose()
            return Response(status_code=204)
        return StreamingResponse(_frames(answer, servers), answer.status_code, headers)

    return Starlette(routes=[Route("/{path:path}", passed_on, methods=["GET", "POST"])])


async def _frames(answer: httpx2.Response, servers: Servers) -> AsyncIterator[bytes]:
    rest = b""
    try:
        async for part in answer.aiter_raw():
            *frames, rest = (rest + part).split(b"\n\n")
            for frame in frames:
                yield frame + b"\n\n"
                if frame.startswith(b"data: {"):
                    servers.count()
        yield rest
    finally:
        await answer.aclose()


# -- the page -------------------------------------------------------------------------------------


@asynccontextmanager
async def stage(kill_behind: int | None) -> AsyncIterator[tuple[Servers, str]]:
    with tempfile.TemporaryDirectory(prefix="awaken-chat-") as home:
        servers = Servers(Path(home) / "a.db", kill_behind)
        try:
            async with (
                httpx2.AsyncClient(timeout=550) as client,
                served(proxy(servers, client)) as address,
            ):
                yield servers, address
        finally:
            servers.kill()


def without_ids(messages: Any) -> Any:
    """The messages without what differs between two runs, and what a client of version 6 cannot
    learn from a replay: that it was itself who approved."""
    ids = {"id", "metadata", "approval"}
    return [
        [
            {name: value for name, value in part.items() if name not in ids}
            for part in message["parts"]
        ]
        for message in messages
    ]


async def play(client: ChatClient, version: str, loads: bool, kill_behind: int | None) -> Any:
    """Play the chat; returns the messages, how often the page was cut off, and the frames."""
    async with stage(kill_behind) as (servers, address):
        where = {"api": f"{address}/v1/ai-sdk/agents/clerk/chat", "chat": "t", "version": version}
        told = await client.play("endure", **where, text="go", loads=loads)
        loaded = await client.play("load", **where)
    assert told["status"] == "ready", told["error"]
    shown, anew = without_ids(told["messages"]), without_ids(loaded["messages"])
    assert shown == anew, (version, kill_behind, shown, anew)
    return shown, len(told["breaks"]), servers.frames


Plan = Mapping[tuple[str, bool], Sequence[int] | None]
"""Behind which frames the server of each client is killed; `None` is behind each."""


async def check(plan: Plan) -> int:
    """Kill the servers as planned; returns how often that was."""
    kills = 0
    async with chat_client() as client:
        for (version, loads), points in plan.items():
            undisturbed, _, frames = await play(client, version, loads, None)
            for point in points or range(1, frames + 1):
                ended, breaks, _ = await play(client, version, loads, point)
                assert ended == undisturbed, (version, point, ended, undisturbed)
                kills += breaks
    return kills


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--at", help="behind these frames only")
    given = arguments.parse_args()
    at = [int(point) for point in given.at.split(",")] if given.at else None
    done = asyncio.run(check(dict.fromkeys(CLIENTS, at)))
    print(f"{done} kills: every page ended with the messages of an undisturbed run")
    sys.exit(0 if done else 1)
