"""The summary of a delegate's actions, for the model whose call to it ends without an answer.

Only commits count: the call ledger says which calls have ended, the message log what they returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from awaken.codec import Json, dumps_text
from awaken.core.message import Role
from awaken.core.run import RunRecord
from awaken.core.store.commits import CallEntry, CallPhase, call_key
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery
from awaken.core.task import StoredTask, TaskStatus
from awaken.core.thread_ids import agent_ids, child_ids, task_uid
from awaken.core.tool import OUTCOME_UNKNOWN, ToolEffect

LIMIT = 4000
"""The approximate length of the whole text; calls that only read are left out first."""
_ARGUMENTS = 160
_RESULT = 240
_UNKNOWN = "unknown whether it took effect"

EffectOf = Callable[[str, str], ToolEffect | None]
"""The effect of an agent's tool, by their names; `None` if this process does not have them."""


class _Action(NamedTuple):
    """A call that has ended or may have taken effect, in words."""

    text: str
    is_read: bool


class _LoggedCall(NamedTuple):
    """A call in the message log: its arguments, and its result, which is empty if missing."""

    arguments: Json
    result: str


class DelegateSummary:
    """Describes the actions of runs, with those of the delegates and background tasks that they
    started."""

    def __init__(self, store: Store, effect_of: EffectOf) -> None:
        self._store = store
        self._effect_of = effect_of

    async def summarize(self, run_id: str) -> str | None:
        """Describe the calls of a run and of the runs below it, as `before that it had done: …`.

        Returns `None` if none of their calls has ended or may have taken effect.
        """
        actions = await self._run_actions(run_id)
        return f"before that it had done: {_join_actions(actions)}" if actions else None

    async def _run_actions(self, run_id: str) -> list[_Action]:
        run = await self._store.load_run(run_id)
        if run is None:
            return []
        started = await self._load_started_runs(run_id)
        logged = await self._load_logged_calls(run.thread_id)
        waiting = run.waiting.tickets if run.waiting is not None else ()
        # If a call asks more than once, its tickets' keys end in `#` and a number.
        unsure = {
            (ticket.key or "").partition("#")[0]
            for ticket in waiting
            if ticket.reason == OUTCOME_UNKNOWN and ticket.asker is None
        }
        actions: list[_Action] = []
        for entry in await self._store.load_calls(run_id):
            task = _pop_run((entry.key, task_uid(run.thread_id, entry.key)), started)
            delegate = _pop_run(child_ids(run.thread_id, entry.key), started)
            call = logged.get(entry.key, _LoggedCall(None, ""))
            arguments = call.arguments if entry.arguments is None else entry.arguments
            name = f"{entry.tool_name}({_render_arguments(arguments)})"
            if task is not None and entry.phase is CallPhase.SUCCEEDED:
                actions += await self._task_actions(task, name)
            elif entry.phase is not CallPhase.SUCCEEDED and delegate is not None:
                actions += await self._run_actions(delegate.run_id)
            elif action := self._call_action(
                run, entry, name, call.result, is_unsure=entry.key in unsure
            ):
                actions.append(action)
        for task in started.values():
            if task.is_task:
                actions += await self._task_actions(task, StoredTask.of(task).task.description)
        return actions

    def _call_action(
        self, run: RunRecord, entry: CallEntry, name: str, result: str, *, is_unsure: bool
    ) -> _Action | None:
        effect = self._effect_of(run.agent_id, entry.tool_name)
        is_read = effect is ToolEffect.READ
        if entry.held is not None:
            result = entry.held.text()
        # The ledger has arguments only for calls that were started.
        is_begun = entry.arguments is not None
        match entry.phase:
            case CallPhase.SUCCEEDED:
                return _Action(f"{name} → {_shorten(result, _RESULT)}", is_read)
            case CallPhase.FAILED if is_begun and not is_read:
                return _Action(f"{name} → failed: {_shorten(result, _RESULT)}", False)
            case CallPhase.INTENT if effect not in (ToolEffect.READ, ToolEffect.IDEMPOTENT):
                return _Action(f"{name} → {_UNKNOWN}", False)
            case CallPhase.UNKNOWN:
                return _Action(f"{name} → {_UNKNOWN}", False)
            case _ if is_unsure:
                return _Action(f"{name} → {_UNKNOWN}", False)
        return None

    async def _task_actions(self, record: RunRecord, name: str) -> list[_Action]:
        """The actions of a background task: its result, or the actions of its agent so far."""
        stored = StoredTask.of(record)
        task, is_read = stored.task, stored.task.effect is ToolEffect.READ
        if task.status is TaskStatus.COMPLETED:
            return [_Action(f"{name} → {_shorten(record.final_output or '', _RESULT)}", is_read)]
        if stored.agent_key is not None:
            earlier, ours = agent_ids(record.run_id)
            return await self._run_actions(earlier) or await self._run_actions(ours)
        may_be_done = task.effect not in (ToolEffect.READ, ToolEffect.IDEMPOTENT)
        if task.outcome_unknown or (not task.is_terminal and may_be_done):
            return [_Action(f"{name} → {_UNKNOWN}", False)]
        if task.status is TaskStatus.FAILED and not is_read:
            return [_Action(f"{name} → failed: {_shorten(task.error or '', _RESULT)}", False)]
        return []

    async def _load_started_runs(self, run_id: str) -> dict[str, RunRecord]:
        """The delegates and tasks that a run started, by run id, oldest first."""
        query, found = RunQuery(parent_run_id=run_id), list[RunRecord]()
        while True:
            page = await self._store.list_runs(query)
            found += page
            if page.cursor is None:
                return {record.run_id: record for record in reversed(found)}
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def _load_logged_calls(self, thread_id: str) -> Mapping[str, _LoggedCall]:
        """The calls in a thread's message log, by their ledger keys."""
        logged: dict[str, _LoggedCall] = {}
        keys: dict[str, str] = {}  # models may reuse a call id: a result is the latest call's
        for message in await self._store.load_messages(thread_id, hidden=True):
            for index, call in enumerate(message.tool_calls or ()):
                key = keys[call.id] = call_key(message.id or "", index)
                logged[key] = _LoggedCall(call.arguments, "")
            if message.role is Role.TOOL and message.tool_call_id in keys:
                key = keys[message.tool_call_id]
                logged[key] = logged[key]._replace(result=message.text())
        return logged


