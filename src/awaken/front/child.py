"""The other side of the subprocess backend: one agent, one run, then the end.

`python -m awaken.front.child`. It speaks `awaken.backend.subprocess.protocol` on the stdin and
stdout it was started with. Both are out of the reach of the agent's code: what that prints goes to
stderr, and what it reads is empty.
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
    EventMessage,
    EventsWanted,
    FailureKind,
    FromChild,
    RunBroken,
    RunEnded,
    Spent,
    StartRun,
    read_to_child,
)
from awaken.codec import clean_text, dumps
from awaken.contract.commits import ThreadCommit
from awaken.contract.events import EventSink, NullEventSink
from awaken.contract.threads import TicketQuery
from awaken.control.cancel import CancellationToken, first_of, interruptible
from awaken.control.tasks import start_task
from awaken.domain.budget import Budget
from awaken.domain.event import ActivityDelta, ActivitySnapshot, RunEvent, RunFinish, RunStart
from awaken.domain.identity import RequestOrigin
from awaken.domain.lifecycle import CANCELLED, SUSPENDED_END, Suspended
from awaken.domain.message import as_messages
from awaken.domain.result import AgentRunResult
from awaken.domain.ticket import TicketStatus
from awaken.errors import AwakenError, Cancelled
from awaken.front.agent import Agent
from awaken.front.loading import import_from_folder
from awaken.front.remote import RemoteAgent
from awaken.front.runtime import Runtime
from awaken.runtime import AgentRuntime, RunRequest, operations
from awaken.runtime.request import continuation

log = logging.getLogger("awaken.front.child")
_PIECE = 65_536


# -- the line to the parent -------------------------------------------------------------------


class Wire:
    """Sends messages to the parent; a parent that reads slowly slows the run down."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    @classmethod
    async def open(cls, pipe: IO[bytes]) -> Wire:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
        transport.set_write_buffer_limits(0)  # what was sent is gone when `send` returns
        return cls(asyncio.StreamWriter(transport, protocol, None, loop))

    async def send(self, message: FromChild) -> None:
        self._writer.write(dumps(message) + b"\n")
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class WireSink:
    """Passes events on to the parent: all of them, or only what tells of the run's own activity."""

    def __init__(self, wire: Wire, start: StartRun) -> None:
        self._wire = wire
        self._identity = start.identity
        self._all = start.events is EventsWanted.ALL

    async def emit(self, event: RunEvent) -> None:
        told, mine = event.event, event.run_id == self._identity.run_id
        if not self._all and not (mine and isinstance(told, ActivitySnapshot | ActivityDelta)):
            return
        if mine and isinstance(told, RunStart | RunFinish):
            # The run here cannot know all of it: the thread above is not in this store.
            told = msgspec.structs.replace(told, identity=self._identity)
        try:
            # A place in this store's log means nothing to others.
            await self._wire.send(
                EventMessage(event=msgspec.structs.replace(event, event=told, seq=None))
            )
        except (TypeError, ValueError) as error:
            log.warning("an event cannot be written as JSON: %s", error)

    async def close(self) -> None:
        return


# -- the agent --------------------------------------------------------------------------------


class NoSuchAgent(Exception):
    """There is no agent where the endpoint points."""


class NotReady(Exception):
    """There is one, and it cannot run."""


def load_agents(address: str) -> list[Agent | RemoteAgent]:
    """The agents at `module:name`.

    Raises:
        NoSuchAgent: no such module or name.
        NotReady: the module, or the function that makes them, raised, or it is no agent.
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
            f"{address} is a {type(found).__name__}: point at an Agent, a list of them, or a "
            "function without arguments that returns either"
        )
    return list(agents)


def pick(agents: list[Agent | RemoteAgent], start: StartRun) -> str:
    """Which of the agents runs: the target, the only one, or the one that is called the same.

    Raises:
        NoSuchAgent: there is no telling.
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
) -> RunEnded | RunBroken:
    """Run the agent, and say how it ended."""
    if start.protocol != PROTOCOL:
        text = f"its awaken speaks protocol {PROTOCOL}, ours {start.protocol}: install the same"
        return RunBroken(kind=FailureKind.NOT_READY, message=text)
    try:
        agents = load_agents(start.agent)
        agent_id = pick(agents, start)
        runtime = Runtime(agents, recover=False)
    except NoSuchAgent as error:
        return RunBroken(kind=FailureKind.AGENT_NOT_FOUND, message=str(error))
    except (NotReady, AwakenError) as error:
        return RunBroken(kind=FailureKind.NOT_READY, message=clean_text(str(error)))
    except Exception as error:
        traceback.print_exc()
        text = f"{start.agent} raised {type(error).__name__}: {error}"
        return RunBroken(kind=FailureKind.NOT_READY, message=clean_text(text))
    try:
        # One that has no budget of its own is counted all the same.
        limits = next(agent.spec.budget for agent in agents if agent.id == agent_id)
        async with runtime:
            return await run(
                runtime, agent_id, start, sink, token, budget=None if limits else Budget()
            )
    except Exception as error:
        if not isinstance(error, AwakenError):
            traceback.print_exc()
        return RunBroken(kind=FailureKind.BROKE_OFF, message=clean_text(str(error)))


