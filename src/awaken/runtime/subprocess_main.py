"""The child process of the subprocess backend: it runs one agent once, then exits.

Started with `python -m awaken.runtime.subprocess_main`, it speaks
`awaken.backend.subprocess.protocol` on its stdin and stdout. The agent's code cannot reach either:
its prints go to stderr, and its stdin is empty.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

import msgspec

from awaken.backend.subprocess.protocol import (
    PROTOCOL,
    CancelRun,
    ErrorMessage,
    EventMessage,
    EventsWanted,
    FailureKind,
    FromChild,
    ResultMessage,
    Spent,
    StartRun,
    read_to_child,
)
from awaken.codec import clean_text, dumps
from awaken.core.aio.cancel import CancellationToken, interruptible, wait_first
from awaken.core.aio.owned_tasks import start_task
from awaken.core.budget import Budget
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    EventSink,
    NullEventSink,
    RunEvent,
    RunFinish,
    RunStart,
)
from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import CANCELLED, SUSPENDED_END, Suspended
from awaken.core.message import as_messages
from awaken.core.run import AgentRunResult
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.errors import AwakenError, Cancelled, type_of
from awaken.runtime.agent import Agent
from awaken.runtime.open_by_name import import_from_folder
from awaken.runtime.remote_agent import RemoteAgent
from awaken.runtime.runtime import Runtime
from awaken.worker import RunRequest, Worker, operations
from awaken.worker.request import continuation

log = logging.getLogger("awaken.front.child")
_PIECE = 65_536


# -- the line to the parent -------------------------------------------------------------------


class Wire:
    """Sends messages to the parent. A parent that reads slowly slows the run down."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    @classmethod
    async def open(cls, pipe: IO[bytes]) -> Wire:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
        transport.set_write_buffer_limits(
            0
        )  # `send` returns once the message has left this process
        return cls(asyncio.StreamWriter(transport, protocol, None, loop))

    async def send(self, message: FromChild) -> None:
        self._writer.write(dumps(message) + b"\n")
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class WireSink:
    """Sends events to the parent: all of them, or only those of the run's own activity."""

    def __init__(self, wire: Wire, start: StartRun) -> None:
        self._wire = wire
        self._identity = start.identity
        self._all = start.events is EventsWanted.ALL

    async def emit(self, event: RunEvent) -> None:
        told, mine = event.event, event.run_id == self._identity.run_id
        if not self._all and not (mine and isinstance(told, ActivitySnapshot | ActivityDelta)):
            return
        if mine and isinstance(told, RunStart | RunFinish):
            # The run here does not know its full identity: the parent thread is not in this store.
            told = msgspec.structs.replace(told, identity=self._identity)
        try:
            # A position in this process's store means nothing to the parent.
            await self._wire.send(
                EventMessage(event=msgspec.structs.replace(event, event=told, seq=None))
            )
        except (TypeError, ValueError) as error:
            log.warning("an event cannot be written as JSON: %s", error)

    async def close(self) -> None:
        return


# -- the agent --------------------------------------------------------------------------------


class NoSuchAgent(Exception):
    """The endpoint points to no agent."""


class NotReady(Exception):
    """The agent exists but cannot run."""


