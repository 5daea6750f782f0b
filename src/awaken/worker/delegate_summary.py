"""Describes what a delegate did, for the model whose call to it ends without an answer.

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
from awaken.core.task import TaskStatus
from awaken.core.thread_ids import agent_ids, child_ids, task_uid
from awaken.core.tool import OUTCOME_UNKNOWN, ToolEffect
from awaken.worker.task_records import KeptTask

LIMIT = 4000
"""The approximate length of the whole text; calls that only read are left out first."""
_ARGUMENTS = 160
_RESULT = 240
_UNKNOWN = "unknown whether it took effect"

EffectOf = Callable[[str, str], ToolEffect | None]
"""The effect of an agent's tool, by their names; `None` if this process does not have them."""


class _Deed(NamedTuple):
    """The description of a call that has ended or may have taken effect."""

    text: str
    is_read: bool


class _Said(NamedTuple):
    """A call in the message log: its arguments, and its result, which is empty if missing."""

    arguments: Json
    result: str


class WorkBeneath:
    """Describes what runs did, including the delegates and background tasks they started."""

    def __init__(self, store: Store, effect_of: EffectOf) -> None:
        self._store = store
        self._effect_of = effect_of

    async def told(self, run_id: str) -> str | None:
        """What a run and the runs below it did, as `before that it had done: …`.

        Returns `None` if none of their calls has ended or may have taken effect.
        """
        deeds = await self._of_run(run_id)
        return f"before that it had done: {_joined(deeds)}" if deeds else None

    async def _of_run(self, run_id: str) -> list[_Deed]:
        run = await self._store.load_run(run_id)
        if run is None:
            return []
        started = await self._started_by(run_id)
        said = await self._said_in(run.thread_id)
        waiting = run.waiting.tickets if run.waiting is not None else ()
        # If a call asks more than once, its tickets' keys end in `#` and a number.
        unsure = {
            (ticket.key or "").partition("#")[0]
            for ticket in waiting
            if ticket.reason == OUTCOME_UNKNOWN and ticket.asker is None
        }
        deeds: list[_Deed] = []
        for entry in await self._store.load_calls(run_id):
            task = _taken((entry.key, task_uid(run.thread_id, entry.key)), started)
            delegate = _taken(child_ids(run.thread_id, entry.key), started)
            call = said.get(entry.key, _Said(None, ""))
            arguments = call.arguments if entry.arguments is None else entry.arguments
            name = f"{entry.tool_name}({_in_words(arguments)})"
            if task is not None and entry.phase is CallPhase.SUCCEEDED:
                deeds += await self._of_task(task, name)
            elif entry.phase is not CallPhase.SUCCEEDED and delegate is not None:
                deeds += await self._of_run(delegate.run_id)
            elif deed := self._of_call(
                run, entry, name, call.result, is_unsure=entry.key in unsure
            ):
                deeds.append(deed)
        for task in started.values():
            if task.is_task:
                deeds += await self._of_task(task, KeptTask.of(task).task.description)
        return deeds

    def _of_call(
        self, run: RunRecord, entry: CallEntry, name: str, result: str, *, is_unsure: bool
    ) -> _Deed | None:
        effect = self._effect_of(run.agent_id, entry.tool_name)
        is_read = effect is ToolEffect.READ
        if entry.held is not None:
            result = entry.held.text()
        # The ledger has arguments only for calls that were started.
        is_begun = entry.arguments is not None
        match entry.phase:
            case CallPhase.SUCCEEDED:
                return _Deed(f"{name} → {_short(result, _RESULT)}", is_read)
            case CallPhase.FAILED if is_begun and not is_read:
                return _Deed(f"{name} → failed: {_short(result, _RESULT)}", False)
            case CallPhase.INTENT if effect not in (ToolEffect.READ, ToolEffect.IDEMPOTENT):
                return _Deed(f"{name} → {_UNKNOWN}", False)
            case CallPhase.UNKNOWN:
                return _Deed(f"{name} → {_UNKNOWN}", False)
            case _ if is_unsure:
                return _Deed(f"{name} → {_UNKNOWN}", False)
        return None

    async def _of_task(self, record: RunRecord, name: str) -> list[_Deed]:
        """What a background task did: its result, or what its agent has done so far."""
        kept = KeptTask.of(record)
        task, is_read = kept.task, kept.task.effect is ToolEffect.READ
        if task.status is TaskStatus.COMPLETED:
            return [_Deed(f"{name} → {_short(record.final_output or '', _RESULT)}", is_read)]
        if kept.agent_key is not None:
            earlier, ours = agent_ids(record.run_id)
            return await self._of_run(earlier) or await self._of_run(ours)
        may_be_done = task.effect not in (ToolEffect.READ, ToolEffect.IDEMPOTENT)
        if task.outcome_unknown or (not task.is_terminal and may_be_done):
            return [_Deed(f"{name} → {_UNKNOWN}", False)]
        if task.status is TaskStatus.FAILED and not is_read:
            return [_Deed(f"{name} → failed: {_short(task.error or '', _RESULT)}", False)]
        return []

    async def _started_by(self, run_id: str) -> dict[str, RunRecord]:
        """The delegates and tasks that a run started, by run id, oldest first."""
        query, found = RunQuery(parent_run_id=run_id), list[RunRecord]()
        while True:
            page = await self._store.list_runs(query)
            found += page
            if page.cursor is None:
                return {record.run_id: record for record in reversed(found)}
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def _said_in(self, thread_id: str) -> Mapping[str, _Said]:
        """The calls in a thread's message log, by their ledger keys."""
        said: dict[str, _Said] = {}
        keys: dict[str, str] = {}  # models may reuse a call id: a result is the latest call's
        for message in await self._store.load_messages(thread_id, hidden=True):
            for index, call in enumerate(message.tool_calls or ()):
                key = keys[call.id] = call_key(message.id or "", index)
                said[key] = _Said(call.arguments, "")
            if message.role is Role.TOOL and message.tool_call_id in keys:
                key = keys[message.tool_call_id]
                said[key] = said[key]._replace(result=message.text())
        return said


def _taken(ids: Iterable[str], started: dict[str, RunRecord]) -> RunRecord | None:
    """Remove and return the run that has one of these ids. Returns `None` if there is none."""
    return next((started.pop(id) for id in ids if id in started), None)


def _joined(deeds: Sequence[_Deed]) -> str:
    """The descriptions in order, up to `LIMIT`, and how many calls were left out."""
    kept: set[int] = set()
    room = LIMIT
    for index in sorted(range(len(deeds)), key=lambda index: deeds[index].is_read):
        room -= len(deeds[index].text)
        if room < 0 and kept:
            break
        kept.add(index)
    told = "; ".join(deed.text for index, deed in enumerate(deeds) if index in kept)
    left_out = len(deeds) - len(kept)
    return f"{told}; and {left_out} more calls" if left_out else told


def _in_words(arguments: Json) -> str:
    """A call's arguments as `order=7, to="ann"`."""
    if not isinstance(arguments, dict):
        return "" if arguments is None else _short(dumps_text(arguments), _ARGUMENTS)
    words = ", ".join(f"{name}={dumps_text(value)}" for name, value in arguments.items())
    return _short(words, _ARGUMENTS)


def _short(text: str, size: int) -> str:
    """The text on one line, cut to `size` characters."""
    line = " ".join(text.split())
    return line if len(line) <= size else f"{line[: size - 2]} …"
