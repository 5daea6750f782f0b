"""A stage for runs: a runtime over a store in memory, what it told, and what must always hold."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from answer_kit import by_key
from awaken import Agent, Command, PhaseContext, Registrar, RunRequest, Runtime
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    CollectingSink,
    Error,
    InferenceComplete,
    ReasoningDelta,
    RunEvent,
    RunFinish,
    RunStart,
    StateSnapshot,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.core.intercept import ToolInterceptPayload
from awaken.core.lifecycle import Phase, Suspended
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role, as_messages
from awaken.core.run import AgentRunResult, RunRecord
from awaken.core.state.command import EffectSpec
from awaken.core.state.key import StateKey
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.store import Store
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel
from awaken.testing.models import FunctionAnswer, ScriptedAnswer

E = TypeVar("E")

THREAD = "t"


# -- what a model may be asked ----------------------------------------------------------------


def assert_valid_transcript(messages: Sequence[Message]) -> None:
    """What every provider demands: each call answered right behind it, nothing else answered."""
    open_calls: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in open_calls, f"an answer to no call: {message}"
            open_calls.remove(message.tool_call_id)
            continue
        assert not open_calls, f"calls without a result: {open_calls}"
        if message.role is Role.ASSISTANT:
            assert message.content or message.tool_calls, "an assistant message without anything"
        open_calls = [call.id for call in message.tool_calls or ()]
    assert not open_calls, f"calls without a result: {open_calls}"


class CheckedModel(FunctionModel):
    """Follows a script, and takes only conversations a real model would take.

    An exception in the script is raised; a function is asked for the answer.
    """

    def __init__(
        self, *script: ScriptedAnswer | Exception | Callable[[InferenceRequest], FunctionAnswer]
    ) -> None:
        super().__init__(self._next, name="checked")
        self.requests: list[list[Message]] = []
        self.asked: list[InferenceRequest] = []
        self._script = deque(script)

    def _next(self, request: InferenceRequest) -> FunctionAnswer:
        assert_valid_transcript(request.messages)
        self.requests.append(list(request.messages))
        self.asked.append(request)
        answer = self._script.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


# -- what a run must tell ---------------------------------------------------------------------

_LETTERS: dict[type, str] = {
    RunStart: "R",
    RunFinish: "F",
    StepStart: "S",
    StepEnd: "E",
    TextDelta: "d",
    ReasoningDelta: "d",
    ToolCallStart: "d",
    ToolCallDelta: "d",
    ToolCallCancel: "d",
    ToolCallReady: "y",
    InferenceComplete: "i",
    ActivitySnapshot: "a",
    ActivityDelta: "a",
    ToolCallStreamDelta: "a",
    ToolCallDone: "o",
    ToolCallResumed: "u",
    StateSnapshot: "n",
    Error: "X",
}

_STEP = "S(?:d*(?:Sd*)*(?:y*i[ao]*)?)nE"
_STRETCH = f"R[aou]*(?:Sy*[aou]*nE[aou]*)?(?:{_STEP})*F"
_RUN = re.compile(f"(?:{_STRETCH})+(?:u*F)?")


def assert_event_order(events: Sequence[RunEvent]) -> None:
    """02 §5.11: the one order in which a run tells what happens.

    By our decisions there is one snapshot a step (none before `run_finish`), a step that breaks
    off closes all the same, and a run that ends while it is suspended closes its calls and adds a
    last `run_finish`. `step_start` comes again for each further piece of an answer that reached the
    output limit. A run taken up after a crash begins with the end of the step that was cut
    short; only who listens is told once more that it started.
    """
    told = "".join(_LETTERS[type(event.event)] for event in events)
    assert _RUN.fullmatch(told), told
    finishes = [e.event for e in events if isinstance(e.event, RunFinish)]
    assert all(isinstance(f.termination, Suspended) for f in finishes[:-1]), "an end, then more"
    assert len({(e.thread_id, e.run_id) for e in events}) == 1
    _assert_calls_are_answered(events)
    seqs = [event.seq for event in events if event.seq is not None and not event.again]
    assert seqs == sorted(set(seqs)), "durable events come in the order of the log"


def _assert_calls_are_answered(events: Sequence[RunEvent]) -> None:
    """In each step every call that was ready is done, unless the run ended before any ran."""
    ready: list[str] = []
    done: list[str] = []
    in_step = False
    for envelope in events:
        event = envelope.event
        if isinstance(event, StepStart):
            ready, done, in_step = [], [], True
        elif isinstance(event, ToolCallReady):
            ready.append(event.id)
        elif isinstance(event, ToolCallDone) and in_step:
            done.append(event.id)
        elif isinstance(event, StepEnd):
            in_step = False
            assert not done or sorted(done) == sorted(ready), f"ready {ready}, done {done}"


def of_kind(events: Sequence[AgentEvent], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


# -- the stage --------------------------------------------------------------------------------


class WatchedSink(CollectingSink):
    """Keeps everything, and tells when something was told."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[tuple[type, int, asyncio.Event]] = []

    def count(self, kind: type) -> int:
        return sum(isinstance(event.event, kind) for event in self.events())

    async def emit(self, event: RunEvent) -> None:
        await super().emit(event)
        for kind, wanted, reached in self._watchers:
            if self.count(kind) >= wanted:
                reached.set()

    async def until(self, kind: type, count: int = 1) -> None:
        """Wait for the n-th event of a kind."""
        if self.count(kind) < count:
            reached = asyncio.Event()
            self._watchers.append((kind, count, reached))
            async with asyncio.timeout(100):
                await reached.wait()


