"""An agent elsewhere and one thread, on a clock that goes when told to; and what must be kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from backend_requests import NoAgents

from awaken.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
    ThreadContextSnapshot,
    execute_remote_root_lifecycle,
)
from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import AgentEvent, CollectingSink, RunEvent, RunFinish, RunStart, StepStart
from awaken.core.identity import RequestOrigin, RunIdentity
from awaken.core.lifecycle import NATURAL_END, Failed, RunStatus, StartCause, TerminationReason
from awaken.core.message import Message
from awaken.core.run import (
    AgentRunResult,
    MessageSeqRange,
    PersistedState,
    RunMessageInput,
    RunMessageOutput,
    RunOutcome,
    RunRecord,
    RunRequestSnapshot,
    RunWaitingState,
    WaitingReason,
)
from awaken.core.spec import AgentSpec
from awaken.core.store.store import Store
from awaken.engine.run_setup import FirstCommit, RunControls, RunServices, RunSetup
from awaken.ids import SequentialIds
from awaken.plugin.resolved_agent import ResolvedBackendAgent
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock

THREAD, RUN, AGENT, MODEL = "thread-1", "run-1", "far", "far-model"
BEGAN = 1_700_000_000_000
"""When the agent is asked."""
TAKES = 2.5
"""Seconds it takes to answer."""
ENDED = BEGAN + 2500
CREATED = BEGAN - 5000
"""When somebody wanted the run."""

ASKED = RunRequestSnapshot(origin=RequestOrigin.USER, input_message_count=1)
HANDLE: dict[str, Json] = {"handle": "task-1"}

Answer = Callable[[BackendRootRunRequest], Awaitable[BackendRunResult]]


def identity(run_id: str = RUN) -> RunIdentity:
    return RunIdentity(
        thread_id=THREAD,
        run_id=run_id,
        parent_run_id="parent-1",
        agent_id=AGENT,
        dispatch_id="dispatch-1",
        session_id="session-1",
        transport_request_id="request-1",
    )


def answer(
    response: str | None = None,
    *,
    status: BackendRunStatus | None = None,
    termination: TerminationReason = NATURAL_END,
    **more: Any,
) -> BackendRunResult:
    return BackendRunResult(
        agent_id=AGENT,
        status=status or BackendRunStatus.completed(),
        termination=termination,
        response=response,
        **more,
    )


def state(**values: Json) -> PersistedState:
    return PersistedState(extensions=values)


def message_id(number: int) -> str:
    """The n-th id that was made: each turn takes one, for what the agent says in it."""
    return f"00000000-0000-7000-8000-{number:012x}"


# -- backends ---------------------------------------------------------------------------------


def abilities(
    *, abort: bool = True, continuation: bool = True, cooperative: bool = False
) -> BackendCapabilities:
    cancellation = BackendCancellationCapability.NONE
    if abort:
        cancellation = BackendCancellationCapability.REMOTE_ABORT
    if cooperative:
        cancellation = BackendCancellationCapability.COOPERATIVE_TOKEN
    return msgspec.structs.replace(
        BackendCapabilities.remote_stateless_text(),
        cancellation=cancellation,
        continuation=BackendContinuationCapability.REMOTE_STATE
        if continuation
        else BackendContinuationCapability.NONE,
    )


class FarBackend(ExecutionBackend):
    """Answers as it is told to, and keeps what it was asked."""

    def __init__(
        self,
        does: BackendRunResult | Exception | Answer,
        can: BackendCapabilities | None = None,
        *,
        abort_fails: Exception | None = None,
    ) -> None:
        self._does = does
        self._can = can or abilities()
        self._abort_fails = abort_fails
        self.requests: list[BackendRootRunRequest] = []
        self.aborts: list[BackendAbortRequest] = []

    def capabilities(self) -> BackendCapabilities:
        return self._can

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.requests.append(request)
        if isinstance(self._does, Exception):
            raise self._does
        if isinstance(self._does, BackendRunResult):
            return self._does
        return await self._does(request)

    async def abort(self, request: BackendAbortRequest) -> None:
        self.aborts.append(request)
        if self._abort_fails is not None:
            raise self._abort_fails


async def save(request: BackendRootRunRequest, values: Mapping[str, Json] | None = None) -> None:
    assert request.save_state is not None
    await request.save_state(values or HANDLE)


# -- the thread -------------------------------------------------------------------------------


class Far:
    """Runs of one agent in one thread, one after the other.

    The backend's work takes `TAKES` seconds, unless it is cut short.
    """

    def __init__(self, store: Store | None, backend: ExecutionBackend) -> None:
        self.store = store
        self.backend = backend
        self.clock, self.ids = FakeClock(BEGAN), SequentialIds()
        self.sink = CollectingSink()
        self.token, self.leave = CancellationToken(), CancellationToken()

    async def run(
        self,
        *texts: str,
        run_id: str = RUN,
        previous_state: PersistedState | None = None,
        is_continuation: bool = False,
    ) -> AgentRunResult:
        setup = await self._setup(texts or ("hello",), run_id, is_continuation)
        request = BackendRootRunRequest(
            agent_id=AGENT,
            messages=setup.first_commit.messages,
            new_messages=setup.first_commit.messages,
            sink=self.sink,
            resolver=NoAgents(),
            run_identity=identity(run_id),
            checkpoint_store=self.store,
            is_continuation=is_continuation,
        )
        agent = ResolvedBackendAgent(
            AgentSpec(id=AGENT, model_id=MODEL, system_prompt=""), backend=_Timed(self)
        )
        return await execute_remote_root_lifecycle(
            agent, request, CREATED, self.token, previous_state, setup=setup
        )

    async def _setup(self, texts: tuple[str, ...], run_id: str, is_continuation: bool) -> RunSetup:
        thread = await self.store.load_thread(THREAD) if self.store is not None else None
        previous = await self.store.load_run(run_id) if self.store is not None else None
        length = thread.message_count if thread is not None else 0
        asked = [
            Message.user(text, id=f"asked-{length + place}")
            for place, text in enumerate(texts, start=1)
        ]
        return RunSetup(
            identity=identity(run_id),
            sink=self.sink,
            services=RunServices(
                resolver=NoAgents(), store=self.store, clock=self.clock, ids=self.ids
            ),
            controls=RunControls(leave=self.leave),
            thread=ThreadContextSnapshot(log_length=length, previous=previous and bare(previous)),
            first_commit=FirstCommit(messages=asked, request=ASKED),
            is_continuation=is_continuation,
        )

    async def record(self, run_id: str = RUN) -> RunRecord:
        assert self.store is not None
        found = await self.store.load_run(run_id)
        assert found is not None
        return found

    async def state(self, run_id: str = RUN) -> dict[str, Json]:
        assert self.store is not None
        return (await self.store.load_run_state(run_id)).extensions

    async def texts(self) -> list[str]:
        assert self.store is not None
        log = await self.store.load_messages(THREAD)
        return [f"{message.role.value}: {message.text()}" for message in log]

    def events(self) -> list[AgentEvent]:
        return [event.event for event in self.sink.events()]


class _Timed(ExecutionBackend):
    """The stage's backend, whose answer takes its time."""

    def __init__(self, stage: Far) -> None:
        self._stage = stage

    def capabilities(self) -> BackendCapabilities:
        return self._stage.backend.capabilities()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        try:
            return await self._stage.backend.execute_root(request)
        finally:
            self._stage.clock.advance(TAKES)

    async def abort(self, request: BackendAbortRequest) -> None:
        await self._stage.backend.abort(request)


