"""The life of a serving process: how it starts, drains, reloads and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from stream_kit import Client, Server, ask, failed_start, frames_of, serving, stream

from awaken.server.keys import add_key
from awaken.server.serve import bind_free
from awaken.stores.sqlite import SqliteStore

EXAMPLE = Path(__file__).parents[2] / "examples" / "served.py"

SLOW = Path(__file__).with_name("served_slow.py")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An app whose model ends its answer when there is a file `go` in the test's folder."""
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    return SLOW


# -- start ----------------------------------------------------------------------------------------


def test_one_command_serves_the_example(tmp_path: Path) -> None:
    """06/SV-35, without a key; the AI SDK's part is among that protocol's tests."""
    with serving(tmp_path / "f.db", target=EXAMPLE) as server:
        status, answer = ask(
            server.address, "POST", "/v1/threads/t/runs", {"messages": ["The weather in Rome?"]}
        )
        assert status == 202
        path = f"/v1/runs/{answer['run_id']}/events"
        with stream(server.address, path) as told:
            kinds = [frame.kind for frame in frames_of(told)]
        assert kinds[0] == "run_start"
        assert kinds[-1] == "run_finish"
        assert "tool_call_done" in kinds


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    """A port that is free, with the one above it."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                two.bind(("127.0.0.1", port + 1))
                return port


def test_a_start_that_cannot_work_says_why(tmp_path: Path, taken_port: int) -> None:
    """07/CO-5: an address that others can reach needs keys."""
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "app.py").write_text(
        "from awaken import Agent, Runtime\n"
        "agents = [Agent('a', model='demo')]\n"
        "still = Runtime(agents, recover=False)\n"
    )
    for words, told in (
        (["empty.py"], "has nothing to serve"),
        (["gone.py"], "there is no file 'gone.py'"),
        (["app.py:still", "--port", "0"], "recover=False"),
        (
            ["app.py:agents", "--host", "0.0.0.0"],
            "give --keys FILE or --keys store, or let everyone in",
        ),
        (["app.py:agents", "--port", str(taken_port)], f"port {taken_port} of 127.0.0.1 is taken"),
        (
            ["app.py:agents", "--port", "0", "--metrics-port", str(taken_port)],
            f"port {taken_port} of 127.0.0.1 is taken",
        ),
        (["app.py:agents", "--workers", "2", "--store", "memory:"], "a memory of its own"),
        (["app.py:agents", "--store", "sqlite:///no/such/f.db", "--port", "0"], "no/such"),
    ):
        code, said = failed_start(tmp_path, *words)
        assert code in (1, 2)
        assert told in said, said
        assert "Traceback" not in said


# -- health ---------------------------------------------------------------------------------------


def test_a_server_that_drains_takes_no_work_and_lives(tmp_path: Path, slow: Path) -> None:
    """06/SV-31, draining."""
    with serving(tmp_path / "f.db", target=slow) as server:
        assert ask(server.address, "GET", "/health/ready")[0] == 200
        ask(server.address, "POST", "/v1/threads/t/runs", {"messages": ["go"]})
        with stream(server.address, "/v1/threads/t/events") as told:
            assert any(f.kind in ("text_delta", "step_snapshot") for f in frames_of(told))
            server.send(signal.SIGTERM)
            while (ready := ask(server.address, "GET", "/health/ready"))[0] == 200:
                pass
            assert ready == (503, {"ready": False, "store": "ok", "lease": "ok", "draining": True})
            assert ask(server.address, "GET", "/health/live") == (200, {"live": True})
            refused = httpx2.post(f"{server.address}/v1/threads/u/runs", json={"messages": ["go"]})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            assert refused.headers["retry-after"] == "1"
            (tmp_path / "go").touch()
            rest = told.read().decode()
        assert rest.endswith(": closing\n\n")
        assert server.join() == 0


# -- end ------------------------------------------------------------------------------------------


def test_runs_of_a_server_that_is_stopped_go_on_elsewhere(tmp_path: Path, slow: Path) -> None:
    """06/SV-30, short: nothing is lost or doubled, and clients that come back miss nothing."""
    file = tmp_path / "f.db"
    clients = [Client(f"t{n}") for n in range(5)]
    first = Server(file, "--drain", "0.2", target=slow)
    for client in clients:
        client.submit(first.address)
        client.follow(first.address, 2)
    first.send(signal.SIGTERM)
    assert first.join() == 0
    with serving(file, target=slow) as second:
        (tmp_path / "go").touch()
        for client in clients:
            while not client.has_ended:
                client.follow(second.address)
            assert client.answers()[-1].endswith("done")


async def _submit(address: str, keys: list[str], killed: Server | None = None) -> dict[str, str]:
    """Submit a run under each key, all at once: the runs of those that were answered. A server that
    is to be killed gets its signal after the fifth answer."""
    found: dict[str, str] = {}

    async def submit(client: httpx2.AsyncClient, key: str) -> None:
        head = {"idempotency-key": key}
        with contextlib.suppress(httpx2.TransportError):
            asked = client.post("/v1/runs", json={"messages": ["Hello"]}, headers=head)
            found[key] = (await asked).json()["run_id"]
            if killed is not None and len(found) == 5:
                killed.kill()

    async with (
        httpx2.AsyncClient(base_url=address, timeout=550) as client,
        asyncio.TaskGroup() as group,
    ):
        for key in keys:
            group.create_task(submit(client, key))
    return found


def test_what_was_answered_outlives_a_kill_and_asking_again_doubles_nothing(tmp_path: Path) -> None:
    """06/SV-24, by a client whose server is killed (-9) while it submits."""
    file, keys = tmp_path / "f.db", [f"k{n}" for n in range(20)]
    first = Server(file, target=EXAMPLE)
    answered = asyncio.run(_submit(first.address, keys, killed=first))
    assert len(answered) >= 5
    with serving(file, target=EXAMPLE) as second:
        again = asyncio.run(_submit(second.address, keys))
        assert {key: again[key] for key in answered} == answered
        runs = {run: _ended(second.address, run) for run in again.values()}
        assert len(runs) == len(keys)
        assert set(runs.values()) == {"run_finish"}
        _, listed = ask(second.address, "GET", "/v1/runs?limit=100")
        assert {run["run_id"] for run in listed["items"]} == runs.keys()


def _ended(address: str, run: str) -> str:
    """The kind of a run's last event."""
    with stream(address, f"/v1/runs/{run}/events?deltas=false") as told:
        return [frame.kind for frame in frames_of(told)][-1]


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, slow: Path) -> None:
    file = tmp_path / "f.db"
    server, client = Server(file, "--drain", "600", target=slow), Client()
    client.submit(server.address)
    client.follow(server.address, 2)
    server.send(signal.SIGTERM)
    while ask(server.address, "GET", "/health/ready")[0] == 200:
        pass
    server.send(signal.SIGTERM)
    assert server.join() == 128 + signal.SIGTERM
    (tmp_path / "go").touch()
    with serving(file, target=slow) as second:
        while not client.has_ended:
            client.follow(second.address)
    assert client.answers()[-1].endswith("done")