def _pop_run(ids: Iterable[str], started: dict[str, RunRecord]) -> RunRecord | None:
    """Remove and return the run that has one of these ids. Returns `None` if there is none."""
    return next((started.pop(id) for id in ids if id in started), None)


def _join_actions(actions: Sequence[_Action]) -> str:
    """The descriptions in order, up to `LIMIT`, and how many calls were left out."""
    stored: set[int] = set()
    remaining = LIMIT
    for index in sorted(range(len(actions)), key=lambda index: actions[index].is_read):
        remaining -= len(actions[index].text)
        if remaining < 0 and stored:
            break
        stored.add(index)
    text = "; ".join(action.text for index, action in enumerate(actions) if index in stored)
    left_out = len(actions) - len(stored)
    return f"{text}; and {left_out} more calls" if left_out else text


def _render_arguments(arguments: Json) -> str:
    """A call's arguments as `order=7, to="ann"`."""
    if not isinstance(arguments, dict):
        return "" if arguments is None else _shorten(dumps_text(arguments), _ARGUMENTS)
    words = ", ".join(f"{name}={dumps_text(value)}" for name, value in arguments.items())
    return _shorten(words, _ARGUMENTS)


def _shorten(text: str, size: int) -> str:
    """The text on one line, cut to `size` characters."""
    line = " ".join(text.split())
    return line if len(line) <= size else f"{line[: size - 2]} …"
