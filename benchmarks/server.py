"""What serving costs: `make bench-server`.

    python -m benchmarks.server            all rows
    python -m benchmarks.server --deltas 20000 --clients 50
    python -m benchmarks.server --only crowd        1,000 clients of one run; `make proof` does it

A server runs in a process of its own; the clients are in this one, so their work is not counted.
CPU is that of the server's process. A bare Starlette generator that sends the same bytes, delta by
delta, is measured in the same process and run: read the ratio, not the figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from awaken import Agent, Runtime
from awaken.core.event import RunEvent, TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.store.threads import ThreadQuery
from awaken.server import app
from awaken.server.client_ids import ClientIds
from awaken.server.event_frames import EventFrames
from awaken.server.http_protocol import LimitedHttpProtocol
from awaken.server.limits import Limits
from awaken.server.serve import bind

WORD = "token "
FREE = Limits(rate=1e6, burst=1_000_000)
"""The clients of a benchmark come all at once."""
_FORK = multiprocessing.get_context("fork")


class Writer:
    """A model that writes as many words as the message asks for, one in each turn of the loop. It
    rests now and then: clients of one that never does are always behind, and get snapshots."""

    name = "writer"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for n in range(int(request.messages[-1].text())):
            await asyncio.sleep(0 if n % 100 else 0.015)
            yield TextDelta(delta=WORD)
        yield Stop(reason=StopReason.END_TURN)


# -- the server -----------------------------------------------------------------------------------


class Benched:
    """Our application, with a bare stream at `/bare` and this process's use at `/use`."""

    def __init__(self, application: ASGIApp) -> None:
        self._app = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/bare":
            deltas = int(scope["query_string"])
            answer = StreamingResponse(_same_bytes(deltas), media_type="text/event-stream")
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _same_bytes(deltas: int) -> AsyncIterator[bytes]:
    frames = EventFrames("t", 0, ClientIds(""))
    for n in range(deltas):
        await asyncio.sleep(0)
        if n == 0:
            told = RunEvent(
                thread_id="t",
                run_id="01a1e521-b9d2-717f-bc59-0684a4f913b2",
                at_ms=1794845555217,
                live=(1, 1000),
                event=TextDelta(delta=WORD),
            )
            (frame,) = frames.encode(told)
        yield frame


