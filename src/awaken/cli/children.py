"""Delegates and tasks: the runs that other runs have started.

`Children` renders lines about them for the transcript of the run that started them;
`list_started_runs` reads their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from awaken.cli.exit_codes import describe_ending
from awaken.cli.output import call_words, result_words, terminal_line
from awaken.cli.run_summary import extract_error, extract_result
from awaken.codec import Json, loads
from awaken.core.event import (
    ActivitySnapshot,
    Error,
    RunEvent,
    RunFinish,
    RunStart,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    extract_response,
)
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import NaturalEnd
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery, Threads
from awaken.core.suspension import ResumedOutcome, ToolCallOutcome
from awaken.ext.tasks.listing import BackgroundTask
from awaken.runtime.metrics_hooks import TASK_AGENT, StoredTask

# -- lines of a transcript --------------------------------------------------------------------

_CARRIED_OUT = (ResumedOutcome.SUCCEEDED, ResumedOutcome.FAILED)


class Children:
    """The delegates and tasks of a run, by run id.

    A delegate's answer is shown as the result of the call that started it. Its other texts are not
    shown: a reader would take them for the answer.
    """

    def __init__(self) -> None:
        self._children: dict[str, Child] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._children

    def add(
        self, run_id: str, name: str, parent_run_id: str | None, *, is_task: bool = False
    ) -> Child:
        """Remember a run by the name of its agent or task."""
        parent = self._children.get(parent_run_id or "")
        level = 1 if parent is None else parent.level + 1
        child = self._children[run_id] = Child(name, level, is_task)
        return child

    def render_event(self, run_event: RunEvent, room: Callable[[int], int]) -> ChildNote | None:
        """Render the line for an event. Returns `None` if the event is not shown.

        Args:
            room: returns how long a text may be if a given number of characters of its line are
                taken.
        """
        match run_event.event:
            case RunStart(identity=RunIdentity(agent_id=agent)) if run_event.run_id not in self:
                self.add(run_event.run_id, agent, run_event.parent_run_id)
                return None
        child = self._children.get(run_event.run_id)
        if child is None:
            child = self.add(run_event.run_id, "delegate", run_event.parent_run_id)
        taken = len(child.name) + 2 * child.level + 6
        match run_event.event:
            case ToolCallReady(id=id, name=tool, arguments=arguments):
                child.tools[id] = tool
                return ChildNote(
                    "→", child.name, call_words(tool, arguments, room(taken)), child.level
                )
            case ToolCallDone(result=result, outcome=ToolCallOutcome.SUCCEEDED):
                said = result.data if result.message is None else result.message
                return _render_call_end(child, "✓", result.tool_name, said, room)
            case ToolCallDone(
                result=result, outcome=ToolCallOutcome.FAILED | ToolCallOutcome.DENIED
            ):
                return _render_call_end(child, "✗", result.tool_name, result.model_text(), room)
            case ToolCallResumed(target_id=id, result=value) as resumed:
                failure = extract_error(value)
                if resumed.outcome not in (None, *_CARRIED_OUT):
                    failure = resumed.reason or f"was {resumed.outcome}"
                mark = "✓" if failure is None else "✗"
                said = failure or extract_result(value)
                return _render_call_end(child, mark, child.tools.get(id, "a call"), said, room)
            case RunFinish(result=result, termination=ending) if child.is_task:
                words = _parse_answer(extract_response(result)) or describe_ending(ending)
                mark = "✓" if isinstance(ending, NaturalEnd) else "✗"
                return ChildNote(mark, child.name, result_words(words, room(taken)), child.level)
            case ActivitySnapshot(content={"message": str(message)}):
                return ChildNote("·", child.name, message, child.level)
            case Error(message=message):
                return ChildNote("✗", child.name, terminal_line(message, room(taken)), child.level)
        return None


class Child:
    """A run that another one started, and the names of its tools by call id."""

    def __init__(self, name: str, level: int, is_task: bool) -> None:
        self.name, self.level, self.is_task = terminal_line(name), level, is_task
        self.tools: dict[str, str] = {}


class ChildNote(NamedTuple):
    """A line about a child run: its mark, name and text, and its depth."""

    mark: str
    name: str
    words: str
    level: int


def _render_call_end(
    child: Child, mark: str, tool: str, said: Json, room: Callable[[int], int]
) -> ChildNote:
    tool = terminal_line(tool)
    left = room(len(child.name) + len(tool) + 2 * child.level + 8)
    return ChildNote(mark, child.name, f"{tool}: {result_words(said, left)}", child.level)


def _parse_answer(text: str) -> str:
    """A task's result as text; if it is an agent's, only the answer."""
    try:
        answer = extract_result(loads(text))
    except (msgspec.DecodeError, RecursionError):
        return text
    return answer if isinstance(answer, str) else text


# -- records ----------------------------------------------------------------------------------

MOST_STARTED = 200


class StartedRun(NamedTuple):
    """A run that another run started, and its depth below the run that the caller gave."""

    level: int
    run: RunRecord


async def list_started_runs(
    threads: Threads, run_ids: Iterable[str], level: int = 1
) -> list[StartedRun]:
    """List the runs that these runs have started, oldest first. Each is followed by the runs that
    it has started itself."""
    found: list[StartedRun] = []
    for run_id in run_ids:
        page = await threads.list_runs(RunQuery(parent_run_id=run_id, limit=MOST_STARTED))
        for run in reversed(page.items):
            if len(found) < MOST_STARTED:
                found.append(StartedRun(level, run))
                found += await list_started_runs(threads, [run.run_id], level + 1)
    return found[:MOST_STARTED]


def name_of(run: RunRecord) -> str:
    """The name of a run's agent or task."""
    return f"task {run.agent_id.removeprefix(TASK_AGENT)}" if run.is_task else run.agent_id


def agent_of(run: RunRecord) -> str:
    """The agent of a run, or the agent that started a task."""
    return StoredTask.of(run).task.parent_context.agent_id or "" if run.is_task else run.agent_id


def task_title(task: BackgroundTask) -> str:
    """The name of a task, or else its description."""
    return task.name or task.description


def parent_thread_of(run: RunRecord) -> str | None:
    """The thread that started a run, or `None`."""
    return run.request.parent_thread_id if run.request is not None else None
