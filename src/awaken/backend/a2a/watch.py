"""Following a task until it is done: by its stream, else by polling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from a2a.types.a2a_pb2 import Task

from awaken.backend.a2a.client import A2aClient, BadAnswer, Refused
from awaken.backend.a2a.deadline import Patience
from awaken.backend.a2a.snapshot import TaskSnapshot
from awaken.core.backend import RemoteError
from awaken.core.event import ActivitySnapshot
from awaken.net.pinned import Unanswered

log = logging.getLogger("awaken.backend.a2a")

PROGRESS_INTERVAL = 0.1
PROGRESS_RATE = 1024 * 1024
"""Bytes of progress for each second: a progress event has all output so far, so the more output
there is, the less often it is sent."""
_AT_ONCE = 32
"""How many events of a stream are read before other tasks may run."""

Tell = Callable[[ActivitySnapshot], Awaitable[None]]


class TaskWatch:
    """Watches the tasks of one activation, and emits their progress."""

    def __init__(
        self, client: A2aClient, patience: Patience, tell: Tell, *, streaming: bool
    ) -> None:
        self._client = client
        self._patience = patience
        self._tell = tell
        self._streaming = streaming
        self._next_at: float | None = None
        self._told: set[str] = set()

    async def observe(self, snapshot: TaskSnapshot) -> None:
        """Follow the task until it has ended, or waits for input.

        Raises:
            DeadlinePassed: the task takes too long.
            RemoteError: the task cannot be read any more.
        """
        if not snapshot.is_done and self._streaming:
            try:
                await self._follow(snapshot)
            except (Refused, Unanswered, BadAnswer) as error:
                log.info("task %r cannot be followed, polling it: %s", snapshot.id, error)
        if not snapshot.is_done:
            await self._poll(snapshot)

    async def _follow(self, snapshot: TaskSnapshot) -> None:
        whole, count = False, 0
        async with self._patience.in_time(), self._client.subscribe(snapshot.id) as events:
            async for event in events:
                snapshot.apply(event)
                whole = whole or event.HasField("task")
                await self.progress(snapshot)
                if snapshot.is_done:
                    break
                count += 1
                if count % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        if snapshot.is_done and not whole:
            # The stream did not begin with the task, so read it: earlier events are missing.
            snapshot.replace(await self._look(snapshot))
            await self._tell(snapshot.progress())

    async def _poll(self, snapshot: TaskSnapshot) -> None:
        while True:
            snapshot.replace(await self._look(snapshot))
            await self.progress(snapshot)
            if snapshot.is_done:
                return
            await self._patience.pause()

    async def _look(self, snapshot: TaskSnapshot) -> Task:
        async def out_of_reach(error: RemoteError) -> None:
            self._next_at = None
            await self._tell(snapshot.progress(unreachable=error.message))

        return await self._patience.ask(partial(self._client.get_task, snapshot.id), out_of_reach)

    async def progress(self, snapshot: TaskSnapshot) -> None:
        """Emit the task's progress, but not for every piece of text."""
        now, state = self._patience.clock.monotonic(), snapshot.state
        # A state is emitted at once when it is seen first, but not when a task returns to it.
        if self._next_at is not None and state in self._told and now < self._next_at:
            return
        told = 2 * snapshot.made.size  # as artifacts, and as text
        self._next_at = now + max(PROGRESS_INTERVAL, told / PROGRESS_RATE)
        self._told.add(state)
        await self._tell(snapshot.progress())
