"""Agents in child processes: the backend that runs them, and its factory for endpoints."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from awaken.backend.local import map_termination
from awaken.backend.subprocess.options import (
    MAX_DEPTH,
    SubprocessOptions,
    current_depth,
    parse_agent_address,
)
from awaken.backend.subprocess.process import AgentProcess, LineTooLong
from awaken.backend.subprocess.protocol import (
    CHILD_MODULE,
    PROTOCOL,
    CancelRun,
    ErrorMessage,
    EventMessage,
    EventsWanted,
    FailureKind,
    FromChild,
    ResultMessage,
    RunTree,
    StartRun,
    read_from_child,
)
from awaken.codec import dumps, from_json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.aio.child_process import describe_exit
from awaken.core.backend import (
    BackendAbortRequest,
    BackendAgentNotFound,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateRunRequest,
    BackendOutputCapability,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
    ExecutionBackendFactoryError,
    ExecutionFailed,
    RemoteError,
)
from awaken.core.budget import Amount, Spending
from awaken.core.event import EventSink, NullEventSink, RunEvent
from awaken.core.identity import RunIdentity, RunOrigin
from awaken.core.lifecycle import CANCELLED, Failed, Suspended, TerminationReason
from awaken.core.message import Message
from awaken.core.spec import RemoteEndpoint
from awaken.ids import UUID7, Ids

_CANCEL = dumps(CancelRun()) + b"\n"
_CAPABILITIES = BackendCapabilities(
    cancellation=BackendCancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
    decisions=False,
    overrides=True,
    frontend_tools=False,
    continuation=BackendContinuationCapability.NONE,
    waits=BackendWaitCapability.NONE,
    transcript=BackendTranscriptCapability.FULL_TRANSCRIPT,
    output=BackendOutputCapability.TEXT,
)


class SubprocessBackend(ExecutionBackend):
    """Starts a process for every run. It gets the whole conversation, and ends with the run.

    A cancelled run is asked to end, then killed. When a run is over, all processes that it has
    started are dead. They also die when the parent process is killed.

    While a root run goes on, only its activity events are passed on: its caller reports its start,
    its answer and its end. All events of a delegate are passed on.

    Args:
        agent: `module:name` of an `Agent`, a list of them, or a function that returns either.
        target: which one of several.
        timeout_ms: the most milliseconds that a whole run may take.
    """

    def __init__(
        self,
        agent: str,
        options: SubprocessOptions | None = None,
        *,
        target: str | None = None,
        timeout_ms: int = 300_000,
        ids: Ids = UUID7,
    ) -> None:
        self._agent = agent
        self._options = options or SubprocessOptions()
        self._target = target
        self._timeout_ms = timeout_ms
        self._ids = ids
        self._running: dict[str, AgentProcess] = {}

    def capabilities(self) -> BackendCapabilities:
        return _CAPABILITIES

    async def abort(self, request: BackendAbortRequest) -> None:
        """Kill the run's process, if it has one. A child of an earlier parent process died with
        that."""
        process = self._running.get(request.run_identity.run_id)
        if process is not None:
            process.stop_requested = True
            process.kill()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Run an agent as a run of its own.

        Raises:
            BackendAgentNotFound: there is no such agent where the endpoint points.
            ExecutionFailed: the process, or the agent in it, cannot be started.
            RemoteError: the process died, or broke the protocol.
        """
        start = self._start(
            request.run_identity, request.messages, request.new_messages, EventsWanted.ACTIVITY
        )
        start = msgspec.structs.replace(start, overrides=request.overrides)
        return await self._run(start, request.sink, request.control.cancellation_token)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Run an agent on behalf of another; raises what `execute_root` does."""
        run_id, parent = self._ids.new(), request.parent
        identity = RunIdentity(
            thread_id=run_id,
            run_id=run_id,
            parent_thread_id=parent.parent_thread_id,
            parent_run_id=parent.parent_run_id,
            agent_id=request.agent_id,
            origin=RunOrigin.SUBAGENT,
        ).with_parent_tool_call_id(parent.parent_tool_call_id)
        start = self._start(identity, request.messages, request.new_messages, EventsWanted.ALL)
        return await self._run(start, request.sink, request.control.cancellation_token)

    def _start(
        self,
        identity: RunIdentity,
        messages: Sequence[Message],
        new: Sequence[Message],
        events: EventsWanted,
    ) -> StartRun:
        history = len(messages) - len(new)
        return StartRun(
            protocol=PROTOCOL,
            agent=self._agent,
            target=self._target,
            identity=identity,
            messages=tuple(messages),
            fresh=len(new) if list(messages[max(0, history) :]) == list(new) else 0,
            events=events,
        )

    # -- one run ------------------------------------------------------------------------------

    async def _run(
        self, start: StartRun, sink: EventSink, token: CancellationToken | None
    ) -> BackendRunResult:
        identity = start.identity
        if token is not None and token.is_cancelled():
            return _result(identity, CANCELLED)
        if isinstance(sink, NullEventSink):
            start = msgspec.structs.replace(start, events=EventsWanted.NONE)
        try:
            line = dumps(start) + b"\n"
        except (TypeError, ValueError) as error:
            raise ExecutionFailed(
                f"agent '{identity.agent_id}': the conversation cannot be written as JSON: {error}"
            ) from error
        process = self._spawn(identity.agent_id)
        self._running[identity.run_id] = process
        try:
            async with process:
                tree = RunTree(identity, start.events)
                return await self._run_with_timeout(
                    process, line, identity, _TreeSink(sink, tree), token
                )
        except OSError as error:
            raise ExecutionFailed(
                f"agent '{identity.agent_id}': cannot communicate with its process: {error}"
            ) from error
        finally:
            if self._running.get(identity.run_id) is process:
                del self._running[identity.run_id]

    def _spawn(self, agent_id: str) -> AgentProcess:
        options = self._options
        if current_depth() >= MAX_DEPTH:
            raise ExecutionFailed(
                f"agent '{agent_id}': agents' processes may start others at most {MAX_DEPTH} "
                "levels deep; does it delegate to itself?"
            )
        command = options.command(CHILD_MODULE)
        try:
            return AgentProcess(
                command,
                name=agent_id,
                env=options.environment(),
                cwd=options.cwd,
                limit=options.max_line_bytes,
            )
        except (OSError, ValueError) as error:
            raise ExecutionFailed(
                f"agent '{agent_id}': {command[0]!r} cannot be started"
                f"{f' in {options.cwd!r}' if options.cwd else ''}: {error}"
            ) from error

    async def _run_with_timeout(
        self,
        process: AgentProcess,
        line: bytes,
        identity: RunIdentity,
        sink: EventSink,
        token: CancellationToken | None,
    ) -> BackendRunResult:
        """Run the process and return the run's result, with status timeout if it took too long."""
        process.write(line)
        try:
            with self._stop_on_cancel(process, token):
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await process.drain()
                    answer = await _answer(process, identity.agent_id, sink)
                await self._wait_for_exit(process)
        except TimeoutError:
            text = f"agent '{identity.agent_id}' took longer than {self._timeout_ms} ms"
            return _result(identity, Failed(value=text), status=BackendRunStatus.timeout())
        except asyncio.CancelledError:
            # If the token is cancelled, too, the agent has its grace to clean up.
            if token is not None and token.is_cancelled():
                await process.wait()
            raise
        if answer is None:
            if process.stop_requested:
                return _result(identity, CANCELLED)
            raise await _exit_error(process, identity.agent_id)
        return _to_result(identity, answer)

    @contextmanager
    def _stop_on_cancel(
        self, process: AgentProcess, token: CancellationToken | None
    ) -> Iterator[None]:
        """While the block runs, cancelling the token stops the process."""
        if token is None:
            yield
            return
        grace = self._options.grace_ms / 1000
        handle = token.on_cancel(lambda: process.stop(_CANCEL, grace))
        try:
            yield
        finally:
            token.forget(handle)

    async def _wait_for_exit(self, process: AgentProcess) -> None:
        """Give a process that has answered time to close its resources, then kill it."""
        try:
            async with asyncio.timeout(self._options.grace_ms / 1000):
                await process.wait()
        except TimeoutError:
            process.kill()


