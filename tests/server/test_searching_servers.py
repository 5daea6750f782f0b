"""Servers keep the search index: one of them at a time, a second behind (07/CO-40)."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import httpx2
from stream_kit import Server, serving

PATIENCE = 60.0


def test_what_was_said_is_found_within_seconds_on_either_server(tmp_path: Path) -> None:
    """07/CO-40: messages, arguments, results and titles, within 5 s on a machine that has nothing
    else to do; and still if the process that indexes is killed."""
    file = tmp_path / "f.db"
    with serving(file) as one, serving(file) as two:
        say(one, "t1", "purple mugs")
        for server in (one, two):
            for text in ("purple", '"purple mugs"', "saw", "tool:look", "status:waiting", "t1"):
                assert find(server, text) == ["t1"], text
        rename(two, "t1", "Balloons")
        assert find(one, "balloons") == ["t1"]
        one.send(signal.SIGKILL)
        one.join()
        say(two, "t2", "green cups")
        assert find(two, "green") == ["t2"]
        assert find(two, "purple") == ["t1"]
        page = ask(two, "GET", "/v1/search?q=purple")
        assert page["is_complete"]
        (day,) = ask(two, "GET", "/v1/usage")["items"]
        assert day["runs"] == 2
        delete(two, "t2")
        assert search(two, "green") == []
        two.send(signal.SIGTERM)
        assert two.join() == 0


def say(server: Server, thread: str, text: str) -> None:
    asked = {"agent_id": "talker", "messages": [text]}
    ask(server, "POST", f"/v1/threads/{thread}/runs?wait=60", json=asked)


def rename(server: Server, thread: str, title: str) -> None:
    ask(server, "PATCH", f"/v1/threads/{thread}", json={"title": title})


def delete(server: Server, thread: str) -> None:
    ask(server, "DELETE", f"/v1/threads/{thread}?force=true")


def search(server: Server, text: str) -> list[str]:
    items = httpx2.get(f"{server.address}/v1/search", params={"q": text}, timeout=PATIENCE).json()
    return [item["thread_id"] for item in items["items"]]


def find(server: Server, text: str) -> list[str]:
    """What is found, as soon as something is."""
    until = time.monotonic() + PATIENCE
    while not (found := search(server, text)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def ask(server: Server, method: str, path: str, **more: Any) -> Any:
    answer = httpx2.request(method, f"{server.address}{path}", timeout=PATIENCE, **more)
    assert answer.status_code < 400, answer.text
    return answer.json() if answer.content else None
