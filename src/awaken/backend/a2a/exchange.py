"""One activation on a remote agent: delivering a message once, and following its task to the end.

Durable before remote: state that a crash must not lose is stored before anything is sent, and again
as soon as the task is known. An activation that was interrupted continues with the same task; it
never sends a message twice that may have arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
from a2a.types.a2a_pb2 import Message as A2aMessage
from a2a.types.a2a_pb2 import Role, Task

from awaken.backend.a2a.client import A2aClient, AgentRefused, BadAnswer
from awaken.backend.a2a.config import A2aConfig
from awaken.backend.a2a.deadline import Deadline, DeadlinePassed
from awaken.backend.a2a.lookup import ABSENT, LookupUnsupported, find_task, stop_task
from awaken.backend.a2a.messages import message_id, parts_of, select_unanswered, sendable_messages
from awaken.backend.a2a.snapshot import (
    ExchangeOutcome,
    TaskSnapshot,
    outcome_of,
    outcome_of_message,
    state_name,
    timeout_outcome,
)
from awaken.backend.a2a.state import DIRECT_MESSAGE, VERSION, RemoteTask, Sending
from awaken.clock import Clock
from awaken.core.backend import ExecutionBackendError, ExecutionFailed, RemoteError
from awaken.core.event import ActivitySnapshot
from awaken.core.message import Message
from awaken.core.value import Value
from awaken.net.pinned import Unanswered
from awaken.net.url_policy import UrlRefused

log = logging.getLogger("awaken.backend.a2a")
_replace = msgspec.structs.replace
SEND_TRIES = 3
CANCEL_GRACE = 5.0
ProgressCallback = Callable[[ActivitySnapshot], Awaitable[None]]


class ExchangeInput(Value, frozen=True, kw_only=True):
    """The input of an activation. Only a root run has a `thread_id`."""

    run_id: str
    thread_id: str | None = None
    messages: Sequence[Message]
    new_messages: Sequence[Message]
    known: RemoteTask | None = None
    is_continuation: bool = False

    @property
    def own_task(self) -> RemoteTask | None:
        """The stored task of this run; `None` if it belongs to an earlier run of the thread."""
        known = self.known
        if known is None:
            return None
        if known.run_id is None:
            return known if self.is_continuation else None
        return known if known.run_id == self.run_id else None


class A2aExchange:
    """One activation, from the stored state to its outcome.

    Args:
        save: stores the task's state; awaited before the next step, which depends on it.
        on_progress: called with each progress event.
    """

    def __init__(
        self,
        client: A2aClient,
        config: A2aConfig,
        request: ExchangeInput,
        *,
        save: Callable[[RemoteTask], Awaitable[None]],
        on_progress: ProgressCallback,
        clock: Clock,
    ) -> None:
        self._client = client
        self._config = config
        self._request = request
        self._save = save
        self._clock = clock
        self._deadline = Deadline(clock, config.timeout, config.poll_interval)
        self._watch = TaskWatch(
            client, self._deadline, on_progress, streaming=config.options.streaming
        )
        self._snapshot: TaskSnapshot | None = None
        self.left_running: str | None = None
        self.task = request.own_task or _inherit_task(request.known)

    async def run(self) -> ExchangeOutcome:
        """
        Raises:
            ExecutionBackendError: there is no outcome.
        """
        try:
            answer = await self._run_to_end()
        except DeadlinePassed:
            if self._snapshot is not None:
                self._note(self._snapshot.task)
            if self._config.options.cancel_on_timeout:
                await self.stop()
            elif self.task.may_run:
                self.left_running = f"{self.task.name} goes on: cancel_on_timeout is off"
            return timeout_outcome(self._snapshot)
        if isinstance(answer, A2aMessage):
            return outcome_of_message(answer)
        return outcome_of(answer)

    async def stop(self) -> None:
        """Try for a few seconds to cancel the remote task. If it may still run, `left_running` says
        so."""
        try:
            async with asyncio.timeout(CANCEL_GRACE):
                cancelled = await stop_task(self._client, self.task, self._clock)
        except (ExecutionBackendError, TimeoutError) as error:
            why = error.message if isinstance(error, ExecutionBackendError) else "no answer in time"
            self.left_running = f"{self.task.name} was not cancelled: {why}"
            log.warning("run %s: %s", self._request.run_id, self.left_running)
            return
        if cancelled is not None:
            self._note(cancelled)

    # -- one activation ------------------------------------------------------------------------

    async def _run_to_end(self) -> TaskSnapshot | A2aMessage:
        unsent = self._list_unsent()
        answer = await self._continue_sent(unsent)
        if isinstance(answer, TaskSnapshot):
            await self._follow(answer)
            if not (answer.is_interrupted and unsent):
                return answer
        elif answer is not None:
            return answer
        answer = await self._send(unsent)
        if isinstance(answer, TaskSnapshot):
            await self._follow(answer)
        return answer

    async def _follow(self, snapshot: TaskSnapshot) -> None:
        await self._watch.observe(snapshot)
        self._note(snapshot.task)

    def _list_unsent(self) -> list[Message]:
        """The messages that the agent does not have yet."""
        request, own_task = self._request, self._request.own_task
        new = sendable_messages(request.new_messages)
        if own_task is not None:
            return [message for message in new if message.id not in own_task.sent_ids]
        if new:
            return new
        # There are no new messages: if the agent knows the conversation, send those without an
        # answer.
        known = self.task.context_id is not None
        return sendable_messages(select_unanswered(request.messages) if known else request.messages)

    async def _continue_sent(self, unsent: Sequence[Message]) -> TaskSnapshot | A2aMessage | None:
        """The task or answer of a message that this run has sent before, or `None`."""
        own_task = self._request.own_task
        if own_task is None:
            return None
        if own_task.sending is not None:
            return await self._deliver(
                own_task.sending, self._list_sent(own_task.sending), ask_first=True
            )
        if own_task.task_id is None or (own_task.is_interrupted and unsent):
            return None
        try:
            task = await self._deadline.retry(partial(self._client.get_task, own_task.task_id))
        except AgentRefused as error:
            if not error.is_missing_task:
                raise
            raise RemoteError(
                f"the agent does not know task {own_task.task_id!r} of run "
                f"{self._request.run_id!r} any more: what it did is "
                "unknown; check at the agent, then start a new run"
            ) from error
        return await self._save_found(task)

    # -- sending ------------------------------------------------------------------------------

    async def _send(self, messages: Sequence[Message]) -> TaskSnapshot | A2aMessage:
        if not messages:
            raise ExecutionFailed("no user message content to send")
        request, reused = self._request, self.task.is_interrupted
        sending = Sending(
            message_id=message_id(request.run_id, messages),
            context_id=self.task.context_id or request.thread_id,
            task_id=self.task.task_id if reused else None,
            input_ids=tuple(message.id for message in messages if message.id),
        )
        self.task = _replace(
            self.task,
            run_id=request.run_id,
            task_id=sending.task_id,
            last_state=self.task.last_state if reused else None,
            updated_at_ms=self._clock.now_ms(),
            sending=sending,
            sent_ids=tuple(dict.fromkeys((*self.task.sent_ids, *sending.input_ids))),
        )
        await self._save(self.task)
        try:
            return await self._deliver(sending, messages, ask_first=False)
        except AgentRefused as error:
            if not reused or request.own_task is not None or not error.is_about_request:
                raise
            # The earlier run was left waiting, and its task is gone: start a new task.
            log.info("task %r takes no messages, sending without it: %s", sending.task_id, error)
            self.task = _replace(self.task, task_id=None, last_state=None)
            return await self._send(messages)

    def _list_sent(self, sending: Sending) -> list[Message]:
        """The messages of an earlier sending, to send them again."""
        wanted = frozenset(sending.input_ids)
        everything = [*self._request.messages, *self._request.new_messages]
        by_id = {message.id: message for message in everything if message.id in wanted}
        return list(by_id.values())

    async def _deliver(
        self, sending: Sending, messages: Sequence[Message], *, ask_first: bool
    ) -> TaskSnapshot | A2aMessage:
        """Deliver a message once, as far as that can be known."""
        lost: RemoteError = RemoteError("the process ended before the agent's answer was kept")
        is_first = not ask_first and sending.task_id is None
        for _ in range(SEND_TRIES):
            if ask_first:
                found = await self._find_sent(sending, lost)
                if found is not None:
                    return await self._save_found(found)
            try:
                return await self._post(sending, messages)
            except UrlRefused as error:
                error.is_over = is_first
                raise
            except Unanswered as error:
                if not error.arrived:
                    error.is_over = is_first
                    raise
                lost, ask_first = error, True
            except AgentRefused as error:
                if not error.is_busy:
                    error.is_over = is_first and error.is_rejected
                    raise
                lost, ask_first = error, ask_first or error.status != 429
            is_first = is_first and not ask_first
            log.warning("sending for run %s failed, looking again: %s", self._request.run_id, lost)
            await self._deadline.pause()
        raise lost

    async def _find_sent(self, sending: Sending, lost: RemoteError) -> Task | None:
        known = self.task.context_id is not None
        try:
            found = await self._deadline.retry(partial(find_task, self._client, sending, known))
        except (LookupUnsupported, AgentRefused, Unanswered, BadAnswer) as error:
            if self._config.options.resend_unknown:
                return None
            raise RemoteError(
                f"it is unknown whether message {sending.message_id!r} of run "
                f"{self._request.run_id!r} arrived ({lost.message}), and the agent cannot tell "
                f"({error.message}): check at the agent what happened, then start a new run; "
                "or set the endpoint's option resend_unknown to have such a message sent again"
            ) from error
        return None if found is ABSENT else found

    async def _post(
        self, sending: Sending, messages: Sequence[Message]
    ) -> TaskSnapshot | A2aMessage:
        message = A2aMessage(
            message_id=sending.message_id,
            context_id=sending.context_id,
            task_id=sending.task_id,
            role=Role.ROLE_USER,
            parts=[part for message in messages for part in parts_of(message)],
        )
        if not message.parts or not {one.id for one in messages}.issuperset(sending.input_ids):
            raise ExecutionFailed(
                f"the messages of {sending.message_id!r} are not in the thread any more"
            )
        async with self._deadline.limit() as left:
            answer = await self._client.send(message, left)
        if isinstance(answer, Task):
            return await self._save_found(answer)
        self.task = _replace(
            self.task,
            task_id=None,
            context_id=answer.context_id or self.task.context_id,
            last_state=DIRECT_MESSAGE,
            updated_at_ms=self._clock.now_ms(),
            sending=None,
        )
        return answer

    async def _save_found(self, task: Task) -> TaskSnapshot:
        """Note a task that is now known: store it and emit its progress."""
        before = self.task
        self._note(task)
        if (before.task_id, before.sending) != (self.task.task_id, None):
            await self._save(self.task)
        snapshot = self._snapshot = TaskSnapshot(task)
        await self._watch.progress(snapshot)
        return snapshot

    def _note(self, task: Task) -> None:
        self.task = _replace(
            self.task,
            run_id=self._request.run_id,
            task_id=task.id or self.task.task_id,
            context_id=task.context_id or self.task.context_id,
            last_state=state_name(task),
            updated_at_ms=self._clock.now_ms(),
            sending=None,
        )


def _inherit_task(known: RemoteTask | None) -> RemoteTask:
    """The task that a new run begins with: the conversation of the run before, and its task if
    that waits for input."""
    if known is None:
        return RemoteTask(version=VERSION)
    task = RemoteTask(version=VERSION, context_id=known.context_id)
    if known.is_interrupted:
        task = _replace(task, task_id=known.task_id, last_state=known.last_state)
    return task


# -- following a task -------------------------------------------------------------------------

PROGRESS_INTERVAL = 0.1
PROGRESS_RATE = 1024 * 1024
"""Bytes of progress for each second: a progress event has all output so far, so the more output
there is, the less often it is sent."""
_MAX_EVENTS_AT_ONCE = 32
"""How many events of a stream are read before other tasks may run."""


class TaskWatch:
    """Follows the tasks of one activation, and emits their progress.

    A task is followed by its stream of events if the agent has one, else by polling it.
    """

    def __init__(
        self,
        client: A2aClient,
        deadline: Deadline,
        on_progress: ProgressCallback,
        *,
        streaming: bool,
    ) -> None:
        self._client = client
        self._deadline = deadline
        self._on_progress = on_progress
        self._streaming = streaming
        self._next_at: float | None = None
        self._emitted_states: set[str] = set()

    async def observe(self, snapshot: TaskSnapshot) -> None:
        """Follow the task until it has ended, or waits for input.

        Raises:
            DeadlinePassed: the task takes too long.
            RemoteError: the task cannot be read any more.
        """
        if not snapshot.is_done and self._streaming:
            try:
                await self._follow(snapshot)
            except (AgentRefused, Unanswered, BadAnswer) as error:
                log.info("task %r cannot be followed, polling it: %s", snapshot.id, error)
        if not snapshot.is_done:
            await self._poll(snapshot)

    async def _follow(self, snapshot: TaskSnapshot) -> None:
        whole, count = False, 0
        async with self._deadline.limit(), self._client.subscribe(snapshot.id) as events:
            async for event in events:
                snapshot.apply(event)
                whole = whole or event.HasField("task")
                await self.progress(snapshot)
                if snapshot.is_done:
                    break
                count += 1
                if count % _MAX_EVENTS_AT_ONCE == 0:
                    await asyncio.sleep(0)
        if snapshot.is_done and not whole:
            # The stream did not begin with the task, so read it: earlier events are missing.
            snapshot.replace(await self._read_task(snapshot))
            await self._on_progress(snapshot.progress())

    async def _poll(self, snapshot: TaskSnapshot) -> None:
        while True:
            snapshot.replace(await self._read_task(snapshot))
            await self.progress(snapshot)
            if snapshot.is_done:
                return
            await self._deadline.pause()

    async def _read_task(self, snapshot: TaskSnapshot) -> Task:
        async def on_failure(error: RemoteError) -> None:
            self._next_at = None
            await self._on_progress(snapshot.progress(unreachable=error.message))

        return await self._deadline.retry(partial(self._client.get_task, snapshot.id), on_failure)

    async def progress(self, snapshot: TaskSnapshot) -> None:
        """Emit the task's progress, but not for every piece of text."""
        now, state = self._deadline.clock.monotonic(), snapshot.state
        # A state is emitted at once when it is seen first, but not when a task returns to it.
        if self._next_at is not None and state in self._emitted_states and now < self._next_at:
            return
        size = 2 * snapshot.made.size  # as artifacts, and as text
        self._next_at = now + max(PROGRESS_INTERVAL, size / PROGRESS_RATE)
        self._emitted_states.add(state)
        await self._on_progress(snapshot.progress())
