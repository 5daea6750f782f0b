"""A node that is stopped (SIGSTOP) for longer than its lease, at an exact place, and goes on.

    python tests/recovery/stopped_owner.py --lease 3

The node stops itself: in the middle of a model's answer, of a tool, before a commit is sent, when
it was made and before the call starts whose intent it was. Meanwhile another node takes its run
over and ends it. Then the first one gets SIGCONT. It must start no effect of that run any more, and
none of its commits may be written; it says once that it was away, and takes new work.

The same must hold of a node whose event loop is blocked by a tool for 40 s (06/CL-9). One that is
blocked for 10 s keeps its run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from awaken import Agent, Runtime, ToolCallContext, tool  # noqa: E402
from awaken.core.event import RunFinish, TextDelta, ToolCallDelta, ToolCallStart  # noqa: E402
from awaken.core.inference import StopReason  # noqa: E402
from awaken.core.lifecycle import RunStatus  # noqa: E402
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop  # noqa: E402
from awaken.core.message import Role  # noqa: E402
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit  # noqa: E402
from awaken.core.value import Value  # noqa: E402
from awaken.stores.postgres import PostgresStore, lease  # noqa: E402
from postgres_kit import running_postgres  # noqa: E402

PLACES = ("answer", "tool", "before commit", "after intent", "after outcome")
CALLS = 3
"""Of each run; the node stops at the second one."""
AT = 1
STOPPED = "stopped"


class Figures(Value, frozen=True, kw_only=True):
    """What came of one stop."""

    started_after: int
    """Effects of the run that the node began after SIGCONT: calls, and questions to the model."""
    doubled: int
    ends: int
    """How often the run has ended."""
    output: str
    said: int
    """How often the node said that it was away."""
    has_new_work: bool


class Ledger:
    """The world outside: one line for each effect, with the node that began it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.goes_on = path.with_suffix(".goes-on")
        """This file is there when a node that is blocked may go on."""

    def note(self, *words: object) -> None:
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self) -> list[list[str]]:
        return [line.split(" ") for line in self.path.read_text().splitlines()]

    async def until(self, *words: str) -> None:
        while [*words] not in (line[: len(words)] for line in self.lines()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Stops:
    """Stops this process when it first comes to its place, or blocks its event loop, for so many
    seconds at most."""

    def __init__(self, place: str, ledger: Ledger, blocked: float = 0.0) -> None:
        self._place, self._ledger, self._blocked = place, ledger, blocked

    def reach(self, place: str) -> None:
        if place == self._place:
            self._place = ""
            self._ledger.note(STOPPED)
            until = time.monotonic() + self._blocked
            if self._blocked:
                while time.monotonic() < until and not self._ledger.goes_on.exists():
                    time.sleep(0.01)
            else:
                os.kill(os.getpid(), signal.SIGSTOP)


class Model:
    """Asks for one call after another, and then says that it is done."""

    name = "planned"

    def __init__(self, who: str, ledger: Ledger, stops: Stops) -> None:
        self._who, self._ledger, self._stops = who, ledger, stops

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        done = sum(message.role is Role.TOOL for message in request.messages)
        self._ledger.note(self._who, "asks", _thread_of(request), done)
        yield TextDelta(delta="done" if done == CALLS else "next")
        if done == AT:
            self._stops.reach("answer")
        if done == CALLS:
            yield Stop(reason=StopReason.END_TURN)
        else:
            yield ToolCallStart(id=f"c{done}", name="work")
            yield ToolCallDelta(id=f"c{done}", args_delta=f'{{"number": {done}}}')
            yield Stop(reason=StopReason.TOOL_USE)


def _thread_of(request: InferenceRequest) -> str:
    return (request.routing_key and request.routing_key.thread_id) or ""


class StoppingStore(PostgresStore):
    """Comes to its places around the commits of the second call."""

    stops: Stops
    ledger: Ledger

    async def commit(self, commit: ThreadCommit) -> Committed:
        phases = [call.phase for call in commit.calls if call.call_id == f"c{AT}"]
        is_intent = CallPhase.INTENT in phases
        is_outcome = CallPhase.SUCCEEDED in phases
        if is_outcome:
            self.stops.reach("before commit")
        made = await super().commit(commit)
        if is_intent:
            self.stops.reach("after intent")
        if is_outcome:
            self.stops.reach("after outcome")
        return made


def worker(who: str, ledger: Ledger, stops: Stops) -> Agent:
    @tool
    async def work(number: int, ctx: ToolCallContext) -> str:
        """Write a line."""
        identity = ctx.run_identity
        ledger.note(who, "works", identity.thread_id, number, ctx.idempotency_key)
        await asyncio.sleep(0)
        if number == AT:
            stops.reach("tool")
        await asyncio.sleep(0)
        return f"worked {number}"

    return Agent("worker", model=Model(who, ledger, stops), tools=[work])


async def node(address: str, path: str, place: str, blocked: str, patience: str) -> None:
    """Run one thread after another, as they are named on standard input, until that ends."""
    lease.PATIENCE = float(patience)
    ledger = Ledger(Path(path))
    stops = Stops(place, ledger, float(blocked))
    store = StoppingStore(address)
    store.stops, store.ledger = stops, ledger
    async with Runtime([worker("first", ledger, stops)], store=store) as runtime:
        while line := await asyncio.to_thread(sys.stdin.readline):
            await runtime.submit("worker", "work", thread=line.strip())
            await asyncio.sleep(0)
    await store.close()


async def stop_one(
    address: str, place: str, *, blocked: float = 0.0, patience: float = lease.PATIENCE
) -> Figures:
    """
    Args:
        blocked: seconds for which the event loop is blocked, unless another node ends the run
            before; without, the process is stopped.
        patience: seconds after which a blocked event loop counts as hung.
    """
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "ledger"))
        ledger.path.touch()
        first = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, "--node", address, str(ledger.path), place),
            *(str(blocked), str(patience)),
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert first.stdin is not None
        assert first.stderr is not None
        try:
            first.stdin.write(b"t\n")
            await ledger.until(STOPPED)
            nobody = Stops("", ledger)
            async with Runtime([worker("second", ledger, nobody)], store=address) as second:
                await _until_done(second, "t")
                before = len(ledger.lines())
                first.send_signal(signal.SIGCONT)
                ledger.goes_on.touch()
                await _is_back(second, first.pid)
            # Now nobody else is there to do it.
            first.stdin.write(b"u\n")
            async with Runtime([], store=address, recover=False) as outside:
                await _until_done(outside, "u")
                first.stdin.close()
                log = (await first.stderr.read()).decode()
                await first.wait()
                assert first.returncode == 0, log
                return await _figures(outside, ledger, before, log)
        finally:
            if first.returncode is None:
                first.kill()
                await first.wait()