def _use(runtime: Runtime) -> tuple[float, int, int]:
    """CPU seconds, resident bytes, and live runs."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return time.process_time(), pages * resource.getpagesize(), runtime.live_runs


def _serve(listening: socket.socket, control: Connection) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with Runtime([Agent("writer", model=Writer())]) as runtime:
            loop.add_reader(
                control.fileno(), lambda: control.send((control.recv(), _use(runtime))[1])
            )
            config = uvicorn.Config(
                Benched(app(runtime, limits=FREE)),
                http=LimitedHttpProtocol,
                lifespan="off",
                log_level="error",
                access_log=False,
            )
            await uvicorn.Server(config).serve([listening])

    uvloop.run(main())


class Served:
    """The server's process, seen from here. `delivered` is how many deltas a client got of the last
    run that was counted."""

    delivered = 0.0

    def __init__(self) -> None:
        listening = bind("127.0.0.1", 0)
        self.address = listening.getsockname()
        self._control, there = multiprocessing.Pipe()
        self.process = _FORK.Process(target=_serve, args=(listening, there), daemon=True)
        self.process.start()
        listening.close()
        while True:
            try:
                socket.create_connection(self.address).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)

    def use(self) -> tuple[float, int, int]:
        self._control.send(None)
        cpu, memory, runs = self._control.recv()
        return float(cpu), int(memory), int(runs)

    def cpu_of(self, deed: Callable[[], None]) -> float:
        before = self.use()[0]
        deed()
        return self.use()[0] - before

    def post(self, thread: str, text: str) -> Any:
        connection = HTTPConnection(*self.address)
        connection.request(
            "POST",
            f"/v1/threads/{thread}/runs",
            json.dumps({"messages": [text]}),
            {"content-type": "application/json"},
        )
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer


# -- clients --------------------------------------------------------------------------------------


def open_stream(address: Any, path: str, takes: int | None = None) -> socket.socket:
    """A client that asks for a stream. `takes` is how many bytes the kernel keeps for it."""
    client = socket.socket()
    if takes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, takes)
    client.connect(address)
    client.sendall(
        f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode()
    )
    return client


def read_all(clients: list[socket.socket], end: bytes) -> int:
    """Read every stream until its end is there. Returns how many deltas came: a client that is
    behind gets a snapshot in place of some."""
    deltas = 0
    waiting = selectors.DefaultSelector()
    tails = dict.fromkeys(clients, b"")
    for client in clients:
        waiting.register(client, selectors.EVENT_READ)
    while tails:
        for key, _ in waiting.select():
            ready: Any = key.fileobj
            read = ready.recv(1 << 20)
            tail = tails[ready] + read
            deltas += read.count(b'"event_type":"text_delta"')
            tails[ready] = tail[-len(end) :]
            if end in tail or not read:
                waiting.unregister(ready)
                del tails[ready]
                ready.close()
    return deltas


def our_streams(served: Served, thread: str, deltas: int, clients: int) -> Callable[[], None]:
    def run() -> None:
        # One delta first: the thread exists, and everyone listens before the run that counts.
        served.post(thread, "1")
        streams = [
            open_stream(served.address, f"/v1/threads/{thread}/events") for _ in range(clients)
        ]
        for stream in streams:
            told = b""
            while b"event: run_finish" not in told:
                told += stream.recv(1 << 16)
        served.post(thread, str(deltas))
        served.delivered = read_all(streams, b'"event_type":"run_finish"') / clients

    return run


# -- rows -----------------------------------------------------------------------------------------


def say(row: str, figure: str) -> None:
    print(f"{row:<58}{figure:>18}", flush=True)


def deltas_row(served: Served, deltas: int, clients: int) -> None:
    warm = our_streams(served, "warm", deltas, 1)
    warm()
    alone = min(served.cpu_of(partial(_run_alone, served, f"alone{n}", deltas)) for n in range(3))
    bare = min(served.cpu_of(lambda: _bare(served, deltas)) for _ in range(3))
    one = min(served.cpu_of(our_streams(served, f"one{n}", deltas, 1)) for n in range(3))
    to_one = served.delivered
    many = min(served.cpu_of(our_streams(served, f"many{n}", deltas, clients)) for n in range(3))
    further = (many - one) / (clients - 1) / deltas
    micro = 1e6 / deltas
    say("SV-33 a run's delta that no client follows, CPU", f"{alone * micro:.1f} µs")
    say("SV-33 a delta to one client, CPU (12 µs)", f"{one * micro:.1f} µs")
    say(f"SV-33 a delta to each further client, of {clients} (3 µs)", f"{further * 1e6:.2f} µs")
    say("SV-33 a delta of a bare Starlette generator, CPU", f"{bare * micro:.1f} µs")
    shares = f"{to_one / deltas:.0%}, {served.delivered / deltas:.0%}"
    say("SV-33   deltas that came by themselves, to one, to many", shares)
    say("SV-33   ours to one client, against bare", f"{one / bare:.2f}")
    say("SV-33   ours to each further client, against bare", f"{further * deltas / bare:.2f}")


def _run_alone(served: Served, thread: str, deltas: int) -> None:
    served.post(thread, str(deltas))
    quiet = 0
    while quiet < 5:  # the run may not have begun yet
        time.sleep(0.05)
        quiet = 0 if served.use()[2] else quiet + 1


def _bare(served: Served, deltas: int) -> None:
    read_all([open_stream(served.address, f"/bare?{deltas}")], b"0\r\n\r\n")


def idle_row(served: Served, streams: int) -> None:
    served.post("idle", "1")
    opened = [open_stream(served.address, "/v1/threads/idle/events") for _ in range(50)]
    time.sleep(1)
    before = served.use()[1]
    opened += [open_stream(served.address, "/v1/threads/idle/events") for _ in range(streams)]
    for stream in opened:
        told = b""
        while b"run_finish" not in told:
            told += stream.recv(1 << 16)
    cpu, after, _ = served.use()
    time.sleep(5)
    spent = served.use()[0] - cpu
    say(
        f"SV-33 an idle stream of {streams}, memory", f"{(after - before) / streams / 1024:.1f} KiB"
    )
    say(f"SV-33 {streams} idle streams, CPU in a second", f"{spent / 5 * 1000:.2f} ms")
    for stream in opened:
        stream.close()


def crowd_row(served: Served, deltas: int, clients: int) -> None:
    """06/SV-23: many clients of one run, of which one reads nothing until the run has ended.

    Raises:
        AssertionError: that client was not behind, or is not whole later; or a connection takes
            more than 300 KiB.
    """
    alone, _, _, _ = _run_of(served, "alone", deltas, 1)
    together, cpu, memory, slow = _run_of(served, "crowd", deltas, clients)
    say(f"SV-23 a run of {deltas} deltas with one client", f"{alone:.2f} s")
    say(f"SV-23 the same with {clients} clients, one reads nothing", f"{together:.2f} s")
    say("SV-23   CPU of the server meanwhile", f"{cpu:.2f} s")
    say("SV-23   memory of a connection", f"{memory / clients / 1024:.1f} KiB")
    say("SV-23   deltas that the one was given, in the end whole", f"{slow.deltas}")
    assert slow.text == WORD * deltas, "the client that read nothing is not whole"
    assert slow.deltas < deltas, "the client that read nothing was not behind"
    assert memory / clients < 300 * 1024, "a connection takes too much memory"


class Late:
    """What a client has that reads everything when the run has ended."""

    def __init__(self, told: bytes) -> None:
        self.text, self.deltas = "", 0
        # A stream has no CR: each is of the answer's head, or stands around the size of a chunk.
        frames, _, _ = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", told).rpartition(b"\n\n")
        for line in frames.split(b"\n"):
            if line.startswith(b"data: "):
                self._take(json.loads(line.removeprefix(b"data: "))["event"])

    def _take(self, event: dict[str, Any]) -> None:
        match event["event_type"]:
            case "step_start" | "stream_reset":
                self.text = ""
            case "step_snapshot":
                self.text = event["text"]
            case "text_delta":
                self.text += event["delta"]
                self.deltas += 1


def _run_of(
    served: Served, thread: str, deltas: int, clients: int
) -> tuple[float, float, int, Late]:
    """How long a run takes until its clients have it, how much CPU and memory the server has taken,
    and what the client that read nothing gets afterwards."""
    served.post(thread, "1")
    before = served.use()[1]
    path = f"/v1/threads/{thread}/events"
    slow = open_stream(served.address, path, takes=4096)
    streams = [open_stream(served.address, path) for _ in range(clients)]
    for stream in streams:
        told = b""
        while b"event: run_finish" not in told:
            told += stream.recv(1 << 16)
    began, spent = time.perf_counter(), served.use()[0]
    served.post(thread, str(deltas))
    read_all(streams, b'"event_type":"run_finish"')
    took = time.perf_counter() - began
    cpu, memory = served.use()[0] - spent, served.use()[1] - before
    slow.settimeout(60)
    rest = b""
    while rest.count(b'"event_type":"run_finish"') < 2 and (part := slow.recv(1 << 20)):
        rest += part
    slow.close()
    return took, cpu, memory, Late(rest)


def submissions_row(served: Served, count: int) -> None:
    connection = HTTPConnection(*served.address)
    body = json.dumps({"messages": ["1"]})

    def submit() -> None:
        for n in range(count):
            head = {"content-type": "application/json"}
            connection.request("POST", f"/v1/threads/s{n}/runs", body, head)
            connection.getresponse().read()

    began = time.perf_counter()
    cpu = served.cpu_of(submit)
    took = time.perf_counter() - began
    say("submissions a second, one connection, runs included", f"{count / took:.0f}")
    say("a submission and its run, CPU", f"{cpu / count * 1e6:.0f} µs")


def stop_row(runs: int) -> None:
    """SIGTERM to a server with so many runs, while another one serves the same file."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/awaken.db"
        first = _start(store)
        for n in range(runs):
            _post(first, f"r{n}")
        second = _start(store)
        ended, taken, left = asyncio.run(_stop(store, runs, first))
        second.kill()
        second.wait()
    say(f"SV-30 SIGTERM with {runs} runs: the process has ended after", f"{ended:.2f} s")
    say(
        "SV-30   a run goes on elsewhere after its release, at most", f"{taken:.2f} s ({left} lost)"
    )


