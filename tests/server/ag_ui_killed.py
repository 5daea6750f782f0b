"""06/SV-21 for AG-UI: the server is killed behind a frame; another one goes on with the run.

    python tests/server/ag_ui_killed.py                  killed behind each frame
    python tests/server/ag_ui_killed.py --at 3,17        behind these frames

The run has three steps, a tool, and an approval. The client connects again, answers what it is
asked, and must end with the same messages as undisturbed: no part twice, none missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ag_ui_client import Client
from stream_kit import Server, serving

T = "t"


class Page:
    """A page that talks to an agent over any number of connections."""

    def __init__(self) -> None:
        self.messages: list[Any] = [{"id": "u1", "role": "user", "content": "go"}]
        self.interrupts: list[Any] = []
        self.frames = 0
        self.has_ended = False
        self._posts = 0

    def ask(self, address: str, most: int | None = None) -> None:
        """Ask for a run, or answer what the last one has asked."""
        self._posts += 1
        resume = [
            {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
            for asked in self.interrupts
        ]
        body = {
            "threadId": T,
            "runId": f"r{self._posts}",
            "protocolVersion": "1.0",
            "messages": self.messages,
            **({"resume": resume} if resume else {}),
        }
        self._read(address, "POST", "/v1/ag-ui", json.dumps(body), most)

    def connect(self, address: str) -> None:
        path = f"/v1/ag-ui/threads/{T}/connect?protocolVersion=1.0"
        self._read(address, "GET", path, None, None)

    def _read(
        self, address: str, method: str, path: str, body: str | None, most: int | None
    ) -> None:
        client = Client(self.messages)
        connection = HTTPConnection(urlsplit(address).netloc, timeout=550)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            for line in answer:
                if line.startswith(b"data: "):
                    client.take([json.loads(line.removeprefix(b"data: "))])
                    self.frames += 1
                    if most is not None and self.frames >= most:
                        break
        except (HTTPException, OSError):
            pass  # it was cut off
        finally:
            connection.close()
        self.messages = client.messages
        self._note_end(client.events)

    def _note_end(self, events: list[Any]) -> None:
        last: Any = events[-1] if events else {"type": ""}
        assert last["type"] != "RUN_ERROR", last
        outcome = last.get("outcome", {}) if last["type"] == "RUN_FINISHED" else {}
        self.interrupts = outcome.get("interrupts", [])
        self.has_ended = outcome.get("type") == "success"

    def finish(self, address: str) -> None:
        while not self.has_ended:
            if self.interrupts:
                self.ask(address)
            else:
                self.connect(address)

    def told(self) -> list[Any]:
        """The messages, without the ids that differ each time."""
        return [
            {
                "role": message["role"],
                "content": message.get("content") or "",
                "calls": [
                    (call["function"]["name"], json.loads(call["function"]["arguments"]))
                    for call in message.get("toolCalls", ())
                ],
            }
            for message in self.messages
        ]


@contextmanager
def new_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="awaken-killed-") as home:
        yield Path(home) / "f.db"


def undisturbed() -> Page:
    with new_file() as file, serving(file) as server:
        page = Page()
        page.ask(server.address)
        page.finish(server.address)
        return page


def kill_behind(frame: int) -> Page:
    """Kill the server behind a frame; the page goes on with another one."""
    with new_file() as file:
        page, first = Page(), Server(file)
        try:
            page.ask(first.address, frame)
            if page.interrupts and page.frames < frame:
                page.ask(first.address, frame)
        finally:
            first.kill()
        with serving(file) as second:
            page.finish(second.address)
            held = [message["id"] for message in page.messages]
            page.connect(second.address)
            assert [message["id"] for message in page.messages] == held, "a reload shows others"
        return page


def fails(frame: int, expected: list[Any]) -> bool:
    try:
        told = kill_behind(frame).told()
        assert told == expected, f"behind frame {frame}: {json.dumps(told, indent=1)}"
    except Exception:
        traceback.print_exc()
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--at", help="behind which frames, such as 3,17")
    options = parser.parse_args()
    page = undisturbed()
    places = [int(n) for n in options.at.split(",")] if options.at else range(1, page.frames + 1)
    failed = [frame for frame in places if fails(frame, page.told())]
    print(f"frames {page.frames}, kills {len(places)}, not whole {len(failed)} {failed or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
