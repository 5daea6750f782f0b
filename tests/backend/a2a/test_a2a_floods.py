"""Agents that send far more than anybody asked for: others have their turn meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from a2a_harness import Sink, backend_for, root

from awaken.codec import dumps
from awaken.core.backend import (
    BackendRunResult,
    BackendStatusKind,
    RemoteError,
)
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
WORKING = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
DONE = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}


def artifact(id: str, *texts: str, append: bool = True, **more: Any) -> Json:
    parts = [{"text": text} for text in texts]
    return {
        "artifactUpdate": {
            "taskId": "t",
            "append": append,
            "artifact": {"artifactId": id, "parts": parts, **more},
        }
    }


def state(name: str) -> Json:
    return {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{name}"}}}


@contextmanager
def talker(events: Sequence[Json], sent: Json | None = None) -> Iterator[str]:
    """An agent, in threads of its own, whose only task tells `events`."""
    stream = b"".join(b"data: " + dumps(event) + b"\n\n" for event in [{"task": WORKING}, *events])

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer("application/json", dumps(sent or {"task": WORKING}))

        def do_GET(self) -> None:
            self._answer("text/event-stream", stream)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class LookedAt(FakeClock):
    """A clock that counts how often it is looked at, and may go on a little each time."""

    def __init__(self, step: float = 0.0) -> None:
        super().__init__()
        self.looks, self.step = 0, step

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks * self.step

    @property
    def gone(self) -> float:
        return self.looks * self.step


async def run(
    events: Sequence[Json], clock: FakeClock | None = None, sink: Sink | None = None
) -> BackendRunResult:
    with talker([*events, DONE]) as base:
        backend = backend_for(base, clock=clock or FakeClock())
        return await backend.execute_root(root("flood", "go", sink=sink))


async def test_others_have_their_turn_while_an_agent_sends_many_updates() -> None:
    """Between two turns of another task, only a few events are read."""
    clock, most = LookedAt(), 0

    async def neighbour() -> None:
        nonlocal most
        seen = clock.looks
        while True:
            await asyncio.sleep(0)
            most, seen = max(most, clock.looks - seen), clock.looks

    beside = asyncio.ensure_future(neighbour())
    result = await run([artifact("a", "word ") for _ in range(5_000)], clock)
    beside.cancel()
    assert result.response == "word " * 5_000
    assert 0 < most < 100


async def test_progress_is_told_the_less_often_the_more_there_is_of_it() -> None:
    """All that was made is told each time: a megabyte a second of it is enough."""
    clock, sink = LookedAt(step=0.1), Sink()
    await run([artifact("a", "x" * 10_000) for _ in range(300)], clock, sink)
    told = sum(len(dumps(content)) for content in sink.progress)
    assert len(sink.progress) > 10
    assert told < 1024 * 1024 * clock.gone + 12_000_000


async def test_a_task_that_goes_back_and_forth_is_not_told_each_time() -> None:
    sink = Sink()
    flips = [state("SUBMITTED"), state("WORKING")] * 500
    await run([artifact("a", "x" * 1_000_000), *flips], sink=sink)
    states = [content["state"] for content in sink.progress]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_SUBMITTED", "TASK_STATE_COMPLETED"]


async def test_what_many_updates_make_is_what_one_would_have_made() -> None:
    events = [artifact(f"a{n}", str(n), append=False, name=f"n{n}") for n in range(2_000)]
    events += [artifact(f"a{n}", "!", metadata={"b": n, "a": 1.5}) for n in range(0, 2_000, 2)]
    events += [artifact("a1", "other", append=False, description="anew")]
    result = await run(events)
    assert result.status.kind is BackendStatusKind.COMPLETED
    made = result.output.artifacts
    assert [one.id for one in made] == [f"a{n}" for n in range(2_000)]
    assert made[2].content == {
        "metadata": {"a": 1.5, "b": 2},
        "parts": [{"text": "2"}, {"text": "!"}],
    }
    assert (made[2].name, made[2].media_type) == ("n2", "text/plain")
    assert made[1].content == {"description": "anew", "parts": [{"text": "other"}]}
    assert made[1].name is None
    assert result.response == "0!"


def many_parts(n: int) -> Json:
    return artifact("a", *["x"] * 10_000)


def many_entries(n: int) -> Json:
    return artifact("a", metadata={f"{n}-{i}": 1 for i in range(10_000)})


@pytest.mark.parametrize("flood", [many_parts, many_entries])
async def test_a_task_has_only_so_many_parts(flood: Callable[[int], Json]) -> None:
    with pytest.raises(RemoteError, match="more than 50000 artifacts and parts"):
        await run([flood(n) for n in range(6)])


async def test_a_task_has_only_so_many_artifacts() -> None:
    made = [{"artifactId": str(n)} for n in range(50_001)]
    with talker([], {"task": {**WORKING, "artifacts": made}}) as base:
        backend = backend_for(base)
        with pytest.raises(RemoteError, match="more than 50000 artifacts and parts"):
            await backend.execute_root(root("artifacts", "go"))


async def test_an_artifact_may_be_replaced_as_often_as_one_likes() -> None:
    events = [artifact("a", *["x"] * 10_000, append=False) for _ in range(10)]
    result = await run(events)
    assert result.response == "x" * 10_000


async def test_an_answer_has_only_so_many_values() -> None:
    """Reading the protocol's types takes longer than reading their JSON, by far."""
    parts = [{"data": [0] * 250_000}]
    sent = {"task": {**WORKING, "artifacts": [{"artifactId": "a", "parts": parts}]}}
    with talker([], sent) as base:
        backend = backend_for(base)
        with pytest.raises(RemoteError, match="answered with more than 250000 values"):
            await backend.execute_root(root("values", "go"))
