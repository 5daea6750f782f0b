"""The tools with which a model cancels, lists and awaits background tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from awaken.codec import Json, dumps_text, to_json
from awaken.core.task import BackgroundTaskError, PersistedTaskMeta, TaskStatus
from awaken.core.tool import ToolDescriptor, ToolEffect, ToolError, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.ext.tasks.manager import BackgroundTaskManager, by_age
from awaken.ext.tasks.task import current_background_task_context

CANCEL_TASK_TOOL_ID = "cancel_task"
LIST_TASKS_TOOL_ID = "list_tasks"
WAIT_TASK_TOOL_ID = "wait_task"
CURRENT_TASK_UNAVAILABLE = "current_task_unavailable"
TASK_NOT_FOUND = "task_not_found"

LIST_PAGE = 50
OUTPUT_PAGE = 16_000
WAIT_SECONDS = 60.0
LONGEST_WAIT = 3600.0


def relation_of(args: Json, field: str) -> tuple[str, dict[str, Any]]:
    """The relation that names a target, and the target.

    Raises:
        ToolError: the target or its relation is missing.
    """
    target = args.get(field) if isinstance(args, dict) else None
    if not isinstance(target, dict):
        raise ToolError.invalid_arguments(f"missing '{field}'")
    relation = target.get("relation")
    if not isinstance(relation, str):
        raise ToolError.invalid_arguments(f"missing '{field}.relation'")
    return relation, target


def require_text(target: dict[str, Any], relation: str, field: str) -> None:
    """
    Raises:
        ToolError: a field that the relation needs is missing.
    """
    value = target.get(field)
    if not isinstance(value, str) or not value:
        raise ToolError.invalid_arguments(f"{relation} requires '{field}'")


def find_named(tasks: Iterable[PersistedTaskMeta], name: str) -> PersistedTaskMeta | None:
    """The task with that id, else the one with that name, else `None`."""
    tasks = list(tasks)
    by_id = (task for task in tasks if task.task_id == name)
    by_name = (task for task in tasks if task.name == name)
    return next(by_id, None) or next(by_name, None)


class CancelTaskTool:
    """`cancel_task`: cancel the task or run that makes the call, or one of its direct child
    tasks."""

    traits = ToolTraits(effect=ToolEffect.IDEMPOTENT)

    def __init__(
        self, manager: BackgroundTaskManager, task: PersistedTaskMeta | None = None
    ) -> None:
        self._manager = manager
        self._task = task

    @classmethod
    def with_current_task(cls, manager: BackgroundTaskManager, task_id: str) -> CancelTaskTool:
        """The tool for code that belongs to a task, wherever that code runs.

        Raises:
            BackgroundTaskError: there is no task with that id.
        """
        task = manager.find_task(task_id)
        if task is None:
            raise BackgroundTaskError(f"task '{task_id}' not found")
        return cls(manager, task)

    def descriptor(self) -> ToolDescriptor:
        return _CANCEL

    def validate_args(self, args: Json) -> Json:
        relation, target = relation_of(args, "target")
        if relation == "child":
            require_text(target, "child", "name")
        elif relation != "self":
            raise ToolError.invalid_arguments(f"unknown relation '{relation}'")
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        manager, task = self._scope()
        run_id, token = ctx.run_identity.run_id, ctx.cancellation_token
        if task is None and (token is None or not run_id.strip()):
            raise ToolError.execution_failed(CURRENT_TASK_UNAVAILABLE)
        target = args["target"]
        if target["relation"] == "child":
            children = manager.children_of(task) if task else manager.roots_of(run_id)
            child = find_named(children, target["name"])
            if child is None:
                return _receipt(target["name"], 0)
            return _receipt(child.task_id, manager.cancel_family(child))
        if task is not None:
            receipt = _receipt(task.task_id, manager.cancel_family(task))
        else:
            receipt = _receipt(run_id, manager.cancel_descendants_for_run(run_id) + 1)
        if token is not None:
            token.cancel()
        return receipt

    def _scope(self) -> tuple[BackgroundTaskManager, PersistedTaskMeta | None]:
        """The manager to use, and the task that the call belongs to, or `None`."""
        if self._task is not None:
            return self._manager, self._task
        ambient = current_background_task_context()
        if ambient is not None:
            return ambient.manager, ambient.record
        return self._manager, None


def _receipt(root: str, count: int) -> ToolOutput:
    data: dict[str, Json] = {
        "status": "accepted" if count else "failed",
        "root_task_id": root,
        "cancelled_count": count,
    }
    if not count:
        data["error"] = TASK_NOT_FOUND
    return ToolOutput(ToolResult.success(CANCEL_TASK_TOOL_ID, data))


class ListTasksTool:
    """`list_tasks`: the tasks of this conversation, without their results."""

    traits = ToolTraits(effect=ToolEffect.READ)

    def __init__(self, manager: BackgroundTaskManager) -> None:
        self._manager = manager

    def descriptor(self) -> ToolDescriptor:
        return _LIST

    def validate_args(self, args: Json) -> Json:
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        wanted, offset = args.get("status"), args.get("offset") or 0
        tasks = [
            task
            for task in _list_visible(self._manager, ctx)
            if wanted is None or task.status.value == wanted
        ]
        page = tasks[offset : offset + (args.get("limit") or LIST_PAGE)]
        data = {
            "tasks": [_render_task(self._manager, task, with_result=False) for task in page],
            "total": len(tasks),
        }
        if offset + len(page) < len(tasks):
            data["next_offset"] = offset + len(page)
        return ToolOutput(ToolResult.success(LIST_TASKS_TOOL_ID, data))


class WaitTaskTool:
    """`wait_task`: wait for tasks of this conversation, and read their results."""

    traits = ToolTraits(effect=ToolEffect.READ)

    def __init__(self, manager: BackgroundTaskManager) -> None:
        self._manager = manager

    def descriptor(self) -> ToolDescriptor:
        return _WAIT

    def validate_args(self, args: Json) -> Json:
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        tasks = self._find_tasks(args.get("ids"), ctx)
        mode: Literal["any", "all"] = "any" if args.get("mode") == "any" else "all"
        seconds = args.get("timeout")
        seconds = WAIT_SECONDS if seconds is None else float(min(seconds, LONGEST_WAIT))
        await self._manager.wait_for(tasks, mode, seconds)
        after = await self._manager.records.load_latest(tasks)
        ended = [task for task in after if task.is_terminal]
        enough = len(ended) == len(after) or (mode == "any" and bool(ended))
        data = {
            "status": "done" if enough else "timeout",
            "tasks": [
                _render_task(self._manager, task, offset=args.get("offset") or 0) for task in after
            ],
        }
        return ToolOutput(ToolResult.success(WAIT_TASK_TOOL_ID, data))

    def _find_tasks(self, ids: list[str] | None, ctx: ToolCallContext) -> list[PersistedTaskMeta]:
        known = _list_visible(self._manager, ctx)
        if not ids:
            return [task for task in known if not task.is_terminal]
        ambient = current_background_task_context()
        tasks: list[PersistedTaskMeta] = []
        for id in ids:
            task = find_named(known, id)
            if task is None:
                names = ", ".join(task.task_id for task in known) or "none"
                raise ToolError.not_found(f"task '{id}'; tasks of this conversation: {names}")
            if ambient is not None and task.uid == ambient.record.uid:
                raise ToolError.execution_failed(f"task '{id}' cannot wait for itself")
            tasks.append(task)
        return tasks


def _list_visible(manager: BackgroundTaskManager, ctx: ToolCallContext) -> list[PersistedTaskMeta]:
    tasks = manager.records.tasks_of(ctx.run_identity.thread_id).values()
    return sorted((task for task in tasks if not task.internal), key=by_age)


def _render_task(
    manager: BackgroundTaskManager,
    task: PersistedTaskMeta,
    *,
    with_result: bool = True,
    offset: int = 0,
) -> Json:
    """A task as the model reads it; a long result is split into pages."""
    summary = to_json(manager.summary(task))
    summary.pop("uid", None)
    summary.pop("parent_context", None)
    result = summary.pop("result", None)
    if task.name is not None:
        summary = {"task_id": summary.pop("task_id"), "name": task.name, **summary}
    if not with_result or task.status is not TaskStatus.COMPLETED:
        return summary
    text = result if isinstance(result, str) else dumps_text(result)
    if offset == 0 and len(text) <= OUTPUT_PAGE:
        return {**summary, "result": result}
    end = min(len(text), offset + OUTPUT_PAGE)
    page: dict[str, Json] = {"text": text[offset:end], "offset": offset, "total_chars": len(text)}
    if end < len(text):
        page["next_offset"] = end
    return {**summary, "result_page": page}


def _object(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


_CANCEL = ToolDescriptor(
    id=CANCEL_TASK_TOOL_ID,
    name=CANCEL_TASK_TOOL_ID,
    description=(
        "Stop work that is under way: yourself and everything you started, or one background "
        "task that you started, with everything it started."
    ),
    parameters=_object(
        {
            "target": _object(
                {
                    "relation": {
                        "type": "string",
                        "enum": ["self", "child"],
                        "description": "`self`, or `child` for a task you started.",
                    },
                    "name": {"type": "string", "description": "The child's name or task id."},
                },
                "relation",
            )
        },
        "target",
    ),
)
_LIST = ToolDescriptor(
    id=LIST_TASKS_TOOL_ID,
    name=LIST_TASKS_TOOL_ID,
    description="List the background tasks of this conversation and how they stand.",
    parameters=_object(
        {
            "status": {"type": "string", "enum": [status.value for status in TaskStatus]},
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": 200},
        }
    ),
)
_WAIT = ToolDescriptor(
    id=WAIT_TASK_TOOL_ID,
    name=WAIT_TASK_TOOL_ID,
    description=(
        "Wait until background tasks have ended, and read their results. Without ids, wait for "
        "all that run. A long result comes in pages: ask again with its next_offset."
    ),
    parameters=_object(
        {
            "ids": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Task ids or names.",
            },
            "mode": {"type": "string", "enum": ["any", "all"]},
            "timeout": {"type": "number", "minimum": 0, "description": "Seconds to wait at most."},
            "offset": {"type": "integer", "minimum": 0},
        }
    ),
)