STEPPER = """
import asyncio
from awaken import Agent, tool
from awaken.core.llm import Stop
from awaken.core.event import ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason

@tool(effect="read")
async def look() -> str:
    \"\"\"Looks.\"\"\"
    await asyncio.sleep(0.3)
    return "seen"

class Stepper:
    name = "stepper"

    async def execute_stream(self, request):
        yield ToolCallStart(id=f"c{len(request.messages)}", name="look")
        yield ToolCallDelta(id=f"c{len(request.messages)}", args_delta="{}")
        yield Stop(reason=StopReason.TOOL_USE)

agent = Agent("stepper", model=Stepper(), tools=[look], max_rounds=0)
"""


class Started(subprocess.Popen[str]):
    """`awaken serve` on a store; `address` is where."""

    address: tuple[str, int]


def _start(store: str) -> Started:
    app_file = Path(store.removeprefix("sqlite:///")).with_name("stepper.py")
    app_file.write_text(STEPPER)
    words = [sys.executable, "-m", "awaken.cli", "serve", str(app_file), "--port", "0"]
    process = Started(
        [*words, "--store", store, "--log", "none"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    host, _, port = process.stdout.readline().split("http://")[1].strip().partition(":")
    process.address = (host, int(port))
    return process


def _post(server: Started, thread: str) -> None:
    connection = HTTPConnection(*server.address)
    head = {"content-type": "application/json"}
    connection.request("POST", f"/v1/threads/{thread}/runs", '{"messages": ["go"]}', head)
    connection.getresponse().read()
    connection.close()


async def _stop(store: str, runs: int, first: Started) -> tuple[float, float, int]:
    """Stop a server. Returns the seconds until it has ended, the longest that a run was without an
    owner, and how many runs are not open any more."""
    async with Runtime([], store=store, recover=False) as runtime:
        query = ThreadQuery(limit=runs)
        owner = (await runtime.list_threads(query)).items[0].owner
        began = time.perf_counter()
        first.terminate()
        ended, free, taken = 0.0, dict[str, float](), dict[str, float]()
        while len(taken) < runs or not ended:
            threads, now = (await runtime.list_threads(query)).items, time.perf_counter() - began
            for thread in threads:
                if thread.owner is None:
                    free.setdefault(thread.id, now)
                elif thread.owner != owner:
                    taken.setdefault(thread.id, now)
            if not ended and first.poll() is not None:
                ended = now
            await asyncio.sleep(0.01)
        longest = max(at - free.get(id, at) for id, at in taken.items())
        return ended, longest, runs - sum(thread.open_run_id is not None for thread in threads)


def import_row() -> None:
    """The least CPU of five processes that import the server, less that of a bare interpreter."""
    for what, code in (
        ("import awaken.server (200 ms)", "import awaken.server"),
        ("from awaken.server import app", "from awaken.server import app"),
    ):
        say(f"{what}, CPU", f"{(_process(code) - _process('pass')) * 1000:.0f} ms")


def _process(code: str) -> float:
    took: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


ROWS = ("import", "deltas", "submissions", "idle", "crowd", "stop")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--deltas", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=21)
    parser.add_argument("--idle", type=int, default=1_000)
    parser.add_argument("--only", choices=ROWS, action="append", help="these rows alone")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    many = min(options.idle, min(hard, 8192) - 200)
    wanted = options.only or ROWS
    if "import" in wanted:
        import_row()
    served = Served()
    rows: dict[str, Callable[[], None]] = {
        "deltas": lambda: deltas_row(served, options.deltas, options.clients),
        "submissions": lambda: submissions_row(served, 300),
        "idle": lambda: idle_row(served, many),
        "crowd": lambda: crowd_row(served, 2_000, many),
    }
    try:
        for name, row in rows.items():
            if name in wanted:
                row()
    finally:
        served.process.kill()
    if "stop" in wanted:
        stop_row(100)
    return 0


if __name__ == "__main__":
    sys.exit(main())
