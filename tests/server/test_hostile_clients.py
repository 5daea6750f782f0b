"""Clients that send too much, too slowly, in the wrong order, or for what they may not do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge_kit import Desk, code_of, open_desk, slow, talker

from awaken import Agent, ToolCallContext
from awaken.core.store.threads import ThreadQuery
from awaken.core.suspension import SuspendTicket
from awaken.core.tool import ToolDescriptor, ToolResult
from awaken.core.tool_context import ToolOutput
from awaken.server import http_protocol
from awaken.server.routes import ROUTES
from awaken.testing import ScriptedModel, tool_call_response
from awaken.tool import Tool

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}
STREAM = {"accept": "text/event-stream"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened:
        yield opened


class Wire:
    """A connection whose bytes the test writes itself."""

    def __init__(
        self, desk: Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._desk, self._reader, self._writer = desk, reader, writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def write_for_ever(self, data: bytes) -> None:
        """Write until the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            while True:
                await self.write(data)
                await asyncio.sleep(0)

    def head(self, method: str, path: str, *lines: str, who: str = "developer") -> bytes:
        """The head of a request, with somebody's key."""
        key = f"authorization: Bearer {self._desk.keys[who]}"
        words = [f"{method} {path} HTTP/1.1", "host: localhost", key, *lines]
        return ("\r\n".join(words) + "\r\n\r\n").encode()

    def post(self, path: str, said: Any, *lines: str) -> bytes:
        body = json.dumps(said).encode()
        return self.head("POST", path, f"content-length: {len(body)}", *lines) + body

    async def status(self) -> int:
        """The status of the next answer, whose body is read, too."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "content-length: " in head:
            await self._reader.readexactly(int(head.split("content-length: ")[1].split()[0]))
        return int(head.split()[1])

    async def rest(self) -> bytes:
        """All that comes until the server closes the connection."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    def leave(self, *, half: bool = False) -> None:
        if half:
            self._writer.write_eof()
        else:
            self._writer.close()


Opens = Callable[[], Awaitable[Wire]]


@pytest.fixture
async def wire(desk: Desk) -> AsyncIterator[Opens]:
    """Opens connections to the desk."""
    opened: list[Wire] = []

    async def open_wire() -> Wire:
        host, port = desk.address.removeprefix("http://").split(":")
        opened.append(Wire(desk, *await asyncio.open_connection(host, int(port))))
        return opened[-1]

    yield open_wire
    for one in opened:
        one.leave()


# -- the head of a request ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx: %b\r\n\r\n" % (b"a" * 70_000),
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (b"x: a\r\n" * 40_000),
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx: %b" % (b"a" * 300_000),
    ],
    ids=["one long header", "many headers", "no end"],
)
async def test_a_head_that_is_too_long_is_refused(wire: Opens, head: bytes) -> None:
    one = await wire()
    with_body = one.head("GET", "/health/live", "x: " + "a" * 50_000)
    await one.write(with_body)
    assert await one.status() == 200
    await one.write(head)
    assert (await one.rest()).startswith(b"HTTP/1.1 431 ")