def test_sighup_reads_the_agents_and_the_keys_again(tmp_path: Path) -> None:
    app, log, keys = tmp_path / "app.py", tmp_path / "f.log", tmp_path / "keys.toml"
    app.write_text("from awaken import Agent\na = Agent('old', model='demo')\n")
    key = add_key(keys, roles=["invoke"])
    with serving(tmp_path / "f.db", "--keys", str(keys), target=app) as server:
        app.write_text("from awaken import Agent\na = Agent('new', model='demo')\n")
        server.send(signal.SIGHUP)
        while "serving new from now on" not in log.read_text():
            pass
        head = {"authorization": f"Bearer {key}"}
        asked = {"agent_id": "new", "messages": ["Hello"]}
        assert ask(server.address, "POST", "/v1/threads/t/runs", asked, head)[0] == 202
        keys.write_text("no keys")
        server.send(signal.SIGHUP)
        while "nothing was reloaded" not in log.read_text():
            pass
        assert ask(server.address, "POST", "/v1/threads/t/runs", asked, head)[0] == 202


# -- several processes ----------------------------------------------------------------------------


def test_another_worker_goes_on_with_the_runs_of_one_that_died(
    tmp_path: Path, slow: Path, free_port: int
) -> None:
    """The parent tells it, and starts a new one, which has the figures' port of the dead one."""
    file, client = tmp_path / "f.db", Client()
    server = Server(file, "--workers", "2", "--metrics-port", str(free_port), target=slow)
    try:
        _check_figures(server, free_port)
        client.submit(server.address)
        client.follow(server.address, 2)
        owner = _owner_pid(file)
        os.kill(owner, signal.SIGKILL)
        (tmp_path / "go").touch()
        while not client.has_ended:
            client.follow(server.address)
        # The other worker goes on with what was kept of the answer, if a piece of it was.
        assert client.answers() in (["wait… done"], ["wait… wait… done"])
        server.send(signal.SIGTERM)
        assert server.join() == 0
        assert f"worker {owner} ended with -9" in file.with_suffix(".log").read_text()
    finally:
        server.kill()