async def run(
    runtime: Runtime,
    agent_id: str,
    start: StartRun,
    sink: EventSink,
    token: CancellationToken,
    *,
    budget: Budget | None = None,
) -> RunEnded:
    """The run itself, on a thread that has the conversation so far."""
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
        overrides=start.overrides,
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
    return RunEnded(
        termination=SUSPENDED_END if asks_for else result.termination,
        response=clean_text(result.response),
        steps=result.steps,
        tokens=result.input_tokens + result.output_tokens,
        spent=Spent.of(result.spent) if result.spent is not None else None,
        asks_for=asks_for,
    )


async def to_its_end(
    engine: AgentRuntime, request: RunRequest, sink: EventSink, token: CancellationToken
) -> tuple[AgentRunResult, tuple[str, ...]]:
    """Run to the end. Returns the result, and the tools that need an answer, if any do.

    The run's background tasks end with this process, so the run waits for them.
    """
    stirred = asyncio.Event()
    engine.unattended.subscribe(lambda _: stirred.set())
    while True:
        under_way = start_task(engine.run(request, sink))
        await asyncio.sleep(0)  # now it has its slot, and can be cancelled by its thread
        if token.is_cancelled():
            engine.cancel_by_thread(request.thread_id)
        result = await under_way
        if not result.waits or isinstance(result.termination, Suspended):
            return result, tuple(ticket.tool_name for ticket in result.tickets)
        request = continuation(request, result.run_id)
        try:
            with interruptible(token):
                asks_for = await told_or_asking(engine, request.thread_id, stirred)
        except Cancelled:
            await operations.cancel(engine, request.thread_id)
            return msgspec.structs.replace(result, termination=CANCELLED), ()
        if asks_for:
            return result, asks_for


async def told_or_asking(
    engine: AgentRuntime, thread_id: str, stirred: asyncio.Event
) -> tuple[str, ...]:
    """Wait until a background task has news for the run of a thread, or an agent in one needs an
    answer. Returns the tools that need it; none if there is news."""
    seen = 0

    async def changed() -> None:
        nonlocal seen
        seen = await engine.store.changed(thread_id, seen)

    async def left() -> None:
        await stirred.wait()

    while True:
        stirred.clear()
        if await engine.store.load_commands(thread_id):
            return ()
        questions = await engine.store.list_tickets(TicketQuery(status=TicketStatus.OPEN))
        if len(questions):
            return tuple(dict.fromkeys(ticket.tool_name for ticket in questions))
        await first_of(changed(), left())


_ORIGINS = {origin.run_origin: origin for origin in RequestOrigin}


# -- the process ------------------------------------------------------------------------------


def lines_of(fd: int) -> Iterator[bytes]:
    """What comes in, line by line.

    Not by a buffered file: its lock, held by a thread that waits, would not let the process end.
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
    """Be the thread that hears the parent, also while the agent keeps the loop busy."""
    try:
        for line in lines:
            if isinstance(read_to_child(line), CancelRun):
                with suppress(RuntimeError):  # the loop is closed: the run has ended
                    loop.call_soon_threadsafe(token.cancel)
    finally:
        end_all()


def end_all() -> None:
    """The parent is gone: end, with everything that was started from here."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def keep_to_ourselves() -> tuple[int, IO[bytes]]:
    """Take stdin and stdout away from the agent's code, and from what it starts."""
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
        return  # the parent was gone before it had said anything
    start = read_to_child(line)
    if isinstance(start, StartRun):
        asyncio.run(serve(start, lines, stdout))


if __name__ == "__main__":
    main()
