"""Servers that speak the providers' wire formats, for the real SDKs to talk to.

`MockServer` is aimock, a program that plays scripted answers in every dialect; `WireServer` plays
given bytes, for what aimock cannot say.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.request import Request, urlopen
from zlib import crc32

KIT = Path(__file__).parent.parent / "kit"
LLMOCK = KIT / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
# The server goes when its standard input ends, that is also when the tests are killed.
ENDS_WITH_STDIN = 'data:text/javascript,process.stdin.on("end",()=>process.exit(0)).resume()'


class MockServer:
    """A running aimock: `with MockServer(fixtures) as server`.

    Start one for a test module: a fixture with `scope="module"`. Fixtures are `match` and
    `response` pairs as aimock's guide says; what none of them matches is answered with an error.

    Args:
        api_keys: the only keys it accepts; without them it takes any.
        chunk_size: how many characters of an answer go into one event.
    """

    def __init__(
        self,
        fixtures: Iterable[Mapping[str, Any]],
        *,
        api_keys: Sequence[str] = (),
        chunk_size: int = 20,
    ) -> None:
        self.url = ""
        self._fixtures = list(fixtures)
        self._keys = tuple(api_keys)
        self._chunk_size = chunk_size
        self._folder: TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        if not LLMOCK.is_file():
            raise RuntimeError(f"aimock is missing: run `npm ci` in {KIT.name}/ of the tests")
        self._folder = TemporaryDirectory()
        path = Path(self._folder.name, "fixtures.json")
        path.write_text(json.dumps({"fixtures": self._fixtures}))
        command = ["node", "--import", ENDS_WITH_STDIN, str(LLMOCK), "-p", "0", "-f", str(path)]
        self._process = subprocess.Popen(
            [*command, "-c", str(self._chunk_size), "--strict"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | ({"AIMOCK_API_KEYS": ",".join(self._keys)} if self._keys else {}),
        )
        try:
            self.url = self._listening()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, folder = self._process, self._folder
        self._process = self._folder = None
        if process is not None:
            process.kill()
            process.communicate()
        if folder is not None:
            folder.cleanup()

    def journal(self) -> list[dict[str, Any]]:
        """The requests it got, oldest first: `method`, `path`, `headers`, `body`, `response`.

        The body is what aimock made of it: for every API but OpenAI's chat a translation.
        """
        entries: list[dict[str, Any]] = self._control("GET", "journal")
        return entries

    def forget(self) -> None:
        """Empty the journal, and count from zero for fixtures with a `sequenceIndex`."""
        self._control("POST", "reset/journal")

    def _control(self, method: str, what: str) -> Any:
        request = Request(f"{self.url}/__aimock/{what}", method=method)
        if self._keys:
            request.add_header("Authorization", f"Bearer {self._keys[0]}")
        with urlopen(request, timeout=10) as answer:
            body = answer.read()
            return json.loads(body) if body else None

    def _listening(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            if found := re.search(r"listening on (http://\S+)", line):
                return found[1]
            said.append(line)
        raise RuntimeError(f"aimock did not start:\n{''.join(said)}")


# -- given bytes --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP answer.

    Args:
        pieces: the body, each written on its own.
        cut: drop the connection where the body's end would be.
        reset: the same, rudely: the client is told that nobody is there.
        unframed: a body without a declared end, as some proxies send it: a cut is an end.
        held: after the pieces, keep the connection open until the client leaves it.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    reset: bool = False
    unframed: bool = False
    held: bool = False


@dataclass(frozen=True, kw_only=True)
class Received:
    """One HTTP request; its body as JSON."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


def sse(*events: object, names: bool = False) -> tuple[bytes, ...]:
    """Server-sent events, one piece each: texts as they are, all else as JSON.

    Args:
        names: give each its `type` as the event's name, as the Responses and Messages APIs do.
    """
    pieces: list[bytes] = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        name = f"event: {event['type']}\n" if names and isinstance(event, dict) else ""
        pieces.append(f"{name}data: {data}\n\n".encode())
    return tuple(pieces)


def amazon_frame(kind: str, content: object, message_type: str = "event") -> bytes:
    """An event of Amazon's: lengths and their checksum, headers, JSON, and a checksum of all."""
    name = ":event-type" if message_type == "event" else ":exception-type"
    headers = b"".join(
        struct.pack("!B", len(key))
        + key.encode()
        + b"\x07"
        + struct.pack("!H", len(value))
        + value.encode()
        for key, value in ((name, kind), (":message-type", message_type))
    )
    payload = json.dumps(content).encode()
    lengths = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    whole = lengths + struct.pack("!I", crc32(lengths)) + headers + payload
    return whole + struct.pack("!I", crc32(whole))


class WireServer:
    """Plays answers, one for each request: `async with WireServer(answers) as server`.

    `requests` are what came; `holding` is set when all there is of an answer that is held was
    sent, `left` when a client leaves it.
    """

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.holding = asyncio.Event()
        self.left = asyncio.Event()
        self._answers = iter(answers)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            received = await _received(reader)
            self.requests.append(received)
            await self._play(await self.answer(received), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):  # it may leave before it asks
            self.left.set()
        finally:
            writer.close()

    async def answer(self, request: Received) -> Answer:
        """What a request is answered with: the next answer."""
        gone = Answer(status=404, pieces=[b'{"error": {"message": "no answer left"}}'])
        return next(self._answers, gone)

    async def _play(
        self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(_head(answer))
        for piece in answer.pieces:
            writer.write(piece if answer.unframed else b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if answer.held:
            self.holding.set()
            await reader.read()
            self.left.set()
        elif answer.reset:
            now = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        elif not (answer.cut or answer.unframed):
            writer.write(b"0\r\n\r\n")
            await writer.drain()


def _head(answer: Answer) -> bytes:
    kind = "text/event-stream" if answer.status == 200 else "application/json"
    headers = {"content-type": kind, "connection": "close", **answer.headers}
    if not answer.unframed:
        headers["transfer-encoding"] = "chunked"
    lines = [
        f"HTTP/1.1 {answer.status} -",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def _received(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (r.partition(":") for r in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(
        method=method, path=path, headers=headers, body=json.loads(body) if body else None
    )