class Stage:
    """Agents, one thread, one store; `events` is what the runs told since the last `take`."""

    def __init__(
        self, *agents: Agent, store: Store | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.store: Store = store or MemoryStore()
        self.runtime = Runtime(agents, store=self.store, clock=clock)
        self.engine = self.runtime.engine
        self.agent_id = agents[0].id
        self.sink = WatchedSink()

    async def run(self, text: str | None = "hi", **request: Any) -> AgentRunResult:
        """One run from the engine's door; it ends when it suspends unless told to wait."""
        options: dict[str, Any] = {
            "thread_id": THREAD,
            "messages": as_messages(text),
            "agent_id": self.agent_id,
            "wait_for_decisions": False,
        }
        if "decisions" in request:
            request["decisions"] = await by_key(self.store, request["decisions"])
        return await self.engine.run(RunRequest(**(options | request)), self.sink)

    async def resume(self, *decisions: Any, **request: Any) -> AgentRunResult:
        """The same, with decisions and nothing else."""
        return await self.run(None, decisions=decisions, **request)

    async def decide(self, *decisions: Any) -> bool:
        """Answer calls of the live run."""
        return await self.engine.send_decisions(THREAD, await by_key(self.store, decisions))

    @property
    def events(self) -> list[AgentEvent]:
        return [event.event for event in self.sink.events()]

    def told(self, kind: type[E]) -> list[E]:
        return of_kind(self.events, kind)

    async def log(self) -> list[Message]:
        return list(await self.store.load_messages(THREAD))

    async def texts(self) -> list[tuple[str, str]]:
        return [(message.role.value, message.text()) for message in await self.log()]

    async def results(self) -> list[str]:
        return [message.text() for message in await self.log() if message.role is Role.TOOL]

    async def record(self) -> RunRecord:
        record = await self.store.latest_run(THREAD)
        assert record is not None
        return record

    async def state(self, key: StateKey[Any, Any]) -> Any:
        return (await self.record()).state.extensions.get(key.name)  # type: ignore[union-attr]


# -- plugins ----------------------------------------------------------------------------------

Hook = Callable[[PhaseContext], Awaitable[Command | None]]
Gate = Callable[[PhaseContext], Awaitable[ToolInterceptPayload | None]]


class TestPlugin:
    """Hooks, gates and keys, as a test needs them."""

    __test__ = False

    def __init__(
        self,
        hooks: dict[Phase, Hook] | None = None,
        gates: Sequence[Gate] = (),
        keys: Sequence[StateKey[Any, Any]] = (),
        effects: Sequence[tuple[EffectSpec[Any], Any]] = (),
        id: str = "test",
    ) -> None:
        self.id = id
        self._hooks = hooks or {}
        self._gates, self._keys, self._effects = gates, keys, effects

    def register(self, registrar: Registrar) -> None:
        for key in self._keys:
            registrar.key(key)
        for phase, hook in self._hooks.items():
            registrar.hook(phase, hook)
        for gate in self._gates:
            registrar.gate(gate)
        for spec, handler in self._effects:
            registrar.effect(spec, handler)


# -- stores that misbehave --------------------------------------------------------------------


class FailingCommits(MemoryStore):
    """A store whose n-th commit fails, and, unless it recovers, all after it."""

    def __init__(self, fail_at: int, error: Exception, *, recovers: bool = False) -> None:
        super().__init__()
        self.fail_at, self.error, self.recovers = fail_at, error, recovers
        self.commits = 0

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.commits += 1
        if self.commits == self.fail_at or (self.commits > self.fail_at and not self.recovers):
            raise self.error
        return await super().commit(commit)


class WatchedCommits(MemoryStore):
    """Tells when the log has grown."""

    def __init__(self) -> None:
        super().__init__()
        self._grown = asyncio.Condition()

    async def commit(self, commit: ThreadCommit) -> Committed:
        committed = await super().commit(commit)
        async with self._grown:
            self._grown.notify_all()
        return committed

    async def until_length(self, length: int) -> None:
        async with asyncio.timeout(100), self._grown:
            while len(await self.load_messages(THREAD)) < length:
                await self._grown.wait()


class CountingCommits(MemoryStore):
    """Keeps every commit it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[ThreadCommit] = []

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.made.append(commit)
        return await super().commit(commit)


class SlowCommits(MemoryStore):
    """A store that answers its n-th commit when told to; it has written by then."""

    def __init__(self, slow_at: int) -> None:
        super().__init__()
        self.slow_at = slow_at
        self.commits = 0
        self.written, self.answer = asyncio.Event(), asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.commits += 1
        committed = await super().commit(commit)
        if self.commits == self.slow_at:
            self.written.set()
            await self.answer.wait()
        return committed
