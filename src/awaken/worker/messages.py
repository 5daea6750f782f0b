"""Delivering messages from the agent of one thread to the agent of another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

import msgspec

from awaken.clock import Clock
from awaken.core.aio.cancel import wait_first
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.identity import RequestOrigin, RunMode
from awaken.core.message import Message, MessageMetadata
from awaken.core.run import AgentRunResult
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.task import DurableMessageRequest
from awaken.errors import AwakenError, RunLeft, ThreadAlreadyRunning
from awaken.worker.request import RunRequest

log = logging.getLogger("awaken.runtime")


class Messages:
    """A `DurableMessageSink`: stores messages for their recipients' threads, and starts a run in
    a thread that has none open."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        deliver: Callable[[str], Awaitable[None]],
        run: Callable[[RunRequest], Awaitable[AgentRunResult]],
        tasks: OwnedTasks,
    ) -> None:
        self._store = store
        self._clock = clock
        self._deliver = deliver
        self._run = run
        self._tasks = tasks

    async def deliver(self, request: DurableMessageRequest) -> None:
        """Store a message for its recipient, once per message id. The thread's open run reads it,
        or else the next one.

        Raises:
            NotFound: there is no such thread.
        """
        thread_id = request.recipient_thread_id
        message = msgspec.structs.replace(
            Message.user(request.message, id=request.message_id),
            metadata=MessageMetadata(sender_agent_id=request.sender_agent_id),
        )
        number = await self._store.send(
            ThreadCommand(
                thread_id=thread_id,
                kind=CommandKind.MESSAGES,
                messages=(message,),
                at_ms=self._clock.now_ms(),
                key=request.message_id,
            )
        )
        if not number:
            return  # it was stored before, and a run has read it
        await self._deliver(thread_id)
        reading = await self._start_run(thread_id, request.recipient_agent_id, number)
        if reading is not None:
            # The sender drops the message when this returns, so a run must have recorded it.
            await self._wait_read(thread_id, number, reading)

    async def _wait_read(self, thread_id: str, number: int, reading: asyncio.Task[None]) -> None:
        """Wait until a run has read the message, or `reading` has ended without reading it."""
        seen = 0

        async def wait_changed() -> None:
            nonlocal seen
            seen = await self._store.wait_changed(thread_id, seen)

        async def wait_ended() -> None:
            await asyncio.wait([reading])

        while not reading.done() and await self._store.is_pending(number):
            await wait_first(wait_changed(), wait_ended())

    async def wake(self, thread_id: str, agents: Collection[str]) -> None:
        """Start a run of one of `agents` in a thread that has a message from another agent but no
        open run.

        The process that stored the message may have died before it started the run, or may not
        have the agent.
        """
        commands = await self._store.load_commands(thread_id)
        number = max((c.id for c in commands if any(map(_is_from_agent, c.messages))), default=None)
        if number is None:
            return
        context = await self._store.load_context(thread_id, tail=0)
        last = context.open_run if context is not None else None
        if last is not None and last.agent_id in agents:
            await self._start_run(thread_id, None, number)

    async def _start_run(
        self, thread_id: str, agent_id: str | None, number: int
    ) -> asyncio.Task[None] | None:
        """Start a run in a thread that has no open run, if the command is still pending. Returns
        `None` if no run is needed: the owner of an open run delivers the command to it."""
        thread = await self._store.load_thread(thread_id)
        if thread is None or thread.owner is not None or thread.open_run_id is not None:
            return None
        if not await self._store.is_pending(number):
            return None
        reading = self._run_reader(thread_id, agent_id)
        return self._tasks.start_logged(reading, f"thread {thread_id} was not woken")

    async def _run_reader(self, thread_id: str, agent_id: str | None) -> None:
        try:
            await self._run(
                RunRequest(
                    thread_id=thread_id,
                    agent_id=agent_id,
                    wait_for_decisions=False,
                    left_on_close=True,
                    origin=RequestOrigin.INTERNAL,
                    run_mode=RunMode.INTERNAL_WAKE,
                )
            )
        except (RunLeft, ThreadAlreadyRunning):
            return  # another run reads it
        except AwakenError as error:
            # The message stays in the store: the thread's next run reads it.
            log.warning("thread %s was not woken: %s", thread_id, error)


def _is_from_agent(message: Message) -> bool:
    return message.metadata is not None and message.metadata.sender_agent_id is not None


async def root_of(store: Store, thread_id: str) -> str:
    """The thread at the top of a thread's tree."""
    seen = {thread_id}
    while True:
        thread = await store.load_thread(thread_id)
        above = thread.parent_thread_id if thread is not None else None
        if above is None or above in seen:
            return thread_id
        seen.add(above)
        thread_id = above
