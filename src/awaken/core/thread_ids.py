"""The ids of threads and runs: their scope, their family, and the ids of children. Pure.

An id is `[scope "/"] family ["~" rest]`. The scope is the tenant; the default scope has no name and
no slash. The family is the id of the root thread of a tree; every thread that a run of the tree
starts is `root~rest`. So the id of a new thread has its scope and family.

Ids of earlier versions follow no such rule, and are never parsed: a store keeps scope and family
beside every thread.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from awaken.errors import InvalidId

_SCOPE = re.compile(r"[a-z0-9-]{1,63}")
_GIVEN = re.compile(r"[A-Za-z0-9._:@=+-]{1,200}")
_TASK = "task-"


class ThreadFamily(NamedTuple):
    """The tree of threads that a thread is part of: its tenant, and the id of its root thread."""

    scope: str
    family: str


def parse_family(thread_id: str) -> ThreadFamily:
    """The family of a new root thread. A thread with a parent has its parent's family."""
    if "/" not in thread_id and "~" not in thread_id:
        return ThreadFamily("", thread_id)
    scope, slash, name = thread_id.partition("/")
    if not slash or not _SCOPE.fullmatch(scope):
        scope, name = "", thread_id
    family = name.partition("~")[0]
    return ThreadFamily(scope, family) if family else ThreadFamily("", thread_id)


def is_given_id(id: object) -> bool:
    """Whether a caller may use the id for a new thread."""
    return isinstance(id, str) and _GIVEN.fullmatch(id) is not None


def check_given_id(id: str) -> str:
    """The id, if a caller may use it for a new thread.

    Raises:
        InvalidId: it is empty, too long, or has a character that is not allowed.
    """
    if not is_given_id(id):
        raise InvalidId(id)
    return id


def is_scope(text: str) -> bool:
    """Whether the text is a valid name of a tenant; the default scope, the empty text, is none."""
    return _SCOPE.fullmatch(text) is not None


def is_given_in(scope: str, id: str) -> bool:
    """Whether a caller may use the id for a new thread of a scope; the default scope is the empty
    text."""
    if not scope:
        return is_given_id(id)
    before, slash, name = id.partition("/")
    return bool(slash) and before == scope and is_given_id(name)


def join_scope(scope: str, id: str) -> str:
    """The id of a caller's thread in a scope; the default scope is the empty text.

    Raises:
        InvalidId: the id, or the name of the scope, is not allowed.
    """
    check_given_id(id)
    if not scope:
        return id
    if not is_scope(scope):
        raise InvalidId(scope, what="scope", allowed="1 to 63 characters of a-z, 0-9 and '-'")
    return f"{scope}/{id}"


def without_scope(text: str, thread_id: str) -> str:
    """An error text for a model, without the scope in the ids of a thread's tree. Elsewhere the
    scope may be an ordinary word, and stays."""
    scope, family = parse_family(thread_id)
    if not scope or f"{scope}/{family}" not in text:
        return text
    id = rf"(?<![\w./:@=+-]){re.escape(scope)}/(?={re.escape(family)}(?![\w/@=+-]|[.:]\w))"
    return re.sub(id, "", text)


# -- children -----------------------------------------------------------------------------------


def child_id(parent_thread_id: str, key: str) -> str:
    """The id of the run, and of the thread, of the delegate that the call `key` starts."""
    return f"{parent_thread_id.partition('~')[0]}~{key}"


def earlier_child_id(key: str) -> str:
    """The id that earlier versions gave the delegate of the call `key`."""
    return f"child-{key}"


def child_ids(parent_thread_id: str, key: str) -> tuple[str, str]:
    """The ids under which the delegate of a call may be found: an earlier version's, and ours."""
    return earlier_child_id(key), child_id(parent_thread_id, key)


def task_uid(owner_thread_id: str, key: str) -> str:
    """The id of the run, and of the thread, of the background task that the call `key` starts.

    Earlier versions used the key itself.
    """
    return child_id(owner_thread_id, f"{_TASK}{key}")


def task_key(uid: str) -> str:
    """The key of the call that started a background task, from the task's id."""
    _, is_ours, key = uid.partition(f"~{_TASK}")
    return key if is_ours else uid


def agent_ids(uid: str) -> tuple[str, str]:
    """The ids under which the run of the agent in a background task may be found."""
    return child_ids(uid, task_key(uid))