BACKEND = "subprocess"


class SubprocessBackendFactory:
    """Takes `RemoteEndpoint(backend="subprocess", base_url="python:module:name")`.

    `name` is an `Agent`, a list of agents, or a function without arguments that returns either. Of
    several agents, `target` names the one to run. `timeout_ms` is the most time that a whole run
    may take; `options` are those of `SubprocessOptions`.

    Building a backend starts no process, and imports no module of the user's.
    """

    def backend(self) -> str:
        return BACKEND

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """
        Raises:
            ExecutionBackendFactoryError: the address, or an option, cannot work.
        """
        self._parts(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> SubprocessBackend:
        """
        Raises:
            ExecutionBackendFactoryError: the address, or an option, cannot work.
        """
        agent, options = self._parts(endpoint)
        return SubprocessBackend(
            agent, options, target=endpoint.target, timeout_ms=endpoint.timeout_ms
        )

    def _parts(self, endpoint: RemoteEndpoint) -> tuple[str, SubprocessOptions]:
        if os.name != "posix":
            raise ExecutionBackendFactoryError(
                f"backend '{BACKEND}' needs process groups, which {os.name!r} does not have"
            )
        agent = parse_agent_address(endpoint.base_url)
        if agent is None:
            raise ExecutionBackendFactoryError(
                f"base_url {endpoint.address!r} names no agent: write python:package.module:name"
            )
        if endpoint.auth is not None:
            raise ExecutionBackendFactoryError(
                f"backend '{BACKEND}' takes no auth: name what the agent needs in options.pass_env"
            )
        if endpoint.timeout_ms <= 0:
            raise ExecutionBackendFactoryError(
                f"timeout_ms is the time a run may take, not {endpoint.timeout_ms}"
            )
        try:
            return agent, from_json(endpoint.options, SubprocessOptions)
        except msgspec.ValidationError as error:
            raise ExecutionBackendFactoryError(f"options: {error}") from error


# -- messages of the child --------------------------------------------------------------------


async def _answer(
    process: AgentProcess, agent_id: str, sink: EventSink
) -> ResultMessage | ErrorMessage | None:
    """How the run ended; `None` if the process has ended without an answer."""
    while True:
        try:
            line = await process.line()
        except LineTooLong as error:
            raise RemoteError(
                f"agent '{agent_id}': its process was killed: it wrote a line that is too long for "
                "options.max_line_bytes"
            ) from error
        if line is None:
            return None
        message = _read(line, agent_id)
        if not isinstance(message, EventMessage):
            return message
        try:
            await sink.emit(message.event)
        except Exception as error:
            raise ExecutionFailed(
                f"agent '{agent_id}': its event could not be passed on: {error}"
            ) from error


def _read(line: bytes, agent_id: str) -> FromChild:
    try:
        return read_from_child(line)
    except msgspec.DecodeError as error:
        raise RemoteError(
            f"agent '{agent_id}': its process broke the protocol and was killed; it wrote "
            f"{line[:200]!r} ({error})"
        ) from error


class _TreeSink:
    """Passes on the events of the run and of those it started, and no others."""

    def __init__(self, sink: EventSink, tree: RunTree) -> None:
        self._sink, self._tree = sink, tree

    async def emit(self, event: RunEvent) -> None:
        ours = self._tree.admit(event)
        if ours is not None:
            await self._sink.emit(ours)

    async def close(self) -> None:
        """Does nothing: the caller closes its own sink."""


async def _exit_error(process: AgentProcess, agent_id: str) -> RemoteError:
    how = describe_exit(await process.wait())
    errors = await process.last_errors()
    said = "; the end of its stderr:\n" + "\n".join(errors) if errors else ", its stderr is empty"
    return RemoteError(f"agent '{agent_id}': its process {how} before its run ended{said}")


# -- results ----------------------------------------------------------------------------------


def _to_result(identity: RunIdentity, answer: ResultMessage | ErrorMessage) -> BackendRunResult:
    """The result for the child's last message.

    Raises:
        BackendAgentNotFound, ExecutionFailed: the run did not begin.
    """
    if isinstance(answer, ResultMessage):
        end = answer.termination
        if isinstance(end, Suspended):
            end = Failed(value=_unanswerable_text(identity, answer))
        result = _result(identity, end, answer.response, answer.steps)
        told = answer.spent
        spent = told.amount() if told else Amount(tokens=answer.tokens, steps=answer.steps)
        return msgspec.structs.replace(result, spending=Spending(spent=spent.without_time()))
    text = f"agent '{identity.agent_id}': {answer.message}"
    if answer.kind is FailureKind.AGENT_NOT_FOUND:
        raise BackendAgentNotFound(text)
    if answer.kind is FailureKind.NOT_READY:
        raise ExecutionFailed(text)
    return _result(identity, Failed(value=answer.message))


def _unanswerable_text(identity: RunIdentity, answer: ResultMessage) -> str:
    what = (
        f"an answer to {', '.join(map(repr, answer.asks_for))}" if answer.asks_for else "a person"
    )
    return (
        f"agent '{identity.agent_id}' waits for {what}, which cannot come: its process ends with "
        "its run. Run the agent here, without an endpoint, or give it tools that need no approval"
    )


def _result(
    identity: RunIdentity,
    termination: TerminationReason,
    response: str = "",
    steps: int = 0,
    *,
    status: BackendRunStatus | None = None,
) -> BackendRunResult:
    return BackendRunResult(
        agent_id=identity.agent_id,
        status=status or map_termination(termination),
        termination=termination,
        response=response or None,
        output=BackendRunOutput.from_text(response or None),
        steps=steps,
        run_id=identity.run_id,
    )
