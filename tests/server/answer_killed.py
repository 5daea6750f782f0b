"""The server is killed around an answer: before, during and after the commit of the answer, and of
each commit and effect that follows.

    python tests/server/answer_killed.py                 at each point, 3 times
    python tests/server/answer_killed.py --at 4,7        at these points

One client repeats an answer whose reply it did not get, the other does not; then each follows the
run from the last event that it has. A call whose answer was stored takes effect once, or the model
is told that the outcome of a `once` call is unknown. A client is given the run's end, unless its
answer was not stored: then the question is open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from server_kit import served

from awaken import Agent, Runtime, tool
from awaken.core.message import Role
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.suspension import Decision
from awaken.server import app
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

PATIENCE = 60

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["awaken.server", "awaken.testing", "awaken.stores.sqlite"])

Effect = Literal["once", "idempotent"]
EFFECTS: tuple[Effect, ...] = ("once", "idempotent")


class Play(NamedTuple):
    """What is played: the point of the kill (0: none), whether the client repeats its answer, and
    what the tool does."""

    point: int
    repeats: bool
    effect: Effect


# -- the server -------------------------------------------------------------------------------


class KilledStore(SqliteStore):
    """A store whose process is killed at a point; it counts from the first answer on."""

    def __init__(self, file: Path, point: int) -> None:
        super().__init__(file)
        self._point, self._counts, self.points = point, False, 0

    def reach(self) -> None:
        self.points += self._counts
        if self._counts and self.points == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        self._counts = True
        self.reach()
        deciding = asyncio.ensure_future(super().decide(thread_id, decisions, at_ms=at_ms))
        await asyncio.sleep(0)
        self.reach()
        number = await deciding
        self.reach()
        return number

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.reach()
        committing = asyncio.ensure_future(super().commit(commit))
        await asyncio.sleep(0)
        self.reach()
        committed = await committing
        self.reach()
        return committed


def serve(home: Path, play: Play, pipe: Connection) -> None:
    """Serve until killed, or until the parent sends something; sends the address, and at the end
    the number of points."""
    store = KilledStore(home / "a.db", play.point)

    @tool(needs_approval=True, effect=play.effect)
    async def pay() -> str:
        """Pay."""
        store.reach()
        with (home / "effects").open("a") as effects:
            effects.write("paid\n")
        store.reach()
        return "paid"

    call, done = tool_call_response("", "pay", "c", {}), text_response("done")
    model = FunctionModel(lambda asked: done if asked.messages[-1].role is Role.TOOL else call)

    async def main() -> None:
        runtime = Runtime([Agent("a", model=model, tools=[pay])], store=store)
        async with runtime, served(app(runtime)) as address:
            pipe.send(address)
            await asyncio.to_thread(pipe.recv)
        await store.close()
        pipe.send(store.points)

    asyncio.run(main())


class Server:
    def __init__(self, home: Path, play: Play) -> None:
        self._pipe, theirs = _FORKS.Pipe()
        self._process = _FORKS.Process(target=serve, args=(home, play, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.address: str = self._pipe.recv()

    def stop(self) -> int:
        """Stop the server; returns how many points it has passed."""
        self._pipe.send("stop")
        points: int = self._pipe.recv()
        self._process.join()
        self._pipe.close()
        return points

    def wait_killed(self) -> None:
        self._process.join(PATIENCE)
        self._pipe.close()
        assert self._process.exitcode == -signal.SIGKILL, "the point was not reached"


# -- the client -------------------------------------------------------------------------------


class Client:
    """It asks for a run, answers its question, and follows it."""

    def __init__(self) -> None:
        self.last_id, self.ends = "0", list[Any]()
        self.question: Any = None
        self.has_reply = False

    def ask(self, address: str) -> None:
        body = {"agent_id": "a", "messages": ["go"]}
        self._read(address, "POST", "/v1/threads/t/runs", body)
        (self.question,) = self.ends[-1]["tickets"]

    def answer(self, address: str) -> None:
        """Answer; notes whether a reply came: it is taken, or was before."""
        run_id = self.ends[0]["run_id"]
        named = {"ticket": self.question["key"], "digest": self.question["digest"]}
        body = [{**named, "action": "approve"}]
        key = {"idempotency-key": "d1"}
        try:
            path = f"/v1/runs/{run_id}/decisions"
            with self._send(address, "POST", path, body, key) as reply:
                status, text = reply.status, reply.read()
        except (HTTPException, OSError):
            return
        assert status in (200, 409), (status, text)
        self.has_reply = True

    def follow(self, address: str) -> int:
        """Follow the run from the last event on; returns the status of the last reply."""
        status = 200
        while status == 200 and len(self.ends) < 2:
            status = self._read(address, "GET", "/v1/threads/t/events?until=run", None)
        return status

    def _read(self, address: str, method: str, path: str, body: Any) -> int:
        headers = {"accept": "text/event-stream", "last-event-id": self.last_id}
        try:
            with self._send(address, method, path, body, headers) as reply:
                for line in reply:
                    name, _, value = line.decode().rstrip().partition(": ")
                    if name == "id":
                        self.last_id = value
                    elif name == "data":
                        event = json.loads(value)["event"]
                        if event["event_type"] == "run_finish":
                            self.ends.append(event)
                status: int = reply.status
                return status
        except (HTTPException, OSError):
            return 200  # it was cut off

    @contextmanager
    def _send(
        self, address: str, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Iterator[HTTPResponse]:
        connection = HTTPConnection(address.removeprefix("http://"), timeout=PATIENCE)
        text = None if body is None else json.dumps(body)
        with closing(connection):
            connection.request(method, path, text, {"content-type": "application/json", **headers})
            yield connection.getresponse()


# -- one play ---------------------------------------------------------------------------------


def play_once(play: Play) -> tuple[int, str, Sequence[str]]:
    """Play; returns the points that were passed, what became of it, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="awaken-answer-") as folder:
        home, client = Path(folder), Client()
        server = Server(home, play)
        client.ask(server.address)
        client.answer(server.address)
        if not play.point:
            client.follow(server.address)
            return server.stop(), "undisturbed", _faults(home, play, client, 204)
        server.wait_killed()
        server = Server(home, play._replace(point=0))
        while play.repeats and not client.has_reply:
            client.answer(server.address)
        status = client.follow(server.address)
        server.stop()
        faults = _faults(home, play, client, status)
        return 0, asyncio.run(_outcome(home)), faults


