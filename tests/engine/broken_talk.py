"""A conversation of which everything breaks: streams are cut, processes die while a model answers.

The model answers by what it is asked, as a real one does; the play knows what should be left of it
in the end. Run as `broken_talk.py FOLDER PLAY`, with a play as JSON, it is one life of a process
that dies by SIGKILL where the play says so, and prints "done" if it came to the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from awaken import Agent, Message, Runtime, tool
from awaken.codec import dumps, loads
from awaken.core.answer_stream import GO_ON
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import CompactionMode, ContextWindowPolicy, StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ProviderError, Stop
from awaken.core.message import Role
from awaken.core.store.commits import Fence, StreamLogEntry
from awaken.core.transcript import effective_view, is_summary
from awaken.errors import AwakenError
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, FunctionModel

PIECES = 4
"""In how many pieces a text comes."""


def assert_pairs(messages: Sequence[Message]) -> None:
    """Each call is followed at once by its result, and no result stands without its call."""
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert message.role is not Role.TOOL, "a result stands without its call"
        calls = [call.id for call in message.tool_calls or ()]
        while calls and rest and rest[0].role is Role.TOOL:
            calls.remove(rest.pop(0).tool_call_id or "")
        assert not calls, f"calls without a result: {calls}"


class Break(msgspec.Struct, frozen=True):
    """After how many events an answer breaks off: the wire is cut or the process dies, either of it
    at once or, if it is late, when all that came is kept."""

    how: str
    after: int
    late: bool = True


class Answer(msgspec.Struct, frozen=True):
    """How many calls the model makes, and what happens while it does; without calls it is the last
    one to a question."""

    calls: int = 0
    breaks: tuple[Break, ...] = ()
    speaks: bool = True


class Play(msgspec.Struct):
    """The answers to be given, and how far it has come; of calls, those that were heard whole."""

    turns: tuple[tuple[Answer, ...], ...]
    mode: CompactionMode = CompactionMode.KEEP_RECENT_RAW_SUFFIX
    begun: int = 0
    given: int = 0
    broken: int = 0
    heard: list[int] = []

    @property
    def answers(self) -> list[Answer]:
        return [answer for turn in self.turns for answer in turn]

    def text(self, number: int) -> str:
        return f"answer {number} " + "word " * 150 if self.answers[number].speaks else ""

    def calls(self, number: int) -> list[int]:
        """A number for each call of an answer, which is its argument."""
        return [number * 10 + at for at in range(self.answers[number].calls)]

    def next_break(self) -> Break | None:
        breaks = self.answers[self.given].breaks
        return breaks[self.broken] if self.broken < len(breaks) else None

    def next_answer(self, heard: Sequence[int]) -> None:
        self.heard += heard
        self.given, self.broken = self.given + 1, 0


class LastingStore(MemoryStore):
    """One that takes its time to write, as those do that outlive a process."""

    immediate = False

    async def quiet(self) -> None:
        """Wait until no piece is being written."""


class DiskStore(SqliteStore):
    """One that can be waited for."""

    _written: asyncio.Event | None = None

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        self._written = written = asyncio.Event()
        try:
            await super().append_stream(fence, entry)
        finally:
            written.set()

    async def quiet(self) -> None:
        if self._written is not None:
            await self._written.wait()


class Talk:
    """One thread, a small window, summaries, and a model that is hard to hear."""

    def __init__(
        self, play: Play, store: LastingStore | DiskStore, die: Callable[[], None]
    ) -> None:
        self.play, self.store, self.die = play, store, die
        self.ran: list[int] = []
        self._dying, self._streams = asyncio.Event(), 0
        self._dead: list[asyncio.Future[Any]] = []
        self.open()

    def open(self) -> None:
        """A process."""

        @tool
        async def deed(n: int) -> str:
            """Do it, once."""
            self.ran.append(n)
            return f"did {n} " + "thoroughly " * 100

        policy = ContextWindowPolicy(
            max_context_tokens=3000,
            max_output_tokens=500,
            min_recent_messages=2,
            enable_prompt_cache=True,
            autocompact_threshold=1500,
            compaction_mode=self.play.mode,
        )
        model = FunctionModel(self._speak, name="m")
        agent = Agent("a", model=model, tools=[deed], max_rounds=0, context_policy=policy)
        self.clock, self._failures = FakeClock(auto=True), 0
        self.runtime = Runtime([agent], store=self.store, clock=self.clock, recover=False)

    # -- the model ----------------------------------------------------------------------------

    async def _speak(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        assert_pairs(request.messages)
        if not request.tools:
            yield TextDelta(delta="what was said")
            return
        assert any(m.is_visible_user() for m in request.messages), "the task is always in sight"
        play, number = self.play, self.play.given
        said = ""
        if request.messages[-1].text() == GO_ON:
            said = request.messages[-2].text()
        assert play.text(number).startswith(said), "what was said is of this answer"
        # One failure more in a row, and the model is left alone for a while.
        breaks = play.next_break() if self._failures < 4 else None
        stop = breaks.after if breaks is not None else None
        whole: list[int] = []
        for at, event in enumerate(self._events(number, said)):
            if at == stop:
                break
            if isinstance(event, ToolCallDelta) and event.args_delta.endswith("}"):
                whole.append(play.calls(number)[len(whole)])
            yield event
        else:
            play.next_answer(whole)
            if stop is None:
                self._failures = 0
                return
            raise self._cut()
        assert breaks is not None
        play.broken += 1
        if breaks.late:
            await self._keep()
        if breaks.how == "die":
            self._dying.set()
            await asyncio.Event().wait()
        if whole:
            play.next_answer(whole)
        raise self._cut()

    def _cut(self) -> ProviderError:
        self._failures += 1
        return ProviderError("connection reset by peer")

    def _events(self, number: int, said: str) -> list[LlmStreamEvent]:
        rest = self.play.text(number)[len(said) :]
        size = len(rest) // PIECES + 1
        events: list[LlmStreamEvent] = [
            TextDelta(delta=rest[at : at + size]) for at in range(0, len(rest), size)
        ]
        calls = self.play.calls(number)
        # No call is written as it was before; all have the same ids, as some providers give them.
        self._streams += 1
        opening = "{" + "   " * self._streams + '"n": '
        for id, n in ((f"c{index}", n) for index, n in enumerate(calls)):
            events.append(ToolCallStart(id=id, name="deed"))
            events += [ToolCallDelta(id=id, args_delta=piece) for piece in (opening, f"{n}}}")]
        return [*events, Stop(reason=StopReason.TOOL_USE if calls else StopReason.END_TURN)]

    # -- the play -----------------------------------------------------------------------------

    async def act(self) -> None:
        """Go on with the play to its end."""
        try:
            for run in await self.runtime.recover():
                await self._until_done(run)
            while self.play.begun < len(self.play.turns):
                self.play.begun += 1
                text = f"question {self.play.begun} " + "word " * 200
                await self._until_done(self.runtime.run("a", text, thread="t"))
        finally:
            for task in self._dead:
                task.cancel()
                with suppress(asyncio.CancelledError, AwakenError):
                    await task

    async def _until_done(self, run: Awaitable[object]) -> None:
        while True:
            task, dying = asyncio.ensure_future(_result(run)), self._dying
            death = asyncio.ensure_future(dying.wait())
            await asyncio.wait([task, death], return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if task.done():
                await task
                return
            await self.store.quiet()
            if heard := _whole(await self._pieces()):
                self.play.next_answer(heard)
            self.die()
            self._dead.append(task)
            self._dying = asyncio.Event()
            self.open()
            (run,) = await self.runtime.recover()

    async def _pieces(self) -> Sequence[StreamLogEntry]:
        context = await self.store.load_context("t")
        assert context is not None
        return context.stream_log

    async def _keep(self) -> None:
        """Let a few seconds pass: by then all that has come is kept."""
        for _ in range(20):
            self.clock.advance(0.25)
            for _ in range(5):
                await asyncio.sleep(0)
            await self.store.quiet()

    async def problem(self) -> str | None:
        """What is wrong with what is left of it, if anything is."""
        play, log = self.play, await self.store.load_messages("t")
        assert_pairs(effective_view(log))
        answers = [m for m in log if m.role is Role.ASSISTANT]
        texts = [m.text() for m in answers]
        expected = [play.text(number) for number in range(len(play.answers))]
        if texts != expected:
            return f"the texts are {texts}"
        calls = [c.arguments["n"] for m in answers for c in m.tool_calls or ()]
        if calls != play.heard:
            return f"the calls are {calls}, heard were {play.heard}"
        users = [m for m in log if m.is_visible_user()]
        if len(users) != len(play.turns):
            return f"{len(users)} questions were kept"
        return None

    async def summaries(self) -> int:
        return sum(map(is_summary, await self.store.load_messages("t")))


async def _result(run: Awaitable[object]) -> object:
    return await run


def _whole(pieces: Sequence[StreamLogEntry]) -> list[int]:
    """The calls that are whole in what was kept."""
    written: dict[str, str] = {}
    for id, _, more in (call for piece in pieces for call in piece.calls):
        written[id] = written.get(id, "") + more
    return [loads(text)["n"] for text in written.values() if text.endswith("}")]


# -- one life ---------------------------------------------------------------------------------


async def live(folder: Path, turns: str) -> None:
    memory, deeds = folder / "play.json", folder / "deeds.json"
    play = loads(memory.read_bytes(), Play) if memory.exists() else loads(turns, Play)
    store = DiskStore(folder / "talk.db")
    await store.open()

    def die() -> None:
        memory.write_bytes(dumps(play))
        deeds.write_bytes(dumps(talk.ran))
        os.kill(os.getpid(), signal.SIGKILL)

    talk = Talk(play, store, die)
    if deeds.exists():
        talk.ran = loads(deeds.read_bytes())
    await talk.act()
    problem = await talk.problem()
    if problem is None and sorted(talk.ran) != sorted(play.heard):
        problem = f"done was {talk.ran}"
    await store.close()
    print(problem or "done")


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
