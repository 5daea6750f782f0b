"""Streams cut at every event, of every dialect, through its real SDK: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cut_client import Screen, booker, problem_of
from cut_dialects import DIALECTS
from cut_stage import BOTH, CHUNK, END, QUESTION, Cut, Recordings, Stage, fixtures
from mock_server import MockServer

from awaken import Runtime

pytestmark = pytest.mark.anyio

Cuts = Mapping[str, Sequence[Cut]]


@pytest.fixture(scope="module")
def recordings() -> Iterator[Recordings]:
    with MockServer(fixtures(), chunk_size=CHUNK) as mock:
        yield Recordings(mock)


class Play:
    """One runtime, for one conversation after the other."""

    def __init__(self, runtime: Runtime, stage: Stage, bookings: Path) -> None:
        self.stage = stage
        self.screen = Screen()
        self._runtime, self._bookings = runtime, bookings
        self._count = 0

    async def run(self, cuts: Cuts) -> str | None:
        """What is wrong with a conversation after all those cuts."""
        self.stage.begin(cuts)
        self.screen = Screen()
        self._bookings.write_text("")
        self._count += 1
        thread = f"t{self._count}"
        async with self._runtime.stream("a", QUESTION, thread=thread) as events:
            async for event in events:
                self.screen.show(event.event)
        if self.stage.problems:
            return self.stage.problems.pop()
        return problem_of(await self._runtime.messages(thread), self.screen, self._bookings)


@asynccontextmanager
async def opened(
    recordings: Recordings, folder: Path, *names: str, deserts: bool = False
) -> AsyncIterator[Play]:
    """A runtime whose agent asks a model of each of the dialects, in that order."""
    async with Stage(recordings, deserts=deserts) as stage:
        models = {DIALECTS[name].model: DIALECTS[name].open(stage.url) for name in names}
        bookings = folder / "bookings"
        agent = booker(bookings, list(models))
        async with Runtime([agent], models=models) as runtime:
            yield Play(runtime, stage, bookings)
        for model in models.values():
            await model.aclose()


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("unframed", [False, True], ids=["framed", "unframed"])
async def test_a_cut_anywhere_changes_nothing(
    recordings: Recordings, tmp_path: Path, name: str, unframed: bool
) -> None:
    """02/E3: at every event and in the middle of it, in the first answer and in the last one."""
    async with opened(recordings, tmp_path, name) as play:
        assert await play.run({}) is None
        for part in (BOTH, END):
            events = await recordings.events(DIALECTS[name], part)
            for after in range(len(events) + 1):
                for torn in (False, True):
                    cut = Cut(after=after, torn=torn, unframed=unframed)
                    assert await play.run({part: [cut]}) is None, f"{part}, {cut}"