def bare(record: RunRecord) -> RunRecord:
    """A record as those hand it on who have read a thread: without what is put together."""
    output = record.output and msgspec.structs.replace(record.output, message_ids=())
    return msgspec.structs.replace(record, state=None, output=output)


@asynccontextmanager
async def open_store(kind: str, home: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(home / "awaken.db")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# -- what must be told ------------------------------------------------------------------------


def wrap_events(
    *events: AgentEvent, first_seq: int = 1, transient: tuple[type, ...] = ()
) -> list[Any]:
    """The envelopes of these events; run starts come when the agent is called, the rest later.

    Durable events are numbered, those of a type in `transient` are not.
    """
    envelopes: list[RunEvent] = []
    seq = first_seq
    for event in events:
        kept = not isinstance(event, transient)
        begins = isinstance(event, RunStart | StepStart)
        envelopes.append(
            RunEvent(
                thread_id=THREAD,
                run_id=RUN,
                parent_run_id="parent-1",
                at_ms=BEGAN if begins else ENDED,
                seq=seq if kept else None,
                event=event,
            )
        )
        seq += kept
    return envelopes


def beginning(number: int = 1, cause: StartCause = StartCause.NEW) -> tuple[AgentEvent, AgentEvent]:
    start = RunStart(
        thread_id=THREAD, run_id=RUN, parent_run_id="parent-1", identity=identity(), cause=cause
    )
    return start, StepStart(message_id=message_id(number), agent_id=identity().agent_id)


def finish(termination: TerminationReason, steps: int = 0, **result: Json) -> RunFinish:
    return RunFinish(
        thread_id=THREAD,
        run_id=RUN,
        identity=identity(),
        result=result,
        termination=termination,
        steps=steps,
    )


# -- what must be kept ------------------------------------------------------------------------


def build_record(
    status: RunStatus,
    termination: TerminationReason | None = None,
    *,
    final_output: str | None = None,
    waiting: WaitingReason | None = None,
    reason: str | None = None,
    output: tuple[int, int] | None = None,
    ids: tuple[str, ...] = (message_id(1),),
    steps: int = 0,
    revision: int = 2,
    updated_at: int = ENDED,
    holding: Mapping[str, Json] | None = None,
    left: str | None = None,
) -> RunRecord:
    """02 §2.11, row by row; `holding` is the run's state, `left` why its work may go on."""
    error = {"message": termination.value} if isinstance(termination, Failed) else {}
    if left is not None:
        error["left_running"] = (
            f"what backend '_Timed' began for run '{RUN}' may go on there: {left}"
        )
    return RunRecord(
        run_id=RUN,
        thread_id=THREAD,
        agent_id=AGENT,
        parent_run_id="parent-1",
        request=ASKED,
        input=RunMessageInput(thread_id=THREAD, range=MessageSeqRange(from_seq=1, to_seq=1)),
        output=None
        if output is None
        else RunMessageOutput(
            thread_id=THREAD,
            range=MessageSeqRange(from_seq=output[0], to_seq=output[1]),
            message_ids=ids,
        ),
        status=status,
        termination_reason=termination,
        final_output=final_output,
        error_payload=error or None,
        dispatch_id="dispatch-1",
        session_id="session-1",
        transport_request_id="request-1",
        waiting=None
        if waiting is None
        else RunWaitingState(reason=waiting, since_dispatch_id="dispatch-1", message=reason),
        outcome=None
        if termination is None
        else RunOutcome(
            termination_reason=termination,
            final_output=final_output,
            error_payload=error or None,
        ),
        created_at=CREATED // 1000,
        started_at=CREATED // 1000,
        finished_at=updated_at // 1000 if status is RunStatus.DONE else None,
        updated_at=updated_at // 1000,
        steps=steps,
        input_tokens=0,
        output_tokens=0,
        state=PersistedState(extensions=dict(holding or {})),
        revision=revision,
        created_at_ms=CREATED,
        started_at_ms=CREATED,
        finished_at_ms=updated_at if status is RunStatus.DONE else None,
        updated_at_ms=updated_at,
    )
