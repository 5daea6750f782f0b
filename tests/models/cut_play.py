"""The same conversation again and again, over a wire that breaks in another place each time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from cut_client import Screen, booker, problem_of
from cut_dialects import BROKEN
from cut_stage import QUESTION, Cut, Recordings, Stage

from awaken import Runtime
from awaken.core.llm import LlmExecutor

Cuts = Mapping[str, Sequence[Cut]]


class Play:
    """Has the same conversation again and again."""

    def __init__(self, stage: Stage, models: Mapping[str, LlmExecutor], bookings: Path) -> None:
        self.stage = stage
        self.screen = Screen()
        self._models, self._bookings = models, bookings

    async def run(self, cuts: Cuts) -> str | None:
        """What is wrong with a conversation after all those cuts."""
        self.stage.begin(cuts)
        self.screen = Screen()
        self._bookings.write_text("")
        agent = booker(self._bookings, list(self._models))
        async with Runtime([agent], models=self._models) as runtime:
            async with runtime.stream("a", QUESTION, thread="t") as events:
                async for event in events:
                    self.screen.show(event.event)
            log = await runtime.messages("t")
        if self.stage.problems:
            return self.stage.problems.pop()
        return problem_of(log, self.screen, self._bookings)


@asynccontextmanager
async def opened(
    recordings: Recordings, folder: Path, *names: str, deserts: bool = False
) -> AsyncIterator[Play]:
    """An agent that asks a model of each of the dialects, in that order."""
    async with Stage(recordings, deserts=deserts) as stage:
        models = {BROKEN[name].model: BROKEN[name].open(stage.url) for name in names}
        yield Play(stage, models, folder / "bookings")
        for model in models.values():
            await model.aclose()


def cuts_in(events: Sequence[bytes], every: int = 1) -> Iterator[Cut]:
    """A cut after every so many bytes; every other one looks like the end of the body."""
    for at in range(0, sum(map(len, events)) + 1, every):
        yield Cut(at=at, unframed=at // every % 2 == 1)
