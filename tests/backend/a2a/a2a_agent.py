"""An agent on the official SDK, for tests: what it does is what the message says.

Run as a program it prints its port. Under `/x/<fault>/` the same agent is reached through a fault;
`/control/…` tells what arrived and lets held tasks go on.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from a2a.helpers import new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from google.protobuf import struct_pb2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

PIECES = ("Grüße ", "aus ", "東京 ", "👋🏽", " – a\u2028b")
gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
log: list[dict[str, Any]] = []
seen: Counter[str] = Counter()
changed = asyncio.Event()


# -- the agent --------------------------------------------------------------------------------


PARTS = {"echo": "say", "slow": "slow", "failing": "break", "asking": "ask"}
"""What agents of the conformance suite do, whatever they are told."""


class Agent(AgentExecutor):
    """Does what the first word of a message says, with the rest of it."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _, rest = context.get_user_input().partition(" ")
        assert context.message is not None
        if word == "direct":
            message = new_text_message(rest, role=pb.Role.ROLE_AGENT)
            message.parts.append(pb.Part(raw=b"\x00\x01", filename="two.bin"))
            await event_queue.enqueue_event(message)
            return
        task_id, context_id = context.task_id or "", context.context_id or ""
        if context.current_task is None:
            await event_queue.enqueue_event(
                pb.Task(
                    id=task_id,
                    context_id=context_id,
                    status=pb.TaskStatus(state=pb.TaskState.TASK_STATE_SUBMITTED),
                    history=[context.message],
                )
            )
        task = TaskUpdater(event_queue, task_id, context_id)
        if context.current_task is not None:
            await self._answered(task, context.get_user_input())
            return
        part = context.tenant.partition("-")[0]
        if part in PARTS:
            word, rest = PARTS[part], context.message.parts[-1].text
        await getattr(self, f"_{word}")(task, rest)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _answered(self, task: TaskUpdater, text: str) -> None:
        if text.startswith("ask"):
            await task.requires_input(_agent_message(text.removeprefix("ask ")))
            return
        await task.add_artifact([new_text_part(f"thanks for {text}")])
        await task.complete()

    async def _complete(self, task: TaskUpdater, rest: str) -> None:
        await task.add_artifact([new_text_part(rest)], artifact_id="answer", name="answer.txt")
        await task.complete(_agent_message("all done"))

    async def _pieces(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work(_agent_message("writing"))
        await gates[rest].wait()
        for index, piece in enumerate(PIECES):
            await task.add_artifact(
                [new_text_part(piece)],
                artifact_id="poem",
                append=index > 0,
                last_chunk=index == len(PIECES) - 1,
            )
        await task.complete()

    async def _rewrite(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work()
        await gates[rest].wait()
        await task.add_artifact([new_text_part("draft")], artifact_id="text")
        await task.add_artifact([new_text_part("final")], artifact_id="text")
        await task.add_artifact([pb.Part(raw=b"\xff\x00", media_type="image/png")], name="dot.png")
        await task.complete()

    async def _early(self, task: TaskUpdater, rest: str) -> None:
        await task.add_artifact([new_text_part("early bird")])
        await gates[rest].wait()
        await task.complete()

    async def _data(self, task: TaskUpdater, rest: str) -> None:
        value = struct_pb2.Value()
        value.struct_value.update({"count": 3, "names": ["a", "b"]})
        await task.add_artifact([pb.Part(data=value)], artifact_id="table")
        await task.complete()

    async def _say(self, task: TaskUpdater, rest: str) -> None:
        await task.complete(_agent_message(rest))

    async def _quiet(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work(_agent_message(rest))
        await task.complete()

    async def _ask(self, task: TaskUpdater, rest: str) -> None:
        await task.requires_input(_agent_message(rest) if rest else None)

    async def _auth(self, task: TaskUpdater, rest: str) -> None:
        """Waits for somebody to be let in, elsewhere."""
        await task.requires_auth(_agent_message("log in first"))
        await gates[rest].wait()
        await task.add_artifact([new_text_part("welcome")])
        await task.complete()

    async def _fail(self, task: TaskUpdater, rest: str) -> None:
        await task.add_artifact([new_text_part("half of it")])
        await task.failed(_agent_message(rest) if rest else None)

    async def _reject(self, task: TaskUpdater, rest: str) -> None:
        await task.reject(_agent_message(rest))

    async def _hold(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work(_agent_message("holding"))
        await gates[rest].wait()
        await task.add_artifact([new_text_part(f"held {rest}")])
        await task.complete()

    async def _break(self, task: TaskUpdater, rest: str) -> None:
        raise RuntimeError("out of order")

    async def _slow(self, task: TaskUpdater, rest: str) -> None:
        """Never ends by itself, and says when it begins and when it stops."""
        await task.start_work()
        _count("started")
        try:
            await asyncio.Event().wait()
        finally:
            _count("stopped")

    async def _die(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work()
        await gates[rest].wait()
        sys.exit(0)


def _count(what: str) -> None:
    seen[what] += 1
    changed.set()


def _agent_message(text: str) -> pb.Message:
    return new_text_message(text, role=pb.Role.ROLE_AGENT)


# -- what can go wrong on the way -------------------------------------------------------------


class Faults:
    """`/x/<fault>/path` is `path`, with something wrong."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        fault, path = "", scope["path"]
        if path.startswith("/x/"):
            _, _, fault, path = path.split("/", 3)
            path = f"/{path}"
        body = await _body(receive)
        if not path.startswith("/control"):
            _record(scope, fault, path, body)
        inner = dict(scope, path=path, raw_path=path.encode())
        answer = getattr(self, f"_{fault.partition('-')[0] or 'pass'}")
        await answer(fault.partition("-")[2], inner, _again(body, receive), send)

    async def _pass(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _nosub(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """Subscribing is refused with a status."""
        if scope["path"].endswith(":subscribe"):
            await Response(status_code=int(arg))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _postsub(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """Subscribing is a POST only."""
        if scope["path"].endswith(":subscribe") and scope["method"] == "GET":
            await Response(status_code=405)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _nocancel(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """A cancel is taken, and nothing comes of it."""
        task_id, is_cancel, _ = scope["path"].removeprefix("/tasks/").partition(":cancel")
        if is_cancel:
            task = {"id": task_id, "status": {"state": "TASK_STATE_WORKING"}}
            await JSONResponse(task)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _nolist(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """Tasks are not listed."""
        if scope["path"] == "/tasks":
            await Response(status_code=int(arg or 501))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _bytewise(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """Every byte of an answer comes alone."""

        async def cut(message: Any) -> None:
            if message["type"] != "http.response.body" or len(message.get("body", b"")) < 2:
                await send(message)
                return
            for byte in message["body"]:
                await send({"type": message["type"], "body": bytes([byte]), "more_body": True})
            if not message.get("more_body"):
                await send({"type": message["type"], "body": b""})

        await self._app(scope, receive, cut)

    async def _headless(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """A stream does not begin with the task, only with where it stands."""
        begun = False

        async def cut(message: Any) -> None:
            nonlocal begun
            if scope["path"].endswith(":subscribe") and message.get("body") and not begun:
                begun = True
                task = json.loads(message["body"].partition(b"data:")[2])["task"]
                status = {"state": "TASK_STATE_WORKING"}
                event = {"statusUpdate": {"taskId": task["id"], "status": status}}
                message = {**message, "body": f"data: {json.dumps(event)}\n\n".encode()}
            await send(message)

        await self._app(scope, receive, cut)

    async def _cutstream(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """The connection breaks in the middle of a stream's second event."""
        events = 0

        async def cut(message: Any) -> None:
            nonlocal events
            if scope["path"].endswith(":subscribe") and message.get("body"):
                events += 1
                if events == 2:
                    await send({**message, "body": message["body"][:10], "more_body": True})
                    raise ConnectionError
            await send(message)

        await self._app(scope, receive, cut)

    async def _cutsend(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """The first message of a key arrives, its answer does not."""
        if scope["path"] != "/message:send" or seen[f"cut {arg}"]:
            await self._app(scope, receive, send)
            return
        seen[f"cut {arg}"] += 1

        async def drop(message: Any) -> None:
            if message["type"] == "http.response.start":
                await send(message)
            else:
                raise ConnectionError

        await self._app(scope, receive, drop)

    async def _lost(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """The first message of a key does not arrive, and the connection breaks."""
        if scope["path"] != "/message:send" or seen[f"lost {arg}"]:
            await self._app(scope, receive, send)
            return
        seen[f"lost {arg}"] += 1
        headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        raise ConnectionError

    async def _rename(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """The agent has names of its own for contexts."""
        if scope["path"] == "/message:send":
            body = json.loads(await _body(receive))
            body["message"]["contextId"] = f"renamed-{body['message']['contextId']}"
            receive = _again(json.dumps(body).encode(), receive)
            length = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
            scope = dict(scope, headers=length)
        await self._app(scope, receive, send)

    async def _busy(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """A status, two times, for every way of looking at a task."""
        status, _, key = arg.partition("-")
        if scope["method"] == "GET" and seen[f"busy {key}"] < 2:
            seen[f"busy {key}"] += 1
            await Response(status_code=int(status))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _answer(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """Rubbish of a kind, to everything."""
        kinds: dict[str, Response] = {
            "html": Response("<html>hello</html>", media_type="text/html"),
            "broken": Response('{"task": {"id": ', media_type="application/json"),
            "neither": JSONResponse({}),
            "list": JSONResponse([1, 2]),
            "anonymous": JSONResponse({"task": {"status": {"state": "TASK_STATE_WORKING"}}}),
            "odd": JSONResponse({"task": "a string"}),
            "numbers": JSONResponse({"task": {"id": 7}}),
            "endless": Response(
                b'{"message": {"messageId": "m", "metadata": {"n": %b}}}' % (b"7" * 400),
                media_type="application/json",
            ),
            "latin": Response(b'{"message": "\xe4"}', media_type="application/json"),
            "deep": Response(b"[" * 100_000, media_type="application/json"),
            "huge": Response(b" " * 200_000 + b"{}", media_type="application/json"),
            "gzip": Response(b"", headers={"content-encoding": "gzip"}),
            "leak": JSONResponse(
                {"error": {"code": 403, "message": f"no {_header(scope, 'authorization')}"}}, 403
            ),
            "unauthorised": Response(status_code=401),
            "crash": Response(status_code=500),
        }
        await kinds[arg](scope, receive, send)

    async def _endless(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """An answer without a declared length that does not end by itself."""
        headers = [(b"content-type", arg.replace("+", "/").encode() or b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(2_000):
            await send({"type": "http.response.body", "body": b" " * 1000, "more_body": True})

    async def _substream(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """Subscribing answers with rubbish of a kind, or with a stream of it."""
        if not scope["path"].endswith(":subscribe"):
            await self._app(scope, receive, send)
            return
        kinds = {
            "html": Response("<html/>", media_type="text/html"),
            "broken": Response("data: {no\n\n", media_type="text/event-stream"),
            "latin": Response(b"data: \xe4\n\n", media_type="text/event-stream"),
            "empty": Response(b": ping\n\n", media_type="text/event-stream"),
            "error": Response('event: error\ndata: {"error": {}}\n\n', media_type=_EVENTS),
        }
        await kinds[arg](scope, receive, send)

    async def _redirect(self, arg: str, scope: Any, receive: Receive, send: Send) -> None:
        """`redirect-<status>-<where>`: a port is another origin, `loop` is here again."""
        status, _, where = arg.partition("-")
        query = scope["query_string"].decode()
        path = scope["path"] + (f"?{query}" if query else "")
        host = _header(scope, "host").partition(":")[0]
        location = {
            "same": path,
            "loop": f"/x/redirect-{arg}{path}",
            "metadata": "http://169.254.169.254/latest",
            "loopback": f"http://127.0.0.1:{scope['server'][1]}{path}",
            "machine": "http://agent.localhost/",
            "file": "file:///etc/passwd",
            "nowhere": "",
        }.get(where, f"http://{host}:{where}{path}")
        headers = {"location": location} if location else {}
        await Response(status_code=int(status), headers=headers)(scope, receive, send)


_EVENTS = "text/event-stream"


def _header(scope: Any, name: str) -> str:
    return next((v.decode() for k, v in scope["headers"] if k.decode().lower() == name), "")


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def once() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body}

    return once


def _record(scope: Any, fault: str, path: str, body: bytes) -> None:
    log.append(
        {
            "method": scope["method"],
            "path": path,
            "raw_path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": {k.decode(): v.decode() for k, v in scope["headers"]},
            "body": json.loads(body) if body else None,
        }
    )


# -- the program ------------------------------------------------------------------------------


async def _log(request: Request) -> Response:
    return JSONResponse(log)


async def _go(request: Request) -> Response:
    gates[request.query_params["key"]].set()
    return JSONResponse({})


async def _slow(request: Request) -> Response:
    """How often the slow agent has started; waits for one more, or until none is at work."""
    wanted = int(request.query_params.get("started", 0))
    is_over = "stopped" in request.query_params
    while seen["started"] < wanted or (is_over and seen["stopped"] < seen["started"]):
        changed.clear()
        await changed.wait()
    return JSONResponse(seen["started"])


def main() -> None:
    # With its protocol named, asyncio sends small answers at once.
    sock = socket.socket(proto=socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    sock.listen(64)
    port = sock.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    card = pb.AgentCard(
        name="Test Agent №1",
        description="Does as it is told.",
        version="1",
        supported_interfaces=[
            pb.AgentInterface(
                url=f"{base}/rpc", protocol_binding="JSONRPC", protocol_version="1.0"
            ),
            pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version="1.0"),
        ],
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[pb.AgentSkill(id="s", name="s", description="s", tags=["s"])],
    )
    handler = DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=InMemoryTaskStore(owner_resolver=lambda context: context.tenant),
        agent_card=card,
    )
    app = Starlette(
        routes=[
            Route("/control/log", _log),
            Route("/control/go", _go, methods=["POST"]),
            Route("/control/slow", _slow),
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc"),
            *create_rest_routes(handler),
        ]
    )
    config = uvicorn.Config(Faults(app), log_level="critical", lifespan="off")
    print(port, flush=True)
    asyncio.run(uvicorn.Server(config).serve(sockets=[sock]))


if __name__ == "__main__":
    main()
