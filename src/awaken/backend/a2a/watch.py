"""Following a task until it is done: by its stream, else by looking at it now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from a2a.types.a2a_pb2 import Task

from awaken.backend.a2a.client import A2aClient, BadAnswer, Refused
from awaken.backend.a2a.http import Unanswered
from awaken.backend.a2a.patience import Patience
from awaken.backend.a2a.snapshot import TaskSnapshot
from awaken.contract.backend import RemoteError
from awaken.domain.event import ActivitySnapshot

log = logging.getLogger("awaken.backend.a2a")

PROGRESS_INTERVAL = 0.1
PROGRESS_RATE = 1024 * 1024
"""Bytes of progress a second: all that was made is told each time, so it is told less often the
more there is of it."""
_AT_ONCE = 32
"""How many events of a stream are read before others have their turn."""

Tell = Callable[[ActivitySnapshot], Awaitable[None]]


class TaskWatch:
    """Watches one turn's tasks, and tells how they come along."""

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
        """Follow the task until it ended, or waits for us.

        Raises:
            DeadlinePassed: it takes too long.
            RemoteError: it cannot be seen any more.
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
            # Without a task to begin with, what happened before we listened is missing.
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
        """Tell where the task stands, though not for every letter it writes."""
        now, state = self._patience.clock.monotonic(), snapshot.state
        # A state is told at once when it is new: a task that goes back and forth is not.
        if self._next_at is not None and state in self._told and now < self._next_at:
            return
        told = 2 * snapshot.made.size  # as artifacts, and as text
        self._next_at = now + max(PROGRESS_INTERVAL, told / PROGRESS_RATE)
        self._told.add(state)
        await self._tell(snapshot.progress())
