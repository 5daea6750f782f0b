"""Task records: which are related, which are kept, and what a restart changes in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus, cut_short

RESERVED_NAMES = frozenset({"parent", "self", "all", "broadcast"})
ERROR_KEPT = 500
ORPHANED = "task orphaned: runtime restarted while running"

_replace = msgspec.structs.replace


def number_of(task_id: str) -> int | None:
    """The n of `bg_<n>`, or `None` for any other id."""
    digits = task_id.removeprefix("bg_")
    is_numbered = len(digits) < len(task_id) and digits.isascii() and digits.isdigit()
    return int(digits) if is_numbered else None


def next_number(task_ids: Iterable[str]) -> int:
    """The first number above all of them."""
    numbers = (number for task_id in task_ids if (number := number_of(task_id)) is not None)
    return max(numbers, default=-1) + 1


# -- families ---------------------------------------------------------------------------------


def is_child(task: PersistedTaskMeta, of: PersistedTaskMeta) -> bool:
    """Whether a task was started directly by another one."""
    if task.parent_uid is not None:
        return task.parent_uid == of.uid
    parent = task.parent_context.task_id
    return parent == of.task_id and task.owner_thread_id == of.owner_thread_id


def family(root: PersistedTaskMeta, tasks: Iterable[PersistedTaskMeta]) -> list[PersistedTaskMeta]:
    """A task and all its descendants, each once."""
    by_uid: dict[str, list[PersistedTaskMeta]] = {}
    by_name: dict[tuple[str, str], list[PersistedTaskMeta]] = {}
    for task in tasks:
        parent = task.parent_context.task_id
        if task.parent_uid is not None:
            by_uid.setdefault(task.parent_uid, []).append(task)
        elif parent is not None:
            by_name.setdefault((task.owner_thread_id, parent), []).append(task)
    members = {root.uid: root}
    open_members = [root]
    while open_members:
        member = open_members.pop()
        children = (
            *by_uid.get(member.uid, ()),
            *by_name.get((member.owner_thread_id, member.task_id), ()),
        )
        for child in children:
            if child.uid not in members:
                members[child.uid] = child
                open_members.append(child)
    return list(members.values())


# -- retention --------------------------------------------------------------------------------


def retain_latest(
    tasks: Mapping[str, PersistedTaskMeta], limit: int
) -> dict[str, PersistedTaskMeta]:
    """All running tasks with their ancestors, and the last `limit` tasks of each thread that
    ended."""
    needed: set[str] = set()
    for task in tasks.values():
        if task.is_terminal:
            continue
        above = task.parent_context.task_id
        while above is not None and above in tasks and above not in needed:
            needed.add(above)
            above = tasks[above].parent_context.task_id
    counts: dict[str, int] = {}
    gone: set[str] = set()
    ended = [t for t in tasks.values() if t.is_terminal and t.task_id not in needed]
    for task in sorted(ended, key=_end_order, reverse=True) if len(ended) > limit else ():
        counts[task.owner_thread_id] = counts.get(task.owner_thread_id, 0) + 1
        if counts[task.owner_thread_id] > limit:
            gone.add(task.task_id)
    return {task_id: task for task_id, task in tasks.items() if task.task_id not in gone}


def _end_order(task: PersistedTaskMeta) -> tuple[int, int]:
    at = task.created_at_ms if task.completed_at_ms is None else task.completed_at_ms
    return at, number_of(task.task_id) or 0


def shorten_record(task: PersistedTaskMeta) -> PersistedTaskMeta:
    """The short record of an ended task, for a thread's state; the journal has the whole one."""
    if not task.is_terminal:
        return task
    error = task.error
    if error is not None and len(error) > ERROR_KEPT:
        error = f"{error[:ERROR_KEPT]}…"
    above = TaskParentContext(task_id=task.parent_context.task_id)
    return _replace(task, result=None, error=error, parent_context=above, effect=None)


# -- restarts ---------------------------------------------------------------------------------


def build_orphan_record(task: PersistedTaskMeta, thread_id: str, now_ms: int) -> PersistedTaskMeta:
    """The record, as failed, of a task that is recorded as running but runs in no process."""
    error = ORPHANED
    if task.owner_thread_id not in ("", thread_id):
        error = f"task stayed with thread '{task.owner_thread_id}', this one was forked from it"
    lost = _replace(
        task, owner_thread_id=thread_id, status=TaskStatus.FAILED, completed_at_ms=now_ms
    )
    return cut_short(lost, error)
