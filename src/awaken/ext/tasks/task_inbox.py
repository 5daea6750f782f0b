"""Messages to background tasks in which an agent runs.

A message is stored in the task's own thread, which exists before the agent's run starts. The
process that runs the task moves the message to the agent's thread.
"""

from __future__ import annotations

import logging

import msgspec

from awaken.codec import Json
from awaken.core.aio.owned_tasks import log_error
from awaken.core.inbox import InboxReceiver, payload_messages
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.threads import find_child
from awaken.core.task import TaskHost
from awaken.errors import StaleFence, ThreadOwned, VersionConflict

RETRY_SECONDS = 1.0
log = logging.getLogger("awaken.runtime")


class TaskInbox:
    """Stores messages to tasks, and moves each one to the task's agent exactly once."""

    def __init__(self, host: TaskHost) -> None:
        self._store, self._clock, self._deliver = host.store, host.clock, host.deliver

    async def store_message(self, thread_id: str, id: str, event: Json) -> None:
        """Store an event for the process that runs a task. A second event with the same id is
        ignored.

        Raises:
            StoreError: it could not be stored.
        """
        (message,) = payload_messages(event)
        await self._store.send(
            ThreadCommand(
                thread_id=thread_id,
                kind=CommandKind.MESSAGES,
                messages=(msgspec.structs.replace(message, id=id),),
                at_ms=self._clock.now_ms(),
                key=id,
            )
        )

    async def forward(self, messages: InboxReceiver, fence: Fence, key: str) -> None:
        """Move a task's messages to the thread of its agent, until another process owns the task.
        `key` is that of the call that started the agent."""
        while True:
            event = await messages.recv()
            while True:
                try:
                    agent = await find_child(self._store, fence.thread_id, key)
                    await self._open(fence.thread_id, agent)
                    await self._move(event, fence, agent)
                    break
                except StaleFence:
                    return  # the new owner of the task moves them
                except Exception as error:
                    log_error(error, f"a message to the agent of {fence.thread_id} is delayed", log)
                    await self._clock.sleep(RETRY_SECONDS)

    async def _open(self, task: str, agent: str) -> None:
        """Create the agent's thread if it does not exist, so that an agent that starts later finds
        its messages there."""
        seen = 0
        while await self._store.load_thread(agent) is None:
            begin = ThreadCommit(
                thread_id=agent,
                expected_length=0,
                parent_thread_id=task,
                at_ms=self._clock.now_ms(),
            )
            try:
                await self._store.commit(begin)
            except (StaleFence, ThreadOwned, VersionConflict):
                seen = await self._store.wait_changed(agent, seen)  # the agent is starting

    async def _move(self, event: Json, fence: Fence, agent: str) -> None:
        now = self._clock.now_ms()
        sends = [
            ThreadCommand(
                thread_id=agent,
                kind=CommandKind.MESSAGES,
                messages=(message,),
                at_ms=now,
                key=message.id,
            )
            for message in payload_messages(event)
        ]
        commit = ThreadCommit(
            thread_id=fence.thread_id,
            expected_length=0,
            acks=(event["command"],),
            sends=tuple(sends),
            at_ms=now,
            fence=fence,
        )
        await self._store.commit(commit)
        await self._deliver(agent)
