"""The subject of the checks of backends, running its agents, and the checks of every result.

A `BackendSubject` gives the checks a backend's agents and a way to observe them. Most checks run
both ways: the agent is a root run, and a delegate.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import wraps
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.aio.owned_tasks import start_task
from awaken.core.backend import (
    BackendCapabilities,
    BackendContinuationCapability,
    BackendControl,
    BackendDelegateRunRequest,
    BackendOutputCapability,
    BackendParentContext,
    BackendRootRunRequest,
    BackendRunResult,
    BackendStatusKind,
    BackendWaitCapability,
    ExecutionBackend,
    ExecutionBackendError,
)
from awaken.core.event import CollectingSink
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import (
    BehaviorRequested,
    CancelledEnd,
    NaturalEnd,
    RunStatus,
    Suspended,
)
from awaken.core.message import Message
from awaken.core.registry import ExecutionResolver
from awaken.errors import AgentNotFound
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS

# -- the subject ------------------------------------------------------------------------------


class BackendPart(StrEnum):
    """The agents of a subject, by what each does."""

    ECHO = "echo"
    """Answers with exactly the text of the last message."""
    RECALLING = "recalling"
    """Answers with the text of the first user message; for backends that read all messages."""
    SLOW = "slow"
    """Never ends by itself."""
    FAILING = "failing"
    """Fails."""
    ASKING = "asking"
    """Waits for an answer; with one, it completes."""


class _NoAgents:
    """A resolver without agents."""

    def resolve(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> Sequence[str]:
        return ()


class BackendSubject(ABC):
    """A backend to be checked; each check gets a new one."""

    resolver: ExecutionResolver = _NoAgents()
    """The resolver in every request."""

    @abstractmethod
    def backend(self, part: BackendPart) -> ExecutionBackend:
        """A backend with that agent; it may be the same one each time."""

    def agent_id(self, part: BackendPart) -> str:
        """The id of the agent in requests."""
        return part.value

    async def prepare(self, request: BackendRootRunRequest) -> BackendRootRunRequest:
        """The request with everything else that this backend needs.

        The answer in a continuation is its new message, unless this method changes it.
        """
        return request

    @abstractmethod
    async def until_working(self) -> None:
        """Wait until the slow agent of the last request is working."""

    @abstractmethod
    async def until_stopped(self) -> None:
        """Wait until it has stopped; only called if the backend declares that it can stop it."""

    def list_leaks(self) -> Sequence[str]:
        """The processes, connections and threads that finished runs have not closed."""
        return ()


# -- checks -----------------------------------------------------------------------------------


class Ask(msgspec.Struct, kw_only=True):
    """A request to an agent, and the events that came while it worked."""

    part: BackendPart = BackendPart.ECHO
    text: str = "hello"
    run: str = "run"
    before: tuple[Message, ...] = ()
    token: CancellationToken | None = None
    sink: CollectingSink = msgspec.field(default_factory=CollectingSink)
    saved: dict[str, Json] = msgspec.field(default_factory=dict)
    changes: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def message(self) -> Message:
        return Message.user(self.text, id=f"{self.run}-{len(self.before)}")

    async def save(self, values: Mapping[str, Json]) -> None:
        self.saved.update(values)

    def identity(self, agent_id: str) -> RunIdentity:
        return RunIdentity(thread_id=f"thread-of-{self.run}", run_id=self.run, agent_id=agent_id)


BackendCheck = Callable[[BackendSubject], Awaitable[None]]
Way = Callable[[BackendSubject, Ask, ExecutionBackend], Coroutine[Any, Any, BackendRunResult]]
"""Runs an agent on a backend, and returns a result that passed the general checks."""
WayCheck = Callable[[BackendSubject, Way], Awaitable[None]]


class BothWays:
    """Collects checks; each becomes two, one for roots and one for delegates."""

    def __init__(self) -> None:
        self.checks: list[BackendCheck] = []

    def __call__(self, check: WayCheck) -> WayCheck:
        for way, name in ((as_root, "as_a_root"), (as_delegate, "as_a_delegate")):
            self.checks.append(_one_way(check, way, name))
        return check

    def alone(self, check: BackendCheck) -> BackendCheck:
        """Collect a check that is not run both ways."""
        self.checks.append(check)
        return check


def _one_way(check: WayCheck, way: Way, name: str) -> BackendCheck:
    @wraps(check)
    async def check_way(subject: BackendSubject) -> None:
        try:
            await check(subject, way)
        except NotSupported:
            return  # another check, `it_runs_agents_in_one_way_at_least`, covers this

    check_way.__name__ = f"{check.__name__}_{name}"
    return check_way


# -- asking -----------------------------------------------------------------------------------

PARENT = BackendParentContext(
    parent_run_id="parent-run", parent_thread_id="parent-thread", parent_tool_call_id="parent-call"
)
REFUSALS = (
    "backend does not support root execution",
    "backend does not support delegated execution",
)


class NotSupported(Exception):
    """The backend does not run agents in this way, and says so with the contract's error."""


async def root_request(subject: BackendSubject, ask: Ask) -> BackendRootRunRequest:
    agent_id = subject.agent_id(ask.part)
    request = BackendRootRunRequest(
        agent_id=agent_id,
        messages=[*ask.before, ask.message],
        new_messages=[ask.message],
        sink=ask.sink,
        resolver=subject.resolver,
        run_identity=ask.identity(agent_id),
        control=BackendControl(cancellation_token=ask.token),
        save_state=ask.save,
    )
    return await subject.prepare(msgspec.structs.replace(request, **ask.changes))