async def _outcome(home: Path) -> str:
    store = SqliteStore(home / "a.db")
    try:
        messages = await store.load_messages("t")
        return next(
            (m.text()[:40] for m in messages if m.role is Role.TOOL), "the question is open"
        )
    finally:
        await store.close()


def _faults(home: Path, play: Play, client: Client, status: int) -> list[str]:
    file = home / "effects"
    effects = len(file.read_text().splitlines()) if file.exists() else 0
    outcome = asyncio.run(_outcome(home))
    is_open, is_unknown = outcome == "the question is open", "unknown" in outcome
    faults: list[str] = []
    if is_open and (client.has_reply or effects):
        faults.append(f"the answer was taken and is lost, with {effects} effects")
    if not is_open and len(client.ends) != 2:
        faults.append(f"the client did not get the end; its last reply was {status}")
    if is_unknown and play.effect != "once":
        faults.append("an idempotent call is reported as unknown")
    if outcome == "paid" and not effects:
        faults.append("the call has succeeded without its effect")
    if effects > 1 and play.effect == "once":
        faults.append(f"{effects} effects of a `once` call")
    return faults


def play_all(points: Sequence[int], report: Callable[[str], object] = print) -> int:
    """Play with a kill at each of these points; returns how many plays went wrong."""
    sums, wrong = Counter[str](), 0
    for point in points:
        for repeats in (True, False):
            for effect in EFFECTS:
                _, outcome, faults = play_once(Play(point, repeats, effect))
                sums[outcome] += 1
                wrong += bool(faults)
                for fault in faults:
                    report(f"point {point}, repeats {repeats}, {effect}: {fault}")
    report(f"{sum(sums.values())} kills, {wrong} wrong; {dict(sums)}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a server around an answer.")
    parser.add_argument("--at", help="at these points")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    points, _, faults = play_once(Play(0, False, "once"))
    assert not faults, faults
    chosen = list(map(int, options.at.split(","))) if options.at else range(1, points + 1)
    return min(1, sum(play_all(chosen) for _ in range(options.times)))


if __name__ == "__main__":
    sys.exit(main())
