"""SIGKILL while a model answers, in every dialect: the next process goes on with what had come.

Each dialect is killed at other events, and at one in three; `make proof` takes all of them
(`AWAKEN_KILL_EVERY=1`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cut_client import Screen, booker, problem_of
from cut_dialects import DIALECTS
from cut_stage import BOTH, CHUNK, END, Cut, Recordings, Stage, fixtures, has_spoken, parts_asked
from mock_server import MockServer

from awaken import Runtime
from awaken.core.event import RunEvent
from awaken.core.llm import LlmExecutor
from awaken.core.message import Message
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("cut_process.py")
EVERY = int(os.environ.get("AWAKEN_KILL_EVERY", "3"))


def places(dialect: str, events: Sequence[object]) -> range:
    """After how many events of an answer its process is killed."""
    return range([*DIALECTS].index(dialect) % EVERY, len(events), EVERY)


@pytest.fixture(scope="module")
def recordings() -> Iterator[Recordings]:
    with MockServer(fixtures(), chunk_size=CHUNK) as mock:
        yield Recordings(mock)


class Nursery:
    """Starts processes, and kills them."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        assert program.stdin is not None
        assert program.stdout is not None
        self._in, self._out = program.stdin, program.stdout

    async def start(self, dialect: str, url: str, folder: Path) -> int:
        """The id of a process that asks a question."""
        told = {"dialect": dialect, "url": url, "folder": str(folder)}
        print(json.dumps(told), file=self._in, flush=True)
        return int(await self._line())

    async def kept(self) -> None:
        """Wait until all that came of the answer is on disk."""
        assert await self._line() == "kept"

    async def kill(self, process: int) -> None:
        os.kill(process, signal.SIGKILL)
        while (line := await self._line()) != "dead":
            assert line == "kept"

    async def _line(self) -> str:
        return (await asyncio.to_thread(self._out.readline)).strip()


@pytest.fixture(scope="module")
def processes() -> Iterator[Nursery]:
    pipe = subprocess.PIPE
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        yield Nursery(program)
        program.kill()


class Ear:
    """Shows what a runtime tells."""

    def __init__(self) -> None:
        self.screen = Screen()

    async def emit(self, event: RunEvent) -> None:
        self.screen.show(event.event)

    async def close(self) -> None: ...


class Play:
    """Has the same conversation again and again, each time in two processes."""

    def __init__(self, dialect: str, model: LlmExecutor, stage: Stage, first: Nursery) -> None:
        self.stage = stage
        self._dialect, self._model, self._first = dialect, model, first

    async def run(self, folder: Path, part: str, *cuts: Cut, spoken: bool) -> str | None:
        """What is wrong with a conversation whose process was killed in the middle of an answer."""
        self.stage.begin({part: cuts})
        process = await self._first.start(self._dialect, self.stage.url, folder)
        await self.stage.holding.wait()
        if spoken:
            await self._first.kept()
        await self._first.kill(process)
        log, screen = await self._go_on(folder)
        if self.stage.problems:
            return self.stage.problems.pop()
        return problem_of(log, screen, folder / "bookings", unseen=0 if part == BOTH else 1)

    async def _go_on(self, folder: Path) -> tuple[Sequence[Message], Screen]:
        name, ear = DIALECTS[self._dialect].model, Ear()
        agent = booker(folder / "bookings", name)
        store = f"sqlite:///{folder / 'a.db'}"
        models = {name: self._model}
        async with Runtime([agent], models=models, store=store, recover=False) as runtime:
            context = await runtime.store.load_context("t")
            assert context is not None
            assert context.open_run is not None
            request = RunRequest(thread_id="t", continue_run_id=context.open_run.run_id)
            await runtime.engine.run(request, ear)
            return await runtime.messages("t"), ear.screen


@asynccontextmanager
async def opened(recordings: Recordings, processes: Nursery, dialect: str) -> AsyncIterator[Play]:
    async with Stage(recordings) as stage:
        model = DIALECTS[dialect].open(stage.url)
        yield Play(dialect, model, stage, processes)
        await model.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_kill_anywhere_in_an_answer_with_calls_changes_nothing(
    recordings: Recordings, processes: Nursery, tmp_path: Path, dialect: str
) -> None:
    """02/E5: what was said is not said again, a call that was whole is not asked for again."""
    events = await recordings.events(DIALECTS[dialect], BOTH)
    async with opened(recordings, processes, dialect) as play:
        for after in places(dialect, events):
            cut, came = Cut(after=after, held=True), events[:after]
            folder = tmp_path / f"{after}"
            assert await play.run(folder, BOTH, cut, spoken=has_spoken(came)) is None, cut
            assert [part for _, part, _ in play.stage.asked] == parts_asked(came), cut


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_kill_in_the_last_answer_changes_nothing(
    recordings: Recordings, processes: Nursery, tmp_path: Path, dialect: str
) -> None:
    events = await recordings.events(DIALECTS[dialect], END)
    async with opened(recordings, processes, dialect) as play:
        for after in places(dialect, events):
            cut, spoken = Cut(after=after, held=True), has_spoken(events[:after])
            assert await play.run(tmp_path / f"{after}", END, cut, spoken=spoken) is None, cut
            assert [part for _, part, _ in play.stage.asked] == [BOTH, END, END], cut
            assert (play.stage.asked[-1][2] > 0) == spoken, cut


@pytest.mark.parametrize("dialect", ["chat", "anthropic"])
async def test_a_kill_after_a_cut_changes_nothing(
    recordings: Recordings, processes: Nursery, tmp_path: Path, dialect: str
) -> None:
    """What came before the cut is kept with what came after it."""
    events = await recordings.events(DIALECTS[dialect], BOTH)
    begun = next(i for i in range(len(events)) if has_spoken(events[:i]))
    async with opened(recordings, processes, dialect) as play:
        for after in (1, len(events) // 2, len(events) - begun):
            cuts = Cut(after=begun), Cut(after=after, held=True)
            assert await play.run(tmp_path / f"{after}", BOTH, *cuts, spoken=True) is None, cuts
            first, *again = (said for _, part, said in play.stage.asked if part == BOTH)
            assert first == 0, cuts
            assert again, cuts
            assert min(again) > 0, cuts
