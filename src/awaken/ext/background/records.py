"""Tasks as records: who belongs to whom, which are kept, what a restart makes of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from awaken.contract.background import PersistedTaskMeta, TaskStatus

RESERVED_NAMES = frozenset({"parent", "self", "all", "broadcast"})
ORPHANED = "task orphaned: runtime restarted while running"

_NUMBERED = re.compile(r"bg_(\d+)", re.ASCII)
_replace = msgspec.structs.replace


def number_of(task_id: str) -> int | None:
    """The n of `bg_<n>`."""
    found = _NUMBERED.fullmatch(task_id)
    return int(found[1]) if found else None


def next_number(task_ids: Iterable[str]) -> int:
    """The first number above all of them."""
    numbers = (number for task_id in task_ids if (number := number_of(task_id)) is not None)
    return max(numbers, default=-1) + 1


# -- families ---------------------------------------------------------------------------------


def is_child(task: PersistedTaskMeta, of: PersistedTaskMeta) -> bool:
    """Whether a task belongs directly to another one."""
    if task.parent_uid is not None:
        return task.parent_uid == of.uid
    parent = task.parent_context.task_id
    return parent == of.task_id and task.owner_thread_id == of.owner_thread_id


def family(root: PersistedTaskMeta, tasks: Iterable[PersistedTaskMeta]) -> list[PersistedTaskMeta]:
    """A task and all that belong to it, each once, however they are linked."""
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


def retained(tasks: Mapping[str, PersistedTaskMeta], most: int) -> dict[str, PersistedTaskMeta]:
    """All tasks that run, what they belong to, and the last ones that ended, `most` a thread."""
    needed: set[str] = set()
    for task in tasks.values():
        if task.is_terminal:
            continue
        above = task.parent_context.task_id
        while above is not None and above in tasks and above not in needed:
            needed.add(above)
            above = tasks[above].parent_context.task_id
    counts: dict[str, int] = {}
    kept: set[str] = set()
    for task in sorted(tasks.values(), key=_ended, reverse=True):
        if task.is_terminal and task.task_id not in needed:
            counts[task.owner_thread_id] = counts.get(task.owner_thread_id, 0) + 1
            if counts[task.owner_thread_id] > most:
                continue
        kept.add(task.task_id)
    return {task_id: task for task_id, task in tasks.items() if task_id in kept}


def _ended(task: PersistedTaskMeta) -> tuple[int, int]:
    at = task.created_at_ms if task.completed_at_ms is None else task.completed_at_ms
    return at, number_of(task.task_id) or 0


# -- restarts ---------------------------------------------------------------------------------


def orphaned(task: PersistedTaskMeta, thread_id: str, now_ms: int) -> PersistedTaskMeta:
    """A task that is said to run, and that nobody runs for this thread."""
    error = ORPHANED
    if task.owner_thread_id not in ("", thread_id):
        error = f"task stayed with thread '{task.owner_thread_id}', this one was forked from it"
    return _replace(
        task,
        owner_thread_id=thread_id,
        status=TaskStatus.FAILED,
        error=error,
        completed_at_ms=now_ms,
    )
