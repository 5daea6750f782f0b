"""Asking the agent whether a message arrived, and cancelling the task that it started."""

from __future__ import annotations

from enum import Enum

from a2a.types.a2a_pb2 import Task

from awaken.backend.a2a.client import A2aClient, AgentRefused, BadAnswer
from awaken.backend.a2a.snapshot import state_name
from awaken.backend.a2a.state import INTERRUPTED, TERMINAL, RemoteTask, Sending
from awaken.clock import Clock
from awaken.core.backend import RemoteError

_MAX_PAGES = 20
_MAX_PAGES_OF_ALL = 3
_RETRY_PAUSES = (0.1, 0.3, 1.0)
"""Seconds between attempts to find a message that was sent a moment ago."""


class Absent(Enum):
    """The agent has never seen the message."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class LookupUnsupported(RemoteError):
    """The agent offers no way to find out whether a message arrived."""


async def find_task(client: A2aClient, sending: Sending, known_context: bool) -> Task | Absent:
    """The task that a message started or answered; `ABSENT` if the message did not arrive.

    Args:
        known_context: whether the agent has named the context before. If not, the agent may have
            given the context another name, so all of its newest tasks are searched.

    Raises:
        Unknowable: the agent cannot tell.
        Refused, BadAnswer, Unanswered: the agent did not answer properly.
    """
    if sending.task_id is not None:
        return await _find_answered(client, sending, sending.task_id)
    found = await _find_listed(client, sending, sending.context_id, _MAX_PAGES)
    if found is ABSENT and sending.context_id is not None and not known_context:
        found = await _find_anywhere(client, sending)
    return found


async def _find_answered(client: A2aClient, sending: Sending, task_id: str) -> Task | Absent:
    """The task that the message answers; `ABSENT` if the message did not reach it."""
    task = await client.get_task(task_id, whole_history=True)
    if _has_message(task, sending) or state_name(task) not in INTERRUPTED:
        return task
    if not task.history:
        raise LookupUnsupported(f"task {task_id!r} does not tell its history")
    return ABSENT


async def _find_anywhere(client: A2aClient, sending: Sending) -> Task | Absent:
    try:
        return await _find_listed(client, sending, None, _MAX_PAGES_OF_ALL, strict=False)
    except (AgentRefused, BadAnswer):
        return ABSENT  # the message is not in its own context, which was searched before


async def _find_listed(
    client: A2aClient,
    sending: Sending,
    context_id: str | None,
    pages: int,
    *,
    strict: bool = True,
) -> Task | Absent:
    """The task with the message, among the listed ones. A strict search raises for tasks without a
    history."""
    token = ""
    for _ in range(pages):
        page = await client.list_tasks(context_id, token)
        for task in page.tasks:
            if strict and not task.history:  # some agents list tasks without their history
                task = await client.get_task(task.id, whole_history=True)
            if _has_message(task, sending):
                return task
            if strict and not task.history:
                raise LookupUnsupported(f"task {task.id!r} does not tell its history")
        token = page.next_page_token
        if not token:
            return ABSENT
    if not strict:
        return ABSENT
    raise LookupUnsupported("there are too many tasks to look through")


def _has_message(task: Task, sending: Sending) -> bool:
    messages = [*task.history, task.status.message]
    return any(message.message_id == sending.message_id for message in messages)


async def stop_task(client: A2aClient, task: RemoteTask, clock: Clock) -> Task | None:
    """Cancel a task that may still run, and wait for its end. Returns the ended task, or `None` if
    there was nothing to cancel.

    A message in flight may arrive at any moment, so it is looked for more than once. A task may
    take a moment to end, so it is polled.

    Raises:
        RemoteError: the task could not be cancelled, or still runs.
    """
    if not task.may_run:
        return None
    task_id = task.task_id
    if task.sending is not None:
        found = await find_task(client, task.sending, task.context_id is not None)
        for pause in _RETRY_PAUSES:
            if found is not ABSENT:
                break
            await clock.sleep(pause)
            found = await find_task(client, task.sending, task.context_id is not None)
        # If the message never arrived, the task that it should answer, if any, still waits for it.
        task_id = task.sending.task_id if found is ABSENT else found.id
        if task_id is None:
            return None
    assert task_id is not None, "a task that may run is known by its id, or on its way"
    try:
        stopped = await client.cancel_task(task_id)
        for pause in _RETRY_PAUSES:
            if state_name(stopped) in TERMINAL:
                return stopped
            await clock.sleep(pause)
            stopped = await client.get_task(task_id)
    except AgentRefused as error:
        if error.is_missing_task:
            return None
        if error.reason != "TASK_NOT_CANCELABLE":
            raise
        stopped = await client.get_task(task_id)
    if state_name(stopped) in TERMINAL:
        return stopped
    raise RemoteError(f"task {task_id!r} was cancelled and is still {state_name(stopped)}")
