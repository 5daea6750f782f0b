"""Servers that are replaced, or die, under open pages of other protocols: no page takes the part of
an answer that it has for the whole."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from stream_kit import Server, ask, frames_of, serving, stream

from browser_kit import KIT, NODE

HERE = Path(__file__).parent
GO = [{"type": "text", "text": "go"}]
CHAT = {"id": "c", "messages": [{"id": "m1", "role": "user", "parts": GO}]}
RUN = {"threadId": "r", "runId": "r1", "messages": [{"id": "m2", "role": "user", "content": "go"}]}
STREAMS = {"/v1/ai-sdk/chat": CHAT, "/v1/ag-ui": RUN}
AGAIN = ("/v1/ai-sdk/chat/c/stream", "/v1/ag-ui/threads/r/connect")
OWN = ("/v1/threads/c/events", "/v1/tickets/events")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    return HERE / "served_stepper.py"


def test_a_server_that_ends_cuts_the_streams_of_other_protocols_and_opens_none(
    tmp_path: Path, slow: Path
) -> None:
    """Their clients take a regular end for the end of the run. An `EventSource` does not, and comes
    back by itself."""
    with (
        serving(tmp_path / "f.db", target=slow) as server,
        httpx2.Client(base_url=server.address, timeout=60) as kept,
    ):
        for path, body in STREAMS.items():
            with kept.stream("POST", path, json=body) as begun:
                lines = begun.iter_lines()
                assert any("wait" in line for line in lines)
                ask(server.address, "GET", "/health/ready")
        with (
            kept.stream("GET", AGAIN[0]) as chat,
            kept.stream("GET", AGAIN[1]) as run,
            stream(server.address, "/v1/threads/c/events") as own,
        ):
            assert any(f.kind in ("text_delta", "step_snapshot") for f in frames_of(own))
            assert [chat.status_code, run.status_code] == [200, 200]
            server.send(signal.SIGTERM)
            while ask(server.address, "GET", "/health/ready")[0] == 200:
                pass
            for path in AGAIN:
                refused = kept.get(path)
                assert refused.status_code == 503
                assert refused.headers["connection"] == "close"
                assert refused.headers["retry-after"] == "1"
            for path in OWN:  # an `EventSource` never comes back after a refusal
                with kept.stream("GET", path, headers={"accept": "text/event-stream"}) as last:
                    assert (last.status_code, last.headers["connection"]) == (200, "close")
            (tmp_path / "go").touch()
            for cut in (chat, run):
                with pytest.raises(httpx2.RemoteProtocolError):
                    cut.read()
            assert own.read().decode().endswith(": closing\n\n")
        assert server.join() == 0


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the pages of all clients show in the end. The first server is stopped in the middle of
    the answer, and the second one killed."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("rolling")
        patch.setenv("SIGNALS", str(folder))
        return play(folder)


def play(folder: Path) -> Any:
    def start() -> Server:
        return Server(folder / "f.db", "--drain", "0.1", target=HERE / "served_teller.py")

    servers = [start()]
    command, pipe = [str(NODE), "rolling.mjs"], subprocess.PIPE
    with subprocess.Popen(command, cwd=KIT, stdin=pipe, stdout=pipe, text=True) as pages:
        assert pages.stdin is not None
        assert pages.stdout is not None
        try:
            print(servers[0].address, file=pages.stdin, flush=True)
            ends = (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)
            for number, (word, (end, status)) in enumerate(
                zip(("two", "three"), ends, strict=True)
            ):
                assert json.loads(pages.stdout.readline()) == {"words": number + 1}
                servers.append(start())
                print(servers[-1].address, file=pages.stdin, flush=True)
                servers[-2].send(end)
                assert servers[-2].join() == status
                (folder / word).touch()
            return json.loads(pages.stdout.readline())
        finally:
            pages.kill()
            for server in servers:
                server.kill()


CLIENTS = (
    "useChat",
    "ai 6",
    "ai 6.0.230",
    "ai 7",
    "ag-ui 1.0",
    "ag-ui 0.0.59",
    "ag-ui 1.0, connecting",
    "ag-ui 0.0.59, connecting",
)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_page_follows_its_run_over_a_rolling_restart(shown: Any, client: str) -> None:
    page = shown[client]
    assert page["text"] == "one two three."
    assert page["status"] == "ready"
    assert len(page["breaks"]) >= 2  # each server has cut it off as it ended