async def test_a_client_that_does_not_end_its_request_is_cut_off(
    desk: Desk, wire: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that goes on to send the body of a request that was refused; a stream stays open."""
    watching = await wire()
    await desk.ask("developer", "POST", "/v1/threads", json={"id": "t"})
    await watching.write(watching.head("GET", "/v1/threads/t/events", "accept: text/event-stream"))
    assert await watching.status() == 200
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.05)
    silent, half, idle = [await wire() for _ in range(3)]
    await half.write(b"GET /health/live HTTP/1.1\r\nhost: loc")
    await idle.write(idle.head("GET", "/health/live"))
    assert await idle.status() == 200
    await idle.write(b"\r\n")
    for cut_off in (silent, half, idle):
        assert await cut_off.rest() == b""
    refused = await wire()
    await refused.write(
        refused.head("POST", "/v1/threads/t/runs", "transfer-encoding: chunked", who="approver")
    )
    assert await refused.status() == 403
    await refused.write_for_ever(b"5\r\nhello\r\n")
    await desk.ask("developer", "POST", "/v1/threads/t/runs?wait=30", json=SAID)


@pytest.mark.parametrize("name", ["host", "origin", "last-event-id", "idempotency-key", "if-match"])
async def test_a_header_that_decides_something_is_given_once(wire: Opens, name: str) -> None:
    one = await wire()
    lines = [f"{name}: localhost"] * (1 if name == "host" else 2)
    await one.write(one.head("GET", "/v1/agents", *lines))
    assert await one.status() == 400


# -- requests in a row, and clients that leave ----------------------------------------------------


async def test_requests_in_a_row_are_answered_in_order(wire: Opens) -> None:
    one = await wire()
    row = [
        one.post("/v1/threads/t/runs?wait=30", SAID),
        one.head("GET", "/v1/threads/t"),
        one.head("GET", "/v1/nothing"),
        one.head("GET", "/v1/agents"),
    ]
    await one.write(b"".join(row))
    assert [await one.status() for _ in row] == [200, 200, 404, 200]


async def test_a_client_that_leaves_early_is_no_error_of_ours(desk: Desk, wire: Opens) -> None:
    """What it has sent whole is carried out; half a body changes nothing. Neither is a 500."""
    half, gone = await wire(), await wire()
    await half.write(half.head("POST", "/v1/threads/half/runs", "content-length: 500") + b'{"mess')
    half.leave(half=True)
    assert await half.rest() == b""
    await gone.write(gone.post("/v1/threads/gone/runs", SAID))
    gone.leave(half=True)
    await gone.rest()
    while not (await desk.runtime.list_threads(ThreadQuery(scope="acme"))).items:  # noqa: ASYNC110
        await asyncio.sleep(0)
    (thread,) = (await desk.runtime.list_threads(ThreadQuery(scope="acme"))).items
    assert thread.id == "acme/gone"
    figures = (await desk.ask(None, "GET", "/metrics")).text
    assert 'status="499"' in figures
    assert 'status="500"' not in figures
    audit = (await desk.ask("boss", "GET", "/v1/audit")).json()["items"]
    assert 499 in [deed["status"] for deed in audit]


async def test_the_head_of_a_stream_can_be_asked_for_alone(desk: Desk) -> None:
    ticket = await desk.ticket("t")
    ids = {"thread": "t", "chat": "t", "run": ticket["run_id"], "agent": "payer"}
    for route in ROUTES:
        if route.streams and route.method == "GET":
            path = route.path.format(**ids)
            answer = await desk.ask("developer", "HEAD", path, headers=STREAM)
            assert (answer.status_code, answer.content) in ((200, b""), (204, b"")), path
    assert "awaken_streams{" not in (await desk.ask(None, "GET", "/metrics")).text


# -- what only some may do ------------------------------------------------------------------------


async def test_one_who_only_watches_cannot_have_a_run_cancelled(tmp_path: Path) -> None:
    """Neither by leaving its stream, nor as another user of the same scope."""
    released = asyncio.Event()
    async with open_desk(tmp_path, agents=(talker(), slow(released))) as desk:
        asked = {"agent_id": "slow", "messages": ["Hi"]}
        run = (await desk.ask("developer", "POST", "/v1/threads/t/runs", json=asked)).json()
        leaving = {**STREAM, "x-awaken-on-disconnect": "cancel"}
        paths = (f"/v1/runs/{run['run_id']}/events", "/v1/ag-ui/agents/slow/threads/t/connect")
        for path in paths:
            header = await desk.ask("viewer", "GET", path, headers=leaving)
            query = await desk.ask("viewer", "GET", path + "?on_disconnect=cancel", headers=STREAM)
            for answer in (header, query):
                assert (answer.status_code, code_of(answer)) == (403, "missing_role"), path
        made = await desk.ask(
            "developer", "POST", "/v1/tokens", json={"thread_id": "t", "roles": ["read"]}
        )
        desk.keys["browser"] = made.json()["token"]
        token = await desk.ask("browser", "GET", paths[0], headers=leaving)
        assert token.status_code == 403
        foreign = await desk.ask("page", "POST", "/v1/ai-sdk/chat/t/cancel")
        assert foreign.status_code == 404
        assert (await desk.runtime.find_run(run["run_id"])).status.value == "running"  # type: ignore[union-attr]
        released.set()
        mine = await desk.ask("developer", "POST", "/v1/ai-sdk/chat/t/cancel")
        assert mine.json() == {"cancelled": True}


async def test_a_path_that_is_no_path_gets_no_token(desk: Desk) -> None:
    for path in ("//[", "http://[::1", "//]/v1/threads/t", "", "?", "#", "\0"):
        made = await desk.ask("page", "POST", "/v1/tokens", json={"path": path})
        assert made.status_code in (400, 404), (path, made.text)


# -- the same again -------------------------------------------------------------------------------


async def test_a_hundred_requests_with_one_key_are_one_run(desk: Desk) -> None:
    """06/SV-24, by an impatient client."""
    key = {"idempotency-key": "again"}

    async def submit() -> httpx2.Response:
        return await desk.ask("page", "POST", "/v1/threads/t/runs", json=SAID, headers=key)

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(submit()) for _ in range(100)]
    answers = [one.result() for one in asked]
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert len((await desk.runtime.list_runs()).items) == 1


# -- values that are wrong in many places ----------------------------------------------------------


class Sender(Tool):
    """A tool with a schema, as those of tool servers have one, that asks before it sends."""

    def descriptor(self) -> ToolDescriptor:
        names = {"type": "array", "items": {"type": "string"}}
        schema = {"type": "object", "properties": {"to": names}}
        return ToolDescriptor(id="send", name="send", description="Send.", parameters=schema)

    def validate_args(self, args: Any) -> Any:
        return args

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        if ctx.resume_input is None:
            return ToolOutput(ToolResult.suspended_with("send", "Send?", SuspendTicket()))
        return ToolOutput(ToolResult.success("send", f"sent to {args['to']}"))


async def test_most_faults_of_an_edited_call_are_neither_looked_for_nor_told(
    tmp_path: Path,
) -> None:
    """The check of the arguments, the answer to the ticket, and the same by AG-UI."""
    call = tool_call_response("", "send", "c1", {"to": ["ann"]})
    sender = Agent("sender", model=ScriptedModel([call, "Sent."]), tools=[Sender()])
    wrong = b'{"to":[' + b",".join([b"1"] * 900_000) + b"]}"
    async with open_desk(tmp_path, agents=[sender]) as desk:
        path = "/v1/threads/t/runs?wait=30"
        asked = await desk.ask("developer", "POST", path, json={"messages": ["Send"]})
        (ticket,) = asked.json()["tickets"]
        answer = {"ticket": ticket["key"], "action": "edit", "digest": ticket["digest"]}
        resumed = {"interruptId": ticket["key"], "status": "resolved"}
        run = {"threadId": "t", "runId": "r2", "messages": [], "tools": [], "context": []}
        payload = {"approved": True, "editedArgs": "?"}
        refused = [
            await desk.ask("developer", "POST", path, content=content.replace(b'"?"', wrong))
            for path, content in (
                (f"/v1/tickets/{ticket['key']}/arguments", b'{"arguments":"?"}'),
                (
                    f"/v1/runs/{asked.json()['run_id']}/decisions",
                    json.dumps([{**answer, "result": "?"}]).encode(),
                ),
                (
                    "/v1/ag-ui/agents/sender",
                    json.dumps(
                        {
                            **run,
                            "state": {},
                            "forwardedProps": {},
                            "resume": [{**resumed, "payload": payload}],
                        }
                    ).encode(),
                ),
            )
        ]
        now = await desk.ask("developer", "GET", f"/v1/tickets/{ticket['key']}")
    assert [one.status_code for one in refused] == [200, 409, 409]
    for one in refused:
        assert "to[0]" in one.text
        assert "to[1]" not in one.text, "of a large value the first fault is enough"
        assert len(one.content) < 2_500
    assert now.json()["status"] == "open"
