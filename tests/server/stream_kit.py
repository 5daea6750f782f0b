"""Servers in processes of their own, and a client of `/v1` streams that is easy to cut off."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from follow_kit import Reader

from awaken import Runtime
from awaken.cli.app import main as awaken
from awaken.codec import loads
from awaken.core.event import Error, RunEvent, RunFinish
from awaken.core.lifecycle import Suspended
from awaken.core.message import Role
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.stores.sqlite import SqliteStore

TALKER = Path(__file__).with_name("served_talker.py")
_FORK = multiprocessing.get_context("fork")


class Server:
    """`awaken serve` in a process of its own; forked, so that nothing is imported again."""

    def __init__(self, file: Path, *words: str, target: Path = TALKER) -> None:
        out, told = os.pipe()
        command = ["serve", str(target), "--store", f"sqlite:///{file}", "--port", "0", *words]
        self.process = _FORK.Process(target=_serve, args=(command, told, file.with_suffix(".log")))
        self.process.start()
        os.close(told)
        with os.fdopen(out) as lines:
            first = lines.readline()
        assert "http://" in first, file.with_suffix(".log").read_text()
        self.address = first.split()[-1]

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()

    def join(self, timeout: float = 60) -> int | None:
        self.process.join(timeout)
        return self.process.exitcode


def failed_start(folder: Path, *words: str) -> tuple[int | None, str]:
    """How `awaken serve` ends if it cannot start, and what it says; it prints nothing else."""
    out, told = os.pipe()
    log = folder / "start.log"
    log.unlink(missing_ok=True)
    process = _FORK.Process(target=_serve, args=(["serve", *words], told, log, folder))
    process.start()
    os.close(told)
    with os.fdopen(out) as lines:
        assert lines.read() == ""
    process.join()
    return process.exitcode, log.read_text()


def _serve(command: list[str], told: int, log: Path, folder: Path | None = None) -> None:
    if folder is not None:
        os.chdir(folder)
    os.dup2(told, 1)
    os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    code = awaken(command)
    sys.stdout.flush()
    os._exit(code)


@contextmanager
def serving(file: Path, *words: str, target: Path = TALKER) -> Iterator[Server]:
    server = Server(file, *words, target=target)
    try:
        yield server
    finally:
        server.kill()


class Frame(NamedTuple):
    """A frame of a stream."""

    id: str | None
    kind: str
    event: RunEvent


def ask(
    address: str, method: str, path: str, body: Any = None, head: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """One request with an answer in JSON."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
    try:
        sent = None if body is None else json.dumps(body)
        headers = {"content-type": "application/json", **(head or {})}
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()
    finally:
        connection.close()


@contextmanager
def stream(address: str, path: str, last_id: str | None = None) -> Iterator[HTTPResponse]:
    """The answer to a request for a stream, with its body unread."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
    try:
        headers = {"accept": "text/event-stream"}
        connection.request(
            "GET", path, headers=headers | ({"last-event-id": last_id} if last_id else {})
        )
        yield connection.getresponse()
    finally:
        connection.close()


def frames_of(answer: HTTPResponse) -> Iterator[Frame]:
    """The frames of a stream, as they come; ends when the connection does."""
    fields: dict[str, str] = {}
    try:
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                yield Frame(fields.get("id"), fields["event"], loads(fields["data"], RunEvent))
                fields = {}
            else:
                fields = {}
    except (HTTPException, OSError, ValueError):
        return  # it was cut off


def new_reader() -> Reader:
    return Reader()


class Client:
    """Follows a thread over any number of connections, and remembers the last id."""

    def __init__(self, thread: str = "t") -> None:
        self.thread, self.reader = thread, Reader()
        self.last_id: str | None = None
        self.frames = 0
        self.has_ended = self.is_suspended = False

    def follow(self, address: str, most: int | None = None) -> None:
        """Read `most` frames, or all until the run pauses or ends."""
        with stream(address, f"/v1/threads/{self.thread}/events", self.last_id) as answer:
            assert answer.status == 200, answer.read()
            for frame in frames_of(answer):
                self._take(frame)
                most = None if most is None else most - 1
                assert not isinstance(frame.event.event, Error), frame.event.event
                if most == 0 or self.has_ended or self.is_suspended:
                    return

    def _take(self, frame: Frame) -> None:
        self.frames += 1
        self.last_id = frame.id or self.last_id
        self.is_suspended = self.has_ended = False
        told = frame.event.event
        self.reader.read(frame.event)
        if isinstance(told, RunFinish) and not frame.event.ahead:
            self.is_suspended = isinstance(told.termination, Suspended)
            self.has_ended = not self.is_suspended

    def answers(self) -> list[str]:
        """The texts of the answers; one that was taken back is empty."""
        return [text for text in self.reader.texts.values() if text]

    def submit(self, address: str, text: str = "go") -> None:
        path = f"/v1/threads/{self.thread}/runs"
        status, answer = ask(address, "POST", path, {"messages": [text]})
        assert status == 202, answer

    def finish(self, address: str, file: Path) -> None:
        """Follow the run to its end, and have it answered what it asks."""
        while not self.has_ended:
            if self.is_suspended:
                self.approve(file)
            self.follow(address)

    def approve(self, file: Path) -> None:
        """Answer what the run waits for, from this process."""

        async def main() -> None:
            store = SqliteStore(file)
            async with Runtime([], store=store, recover=False) as runtime:
                query = TicketQuery(thread_id=self.thread, status=TicketStatus.OPEN)
                for ticket in (await runtime.list_tickets(query)).items:
                    await runtime.decide(self.thread, {ticket.key: True})
            await store.close()

        asyncio.run(main())

    def check_whole(self, file: Path) -> None:
        """Every durable event was given once and in order, each answer as the log has it, and no
        tool has run twice."""

        async def main() -> None:
            store = SqliteStore(file)
            await store.open()
            stored = await store.load_events(self.thread)
            log = await store.load_messages(self.thread)
            await store.close()
            assert [e.event for e in self.reader.durable.values()] == [e.event for e in stored]
            for message in log:
                if message.role is Role.ASSISTANT:
                    assert self.reader.texts[message.id or ""] == message.text(), message.id
            results = [message.text() for message in log if message.role is Role.TOOL]
            assert results[-1] == "paid 500"
            assert results.count("saw 1") == 1

        asyncio.run(main())