async def _is_back(runtime: Runtime, pid: int) -> None:
    """Wait until the node has renewed its lease."""
    while pid not in {process.pid for process in await runtime.store.processes()}:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _until_done(runtime: Runtime, thread: str) -> None:
    while True:
        run = await runtime.store.latest_run(thread)
        if run is not None and run.status is RunStatus.DONE:
            return
        await asyncio.sleep(0.02)


async def _figures(runtime: Runtime, ledger: Ledger, before: int, log: str) -> Figures:
    lines = ledger.lines()
    works = [line[4] for line in lines if line[1:2] == ["works"]]
    ends = [e async for e in runtime.events("t", follow=False) if isinstance(e.event, RunFinish)]
    run = await runtime.store.latest_run("t")
    assert run is not None
    return Figures(
        started_after=sum(line[0] == "first" and line[2] == "t" for line in lines[before:]),
        doubled=len(works) - len(set(works)),
        ends=len(ends),
        output=run.final_output or "",
        said=log.count("had run out"),
        has_new_work=["first", "works", "u", "0"] in (line[:4] for line in lines[before:]),
    )


WANTED = Figures(started_after=0, doubled=0, ends=1, output="done", said=1, has_new_work=True)


KEPT = Figures(started_after=0, doubled=0, ends=1, output="done", said=0, has_new_work=True)
"""A node that was blocked for a short time has never been away, and ends its run itself."""


async def main(seconds: float) -> int:
    wrong = 0
    stops = [(place, 0.0, WANTED) for place in PLACES]
    with running_postgres() as server:
        for place, blocked, wanted in (*stops, ("tool", 10.0, KEPT), ("tool", 40.0, WANTED)):
            began = time.monotonic()
            figures = await stop_one(server.address(lease=seconds), place, blocked=blocked)
            name = f"{place}, blocked for {blocked:g} s" if blocked else place
            print(f"{name}, {time.monotonic() - began:.1f} s: {figures}", flush=True)
            wrong += figures != wanted
    return int(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        asyncio.run(node(*sys.argv[2:7]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--lease", type=float, default=3.0)
        sys.exit(asyncio.run(main(parser.parse_args().lease)))
