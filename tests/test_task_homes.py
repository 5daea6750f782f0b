"""Tasks are started where they have an owner (design §8): in a task group, or in
`core/aio/owned_tasks.py`.

The linter bans `asyncio.create_task` and `asyncio.ensure_future`; it cannot see an event loop's own
`create_task`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import awaken

SOURCE = Path(awaken.__file__).parent
GROUPS = {"group", "tasks"}
"""What a `TaskGroup` is called in our code."""


def test_no_task_is_started_by_an_event_loop() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "create_task"
        and not (isinstance(node.value, ast.Name) and node.value.id in {*GROUPS, "asyncio"})
    ]
    assert found == []
