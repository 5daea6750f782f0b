"""Streams of `/v1` on real sockets: cursors, ends, slow clients, clients that leave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from http.client import HTTPResponse
from pathlib import Path
from types import ModuleType

import httpx2
import pytest
from server_kit import served
from stream_kit import frames_of, new_reader

from awaken import Agent, Runtime
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CancelledEnd
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.store.commits import Lease, NeverLost
from awaken.server import app, http_protocol, sse
from awaken.server.event_frames import Cursor
from awaken.server.open_streams import MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS, OpenStreams
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel

STREAM = {"accept": "text/event-stream"}


class Gated:
    """Writes deltas, each when the test says so; the last one when it says so for the last time."""

    name = "gated"

    def __init__(self, deltas: int = 1, text: str = "word ") -> None:
        self.deltas, self.text = deltas, text
        self.go = asyncio.Semaphore(0)
        self.written = asyncio.Event()

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for _ in range(self.deltas):
            await self.go.acquire()
            yield TextDelta(delta=self.text)
        self.written.set()
        yield Stop(reason=StopReason.END_TURN)


class NotHeld(NeverLost):
    """A lease that has run out."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False


class Heard:
    """The lines of a stream that a client has got."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.aiter_lines()
        self.lines: list[str] = []

    async def until(self, text: str) -> str:
        async for line in self._lines:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text} did not come; {self.lines[-5:]}")


async def test_the_first_bytes_come_at_once_and_silence_is_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "SILENCE_SECONDS", 0.02)
    model = Gated()
    async with (
        Runtime([Agent("a", model=model)]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
    ):
        await runtime.submit("a", "go", thread="t")
        async with client.stream("GET", "/v1/threads/t/events") as answer:
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert answer.headers["cache-control"] == "no-cache, no-transform"
            assert answer.headers["x-accel-buffering"] == "no"
            heard = Heard(answer)
            await heard.until(": still here")
            assert heard.lines[:3] == [": open", "", "retry: 1000"]
        model.go.release()


async def test_a_cursor_that_makes_no_sense_is_refused() -> None:
    async with (
        Runtime([Agent("a", model=ScriptedModel(["Hi."]))]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
    ):
        await runtime.run("a", "go", thread="t")
        for bad in ("", "x", "1.2", "-1", "1.2.3.4", "９"):
            answer = await client.get("/v1/threads/t/events", params={"after": bad})
            assert answer.status_code == 400
            for kind in ("text/event-stream", "application/json"):
                raw = {b"last-event-id": bad.encode(), b"accept": kind.encode()}
                answer = await client.get("/v1/threads/t/events", headers=raw)
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_cursor")
        answer = await client.get("/v1/threads/t/events", params={"after": "99"})
        assert answer.status_code == 410
        head = {"last-event-id": "99"}
        answer = await client.get("/v1/threads/t/events", params={"after": "1"}, headers=head)
        assert answer.status_code == 410, "Last-Event-ID beats after"
        head = {"last-event-id": "2", "accept": "application/json"}
        page = (await client.get("/v1/threads/t/events?after=0", headers=head)).json()
        assert page["items"][0]["seq"] == 3, "of a page, too"
        assert (await client.get("/v1/threads/none/events")).status_code == 404


async def test_a_client_that_comes_back_in_the_middle_of_an_answer_gets_the_rest() -> None:
    """06 §3.6: with an id that has a live part it goes on behind that very event."""
    model = Gated(2)
    async with (
        Runtime([Agent("a", model=model)]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
    ):
        await runtime.submit("a", "go", thread="t")
        model.go.release()
        async with client.stream("GET", "/v1/threads/t/events") as answer:
            heard = Heard(answer)
            await heard.until("word")
        ids = [line.removeprefix("id: ") for line in heard.lines if line.startswith("id: ")]
        assert ids[-1].count(".") == 2
        last = {"last-event-id": ids[-1]}
        async with client.stream("GET", "/v1/threads/t/events?until=run", headers=last) as answer:
            heard = Heard(answer)
            await heard.until(": open")
            model.go.release()
            await heard.until("word")
            await heard.until("run_finish")
    kinds = [line for line in heard.lines if line.startswith("event: ")]
    assert kinds[0] == "event: text_delta"
    assert "event: stream_reset" not in kinds


def test_a_cursor_is_read_as_it_is_written() -> None:
    for cursor in (Cursor(0), Cursor(7), Cursor(7, (2, 31))):
        assert Cursor.read(str(cursor)) == cursor


async def test_a_run_is_followed_to_its_end_and_not_further() -> None:
    """A client that comes back to a run that is over is told not to come again."""
    async with (
        Runtime([Agent("a", model=ScriptedModel(["One.", "Two."]))]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
    ):
        first = await runtime.run("a", "go", thread="t")
        second = await runtime.run("a", "go", thread="t")
        told = (await client.get(f"/v1/runs/{second.run_id}/events")).text
        assert "Two." in told
        assert "One." not in told
        last = [line for line in told.splitlines() if line.startswith("id: ")][-1]
        again = await client.get(
            f"/v1/runs/{second.run_id}/events", headers={"last-event-id": last.removeprefix("id: ")}
        )
        assert again.status_code == 204
        only = (await client.get(f"/v1/runs/{first.run_id}/events?deltas=false")).text
        assert "event: run_finish" in only
        assert "step_snapshot" not in only


async def test_the_threads_of_delegates_are_followed_with_tree() -> None:
    helper = Agent("helper", model=ScriptedModel(["I helped."]))
    boss = Agent("boss", model="demo", delegates=["helper"])
    async with (
        Runtime([boss, helper]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
    ):
        taken = await runtime.submit("boss", "agent run helper: please help", thread="t")
        path = f"/v1/runs/{taken.run_id}/events"
        with_tree = (await client.get(path, params={"tree": "true"})).text
        alone = (await client.get(path)).text
        assert "I helped." in with_tree
        assert '"thread_id":"t~' in with_tree
        assert '"thread_id":"t~' not in "".join(alone.split("tool_call_done"))


async def test_a_client_that_leaves_is_noticed_and_changes_nothing() -> None:
    model = Gated()
    runtime = Runtime([Agent("a", model=model)])
    application = app(runtime)
    async with runtime, served(application) as address:
        taken = await runtime.submit("a", "go", thread="t")
        async with (
            httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
            client.stream("GET", "/v1/threads/t/events") as answer,
        ):
            await Heard(answer).until("step_start")
            assert application.state.observer.streams.by_protocol() == {"v1": 1}
        while application.state.observer.streams.by_protocol():  # noqa: ASYNC110 as a scrape does
            await asyncio.sleep(0)
        model.go.release()
        assert (await runtime.wait(taken.run_id)).response == "word "


async def test_a_run_is_cancelled_when_its_client_leaves_if_that_was_asked_for() -> None:
    async with (
        Runtime([Agent("a", model=Gated())]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, headers=STREAM) as client,
    ):
        taken = await runtime.submit("a", "go", thread="t")
        path = f"/v1/runs/{taken.run_id}/events?on_disconnect=cancel"
        async with client.stream("GET", path) as answer:
            await Heard(answer).until("step_start")
        ended = await runtime.wait(taken.run_id)
        assert isinstance(ended.termination, CancelledEnd)


async def test_a_client_that_reads_nothing_slows_no_one_and_is_whole_later(tmp_path: Path) -> None:
    """06/SV-23, scaled down: 9 clients of a run of 2,500 deltas, one of which reads nothing."""
    deltas, text = 2_500, "a word of some length, so that buffers fill; "
    model = Gated(deltas, text)
    runtime = Runtime([Agent("a", model=model)], store=f"sqlite:///{tmp_path / 'f.db'}")
    application = app(runtime)
    async with runtime, served(application) as address:
        taken = await runtime.submit("a", "go", thread="t")
        path = f"/v1/runs/{taken.run_id}/events"
        slow = _silent_client(address, path)
        async with httpx2.AsyncClient(base_url=address, headers=STREAM, timeout=550) as client:
            async with asyncio.TaskGroup() as group:
                reading = [group.create_task(client.get(path)) for _ in range(8)]
                while sum(application.state.observer.streams.by_protocol().values()) < 9:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                for _ in range(deltas):
                    model.go.release()
                    await asyncio.sleep(0)
                await model.written.wait()
                ended = await runtime.wait(taken.run_id)
            assert ended.response == text * deltas
            for client_reading in reading:
                assert "event: run_finish" in client_reading.result().text
        texts, deltas_read = await asyncio.to_thread(_read_all, slow)
    assert deltas_read < deltas, "what it did not take was not kept for it"
    assert list(texts.values()) == [text * deltas]


def _silent_client(address: str, path: str) -> socket.socket:
    """A client that asks for a stream, and reads nothing of it by itself."""
    host, _, port = address.removeprefix("http://").partition(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(30)
    client.connect((host, int(port)))
    client.sendall(
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n".encode()
    )
    return client


def _read_all(slow: socket.socket) -> tuple[dict[str, str], int]:
    """What a client has at the end, and how many deltas it was given."""
    reader, deltas = new_reader(), 0
    with slow:
        answer = HTTPResponse(slow)
        answer.begin()
        for frame in frames_of(answer):
            reader.read(frame.event)
            deltas += frame.kind == "text_delta"
    return reader.texts, deltas


@pytest.mark.parametrize("module", [sse, http_protocol], ids=["stream", "server"])
async def test_a_client_that_takes_nothing_for_long_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    """The stream gives up under any web server; ours also drops what the client has not taken."""
    monkeypatch.setattr(module, "STUCK_SECONDS", 0.05)
    runtime = Runtime([Agent("a", model=ScriptedModel(["much to say " * 200_000]))])
    application = app(runtime)
    async with runtime, served(application) as address:
        await runtime.run("a", "go", thread="t")
        streams = application.state.observer.streams
        with _silent_client(address, "/v1/threads/t/events") as silent:
            while not streams.by_protocol():  # noqa: ASYNC110 as a scrape does
                await asyncio.sleep(0)
            while streams.by_protocol():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert b"run_finish" not in await asyncio.to_thread(_read_rest, silent)


def _read_rest(client: socket.socket) -> bytes:
    told = b""
    with contextlib.suppress(ConnectionResetError):
        while read := client.recv(1 << 20):
            told += read
    return told


async def test_a_store_or_lease_that_is_gone_makes_the_process_unready(tmp_path: Path) -> None:
    """06/SV-31: ready turns 503, live stays 200."""

    class Losable(MemoryStore):
        """A store whose lease can run out."""

        def __init__(self) -> None:
            super().__init__()
            self.lease: Lease = NeverLost()

    losable, file = Losable(), SqliteStore(tmp_path / "f.db")
    for store in (losable, file):
        async with (
            Runtime([Agent("a", model="demo")], store=store) as runtime,
            served(app(runtime)) as address,
            httpx2.AsyncClient(base_url=address) as client,
        ):
            assert (await client.get("/health/ready")).json()["ready"]
            if store is losable:
                losable.lease = NotHeld()
            else:
                await file.close()
            answer = await client.get("/health/ready")
            assert answer.status_code == 503
            parts = answer.json()
            assert (parts["lease"] == "lost") is (store is losable)
            assert (parts["store"] == "away") is (store is file)
            assert (await client.get("/health/live")).status_code == 200


async def test_streams_write_less_often_when_they_hold_up_the_loop() -> None:
    """06/SV-23: else an answer to many clients takes as long as a write of each piece to each."""
    streams = OpenStreams()
    loop = asyncio.get_running_loop()
    assert streams.seconds_between == MIN_PAUSE_SECONDS
    for _ in range(40):
        loop.call_later(MIN_PAUSE_SECONDS / 2, time.sleep, 2 * MIN_PAUSE_SECONDS)
        await streams.pause()
    assert 2 * MIN_PAUSE_SECONDS < streams.seconds_between <= MAX_PAUSE_SECONDS