def test_what_one_worker_has_signed_is_good_at_the_other(tmp_path: Path, slow: Path) -> None:
    """The word of `awaken console --link`, a session's token and a stream's, without a key file:
    every request here comes on a connection of its own, to either worker."""
    server = Server(tmp_path / "f.db", "--workers", "2", target=slow)
    try:
        assert ask(server.address, "POST", "/v1/threads", {"id": "t"})[0] == 201
        for _ in range(6):
            word = ask(server.address, "POST", "/v1/session/words", {})[1]["word"]
            status, made = ask(server.address, "POST", "/v1/session", {"word": word})
            assert status == 201
            head = {"authorization": f"Bearer {made['token']}"}
            assert ask(server.address, "GET", "/v1/me", None, head)[1]["has_session"]
            asked = {"thread_id": "t", "ttl": 30}
            token = ask(server.address, "POST", "/v1/tokens", asked, head)[1]["token"]
            head = {"authorization": f"Bearer {token}"}
            assert ask(server.address, "GET", "/v1/threads/t", None, head)[0] == 200
            assert ask(server.address, "POST", "/v1/session", {"word": word})[0] == 401
        server.send(signal.SIGTERM)
        assert server.join() == 0
    finally:
        server.kill()


def test_a_dead_parent_is_started_again_while_its_workers_end_their_steps(
    tmp_path: Path, slow: Path, free_port: int
) -> None:
    """Their ports are free at once."""
    file, client = tmp_path / "f.db", Client()
    words = ("--workers", "2", "--drain", "60", "--metrics-port", str(free_port))
    server = Server(file, *words, target=slow)
    workers = _pids(file)
    try:
        client.submit(server.address)
        client.follow(server.address, 2)
        server.kill()
        port = server.address.rpartition(":")[2]
        _wait_until_free(int(port), free_port, free_port + 1)
        server = Server(file, *words, "--port", port, target=slow)
        assert ask(server.address, "GET", "/health/ready")[0] == 200
        assert _owner_pid(file) in workers
        (tmp_path / "go").touch()
        while not client.has_ended:
            client.follow(server.address)
        assert client.answers() == ["wait… done"]
    finally:
        server.kill()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _wait_until_free(*ports: int) -> None:
    for port in ports:
        while True:
            with contextlib.suppress(OSError), socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("127.0.0.1", port))
                break


def _pids(file: Path) -> list[int]:
    """The processes that have the store open."""

    async def main() -> list[int]:
        store = SqliteStore(file)
        await store.open()
        pids = [process.pid for process in await store.processes() if process.pid is not None]
        await store.close()
        return [pid for pid in pids if pid != os.getpid()]

    return asyncio.run(main())


def _check_figures(server: Server, port: int) -> None:
    """Each worker has its figures at a port of its own, and there alone."""
    assert ask(server.address, "GET", "/metrics")[0] == 404
    _, document = ask(server.address, "GET", "/v1/openapi.json")
    assert "/metrics" not in document["paths"]
    for one in (port, port + 1):
        status, text = ask(f"http://127.0.0.1:{one}", "GET", "/metrics")
        assert status == 200
        assert "awaken_http_requests_total" in text
        assert ask(f"http://127.0.0.1:{one}", "GET", "/v1/threads")[0] == 404


def _owner_pid(file: Path) -> int:
    """The process that owns the thread."""

    async def main() -> int:
        store = SqliteStore(file)
        await store.open()
        thread = await store.load_thread("t")
        pids = [p.pid for p in await store.processes() if thread and p.owner == thread.owner]
        await store.close()
        (pid,) = pids
        return pid or 0

    return asyncio.run(main())


# -- figures --------------------------------------------------------------------------------------


def test_figures_are_what_prometheus_reads_and_the_log_keeps_secrets(tmp_path: Path) -> None:
    with serving(tmp_path / "f.db", "--log", "json", target=EXAMPLE) as server:
        ask(server.address, "GET", "/health/live?token=secret", {"password": "secret"})
        _, text = ask(server.address, "GET", "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (counted,) = families["awaken_http_requests"].samples
    assert counted.labels == {"route": "/health/live", "method": "GET", "status": "200"}
    assert counted.value == 1
    assert {"awaken_http_request_seconds", "awaken_streams", "awaken_runs"} <= families.keys()

    logged = (tmp_path / "f.log").read_text()
    assert "secret" not in logged
    first = json.loads(logged.splitlines()[0])
    assert first["request_id"]
    told = {name: first[name] for name in ("logger", "method", "path", "status", "principal")}
    assert told == {
        "logger": "awaken.server.requests",
        "method": "GET",
        "path": "/health/live",
        "status": 200,
        "principal": "local",
    }


# -- ports ----------------------------------------------------------------------------------------


def test_many_that_want_the_same_port_at_once_get_one_each(free_port: int) -> None:
    """`make run` or `awaken console`, started twice at once: between binding a port and listening
    on it, another program may be quicker."""
    start = threading.Barrier(12)

    def listen(_: int) -> socket.socket:
        start.wait()
        return bind_free("127.0.0.1", free_port)

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(listen, range(12)))
    ports = {one.getsockname()[1] for one in found}
    assert len(ports) == 12
    for port in ports:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    for one in found:
        one.close()
