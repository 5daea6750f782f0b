"""Bringing messages from one thread's agent to another's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from awaken.clock import Clock
from awaken.contract.background import DurableMessageRequest
from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.store import Store
from awaken.domain.identity import RequestOrigin, RunMode
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, MessageMetadata
from awaken.errors import AwakenError
from awaken.loop import AgentRunResult
from awaken.runtime.request import RunRequest

_RECENT = 200
log = logging.getLogger("awaken.runtime")


class Messages:
    """Keeps messages for the threads they are meant for, and wakes those that nobody runs: a
    `DurableMessageSink`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        deliver: Callable[[str], Awaitable[None]],
        run: Callable[[RunRequest], Awaitable[AgentRunResult]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._deliver = deliver
        self._run = run
        self._waking: set[asyncio.Task[None]] = set()

    async def deliver(self, request: DurableMessageRequest) -> None:
        """Keep a message for its recipient, once; whoever runs the thread next reads it.

        Raises:
            NotFound: there is no such thread.
        """
        thread_id = request.recipient_thread_id
        if not await self._has(thread_id, request.message_id):
            message = msgspec.structs.replace(
                Message.user(request.message, id=request.message_id),
                metadata=MessageMetadata(sender_agent_id=request.sender_agent_id),
            )
            await self._store.send(
                ThreadCommand(
                    thread_id=thread_id,
                    kind=CommandKind.MESSAGES,
                    messages=(message,),
                    at_ms=self._clock.now_ms(),
                )
            )
        await self._deliver(thread_id)
        await self._wake(request)

    async def _has(self, thread_id: str, message_id: str) -> bool:
        """Whether a message that comes twice has come before."""
        for command in await self._store.load_commands(thread_id):
            if any(message.id == message_id for message in command.messages):
                return True
        context = await self._store.load_context(thread_id, tail=_RECENT)
        return context is not None and any(m.id == message_id for m in context.messages)

    async def _wake(self, request: DurableMessageRequest) -> None:
        """Start a run in a thread where none is open; one that waits is woken by the command."""
        context = await self._store.load_context(request.recipient_thread_id, tail=0)
        if context is None or context.thread.owner is not None or not context.commands:
            return
        if context.open_run is not None and context.open_run.status is not RunStatus.DONE:
            return
        task = asyncio.ensure_future(self._read(request))
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _read(self, request: DurableMessageRequest) -> None:
        try:
            await self._run(
                RunRequest(
                    thread_id=request.recipient_thread_id,
                    agent_id=request.recipient_agent_id,
                    wait_for_decisions=False,
                    left_on_close=True,
                    origin=RequestOrigin.INTERNAL,
                    run_mode=RunMode.INTERNAL_WAKE,
                )
            )
        except AwakenError as error:
            # The message is kept: the thread's next run reads it.
            log.warning("thread %s was not woken: %s", request.recipient_thread_id, error)


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