async def as_root(subject: BackendSubject, ask: Ask, backend: ExecutionBackend) -> BackendRunResult:
    """Run the agent as a root run."""
    request = await root_request(subject, ask)
    result = await _check_error_class(backend.execute_root(request))
    _check_result(result, request.agent_id, backend.capabilities())
    assert result.run_id in (None, ask.run), "a root run keeps the id it was given"
    return result


async def as_delegate(
    subject: BackendSubject, ask: Ask, backend: ExecutionBackend
) -> BackendRunResult:
    """Run the agent as a delegate."""
    request = BackendDelegateRunRequest(
        agent_id=subject.agent_id(ask.part),
        messages=[*ask.before, ask.message],
        new_messages=[ask.message],
        sink=ask.sink,
        resolver=subject.resolver,
        parent=PARENT,
        control=BackendControl(cancellation_token=ask.token),
    )
    result = await _check_error_class(backend.execute_delegate(request))
    _check_result(result, request.agent_id, backend.capabilities())
    assert result.run_id != PARENT.parent_run_id, "a delegate is a run of its own"
    return result


async def _check_error_class(run: Awaitable[BackendRunResult]) -> BackendRunResult:
    """
    Raises:
        NotSupported: the backend does not run agents in this way.
        ExecutionBackendError: the run failed.
        AssertionError: the backend raised an error of another class.
    """
    try:
        return await run
    except ExecutionBackendError as error:
        if error.message in REFUSALS:
            raise NotSupported from error
        if not error.message.strip():
            raise AssertionError(f"{type(error).__name__} does not say what is wrong") from error
        raise
    except Exception as error:
        raise AssertionError(
            f"{type(error).__name__} escaped where only an ExecutionBackendError may: {error}"
        ) from error


# -- checks of every result -------------------------------------------------------------------

_ENDS = {
    BackendStatusKind.COMPLETED: (NaturalEnd, BehaviorRequested, Suspended),
    BackendStatusKind.CANCELLED: (CancelledEnd,),
}
_WAITS = {
    BackendStatusKind.WAITING_INPUT: (
        BackendWaitCapability.INPUT,
        BackendWaitCapability.INPUT_AND_AUTH,
    ),
    BackendStatusKind.WAITING_AUTH: (
        BackendWaitCapability.AUTH,
        BackendWaitCapability.INPUT_AND_AUTH,
    ),
}


def _check_result(result: BackendRunResult, agent_id: str, can: BackendCapabilities) -> None:
    kind, end = result.status.kind, result.termination
    assert result.agent_id == agent_id
    assert result.steps >= 0
    if kind in _ENDS:
        assert isinstance(end, _ENDS[kind]), f"{result.status} does not end with {end}"
    elif kind in (BackendStatusKind.FAILED, BackendStatusKind.TIMEOUT):
        assert not isinstance(end, NaturalEnd | BehaviorRequested | Suspended), end
    if kind is BackendStatusKind.FAILED:
        assert (result.status.message or "").strip(), "a failure says what is wrong"
    if is_waiting(result):
        assert can.waits is not BackendWaitCapability.NONE, f"{result.status} is not claimed"
        assert can.waits in _WAITS.get(kind, (can.waits,)), f"{result.status} is not claimed"
    if result.response is not None and result.output.text is not None:
        assert result.output.text == result.response
    if can.output is BackendOutputCapability.TEXT:
        assert result.output.artifacts == (), "artifacts are not claimed"
    if can.continuation is BackendContinuationCapability.NONE:
        assert result.state is None, "state for a continuation that is not claimed"


def is_waiting(result: BackendRunResult) -> bool:
    """Whether the run waits for input, authorization or an answer."""
    return result.status.durable_run_status(result.termination) is RunStatus.WAITING


def check_completed(result: BackendRunResult, text: str) -> None:
    """Check that the run completed with this text."""
    assert result.status.kind is BackendStatusKind.COMPLETED, result
    assert isinstance(result.termination, NaturalEnd | BehaviorRequested)
    assert (result.output.text_or(result.response) or "") == text


async def expect_failure(run: Awaitable[BackendRunResult]) -> str:
    """Wait for a run that must fail, with an error or a failed result. Returns the text of the
    failure."""
    try:
        result = await run
    except ExecutionBackendError as error:
        return error.message
    assert result.status.kind is BackendStatusKind.FAILED, result
    return result.status.message or ""


# -- running agents ---------------------------------------------------------------------------


@asynccontextmanager
async def run_slow_agent(
    subject: BackendSubject, way: Way, ask: Ask, backend: ExecutionBackend
) -> AsyncIterator[asyncio.Task[BackendRunResult]]:
    """Run the slow agent, and wait until it is working. The end of the block cancels the run."""
    run = start_task(way(subject, ask, backend))
    working = start_task(subject.until_working())
    try:
        await asyncio.wait(
            [run, working], timeout=MAX_WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if run.done():
            raise AssertionError(f"the slow agent ended by itself: {run.result()}")
        assert working.done(), "the slow agent never was at work"
        working.result()
        yield run
    finally:
        for task in (run, working):
            task.cancel()
        await asyncio.wait([run, working], timeout=MAX_WAIT_SECONDS)


async def wait_for_end(run: asyncio.Task[BackendRunResult]) -> BackendRunResult:
    """Wait for the end of a cancelled run. Returns its result."""
    _, stuck = await asyncio.wait([run], timeout=MAX_WAIT_SECONDS)
    assert not stuck, "the run was cancelled, and goes on"
    return run.result()


async def check_stopped(subject: BackendSubject) -> None:
    """Check that the slow agent itself has stopped."""
    try:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            await subject.until_stopped()
    except TimeoutError:
        raise AssertionError("the slow agent was to stop, and is still at work") from None