def load_agents(address: str) -> list[Agent | RemoteAgent]:
    """The agents at `module:name`.

    Raises:
        NoSuchAgent: no such module or name.
        NotReady: the module, or the function that makes the agents, raised, or the object is no
            agent.
    """
    module_name, _, name = address.partition(":")
    try:
        found = getattr(import_from_folder(module_name, os.getcwd()), name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise NotReady(f"{module_name} needs {error.name}, which is not installed") from error
        raise NoSuchAgent(
            f"there is no module {module_name!r} in {os.getcwd()} or among those installed for "
            f"{sys.executable}: say where it is by options.cwd"
        ) from error
    except AttributeError:
        if module_name not in sys.modules:
            raise
        raise NoSuchAgent(f"module {module_name!r} has no {name!r}") from None
    if callable(found):
        found = found()
    if inspect.iscoroutine(found):
        found.close()
    agents = [found] if isinstance(found, Agent) else found
    if not isinstance(agents, list | tuple) or not all(
        isinstance(agent, Agent | RemoteAgent) for agent in agents
    ):
        raise NotReady(
            f"{address} is {type_of(found)}: point at an Agent, a list of them, or a "
            "function without arguments that returns either"
        )
    return list(agents)


def pick(agents: list[Agent | RemoteAgent], start: StartRun) -> str:
    """The id of the agent to run: the target, else the only agent, else the one that the caller
    names.

    Raises:
        NoSuchAgent: none of the agents has that id.
    """
    known = [agent.id for agent in agents]
    wanted = start.target or (known[0] if len(known) == 1 else start.identity.agent_id)
    if wanted not in known:
        raise NoSuchAgent(
            f"{start.agent} has no agent {wanted!r}; it has: {', '.join(known) or 'none'}. "
            "The endpoint's target says which one runs"
        )
    return wanted


# -- the run ----------------------------------------------------------------------------------


async def answer(
    start: StartRun, sink: EventSink, token: CancellationToken
) -> ResultMessage | ErrorMessage:
    """Run the agent. Returns how the run ended."""
    if start.protocol != PROTOCOL:
        text = (
            f"the child process's awaken speaks protocol {PROTOCOL}, the parent's "
            f"{start.protocol}: install the same version for both"
        )
        return ErrorMessage(kind=FailureKind.NOT_READY, message=text)
    try:
        agents = load_agents(start.agent)
        agent_id = pick(agents, start)
        runtime = Runtime(agents, recover=False)
    except NoSuchAgent as error:
        return ErrorMessage(kind=FailureKind.AGENT_NOT_FOUND, message=str(error))
    except (NotReady, AwakenError) as error:
        return ErrorMessage(kind=FailureKind.NOT_READY, message=clean_text(str(error)))
    except Exception as error:
        traceback.print_exc()
        text = f"{start.agent} raised {type(error).__name__}: {error}"
        return ErrorMessage(kind=FailureKind.NOT_READY, message=clean_text(text))
    try:
        # An agent without a budget gets an empty one, so that its usage is counted.
        limits = next(agent.spec.budget for agent in agents if agent.id == agent_id)
        async with runtime:
            return await run(
                runtime, agent_id, start, sink, token, budget=None if limits else Budget()
            )
    except Exception as error:
        if not isinstance(error, AwakenError):
            traceback.print_exc()
        return ErrorMessage(kind=FailureKind.BROKE_OFF, message=clean_text(str(error)))


async def run(
    runtime: Runtime,
    agent_id: str,
    start: StartRun,
    sink: EventSink,
    token: CancellationToken,
    *,
    budget: Budget | None = None,
) -> ResultMessage:
    """Run the agent on a thread that holds the conversation so far."""
    identity = start.identity
    messages = as_messages(start.messages)
    history = messages[: len(messages) - start.fresh]
    if history:
        commit = ThreadCommit(thread_id=identity.thread_id, expected_length=0, messages=history)
        await runtime.store.commit(commit)
    request = RunRequest(
        thread_id=identity.thread_id,
        run_id_hint=identity.run_id,
        agent_id=agent_id,
        messages=messages[len(history) :],
        settings=start.overrides,
        budget=budget,
        wait_for_decisions=False,
        origin=_ORIGINS.get(identity.origin, RequestOrigin.USER),
        run_mode=identity.run_mode,
        adapter=identity.adapter,
        parent_run_id=identity.parent_run_id,
        parent_tool_call_id=identity.parent_tool_call_id,
        dispatch_id=identity.dispatch_id,
        session_id=identity.session_id,
        transport_request_id=identity.transport_request_id,
    )
    token.on_cancel(lambda: runtime.engine.cancel_by_thread(identity.thread_id))
    # The run is resumed here, where its events are passed on; the runtime resumes the others.
    runtime.leave_to_caller(identity.thread_id)
    result, asks_for = await to_its_end(runtime.engine, request, sink, token)
    return ResultMessage(
        termination=SUSPENDED_END if asks_for else result.termination,
        response=clean_text(result.response),
        steps=result.steps,
        tokens=result.input_tokens + result.output_tokens,
        spent=Spent.of(result.spent) if result.spent is not None else None,
        asks_for=asks_for,
    )


async def to_its_end(
    engine: Worker, request: RunRequest, sink: EventSink, token: CancellationToken
) -> tuple[AgentRunResult, tuple[str, ...]]:
    """Run to the end. Returns the result, and the tools that need an answer, if any do.

    The run's background tasks end with this process, so the run waits for them.
    """
    stirred = asyncio.Event()
    engine.unattended.subscribe(lambda _: stirred.set())
    while True:
        under_way = start_task(engine.run(request, sink))
        await asyncio.sleep(0)  # now the run is registered, and can be cancelled by its thread id
        if token.is_cancelled():
            engine.cancel_by_thread(request.thread_id)
        result = await under_way
        if not result.waits or isinstance(result.termination, Suspended):
            return result, tuple(ticket.tool_name for ticket in result.tickets)
        request = continuation(request, result.run_id)
        try:
            with interruptible(token):
                asks_for = await wait_report_or_question(engine, request.thread_id, stirred)
        except Cancelled:
            await operations.cancel(engine, request.thread_id)
            return msgspec.structs.replace(result, termination=CANCELLED), ()
        if asks_for:
            return result, asks_for


async def wait_report_or_question(
    engine: Worker, thread_id: str, stirred: asyncio.Event
) -> tuple[str, ...]:
    """Wait until a background task reports to the run of a thread, or an agent in a task needs an
    answer. Returns the tools that need it; none if a task has reported."""
    seen = 0

    async def wait_changed() -> None:
        nonlocal seen
        seen = await engine.store.wait_changed(thread_id, seen)

    async def wait_unattended() -> None:
        await stirred.wait()

    while True:
        stirred.clear()
        if await engine.store.load_commands(thread_id):
            return ()
        questions = await engine.store.list_tickets(TicketQuery(status=TicketStatus.OPEN))
        if len(questions):
            return tuple(dict.fromkeys(ticket.tool_name for ticket in questions))
        await wait_first(wait_changed(), wait_unattended())


_ORIGINS = {origin.run_origin: origin for origin in RequestOrigin}


# -- the process ------------------------------------------------------------------------------


def lines_of(fd: int) -> Iterator[bytes]:
    """Read lines from a file descriptor.

    Not with a buffered file: a thread waiting in a read would hold the file's lock, and the process
    could not exit.
    """
    parts: list[bytes] = []
    while piece := os.read(fd, _PIECE):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join([*parts, end])
            parts = []
        parts.append(rest)


def listen(
    lines: Iterator[bytes], loop: asyncio.AbstractEventLoop, token: CancellationToken
) -> None:
    """Read the parent's messages, in a thread of its own: the agent may keep the event loop
    busy."""
    try:
        for line in lines:
            if isinstance(read_to_child(line), CancelRun):
                with suppress(RuntimeError):  # the loop is closed: the run has ended
                    loop.call_soon_threadsafe(token.cancel)
    finally:
        end_all()


def end_all() -> None:
    """Exit because the parent is gone, and kill every process started from here."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def keep_to_ourselves() -> tuple[int, IO[bytes]]:
    """Take stdin and stdout away from the agent's code and from processes it starts. Returns
    them."""
    stdin, stdout = os.dup(0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    printed: Any = sys.stdout
    printed.reconfigure(line_buffering=True, errors="backslashreplace")
    return stdin, stdout


async def serve(start: StartRun, lines: Iterator[bytes], stdout: IO[bytes]) -> None:
    token = CancellationToken()
    loop = asyncio.get_running_loop()
    threading.Thread(target=listen, args=(lines, loop, token), daemon=True).start()
    wire = await Wire.open(stdout)
    sink = NullEventSink() if start.events is EventsWanted.NONE else WireSink(wire, start)
    await wire.send(await answer(start, sink, token))
    wire.close()


def main() -> None:
    stdin, stdout = keep_to_ourselves()
    lines = lines_of(stdin)
    line = next(lines, None)
    if line is None:
        return  # the parent was gone before it sent a message
    start = read_to_child(line)
    if isinstance(start, StartRun):
        asyncio.run(serve(start, lines, stdout))


if __name__ == "__main__":
    main()
