"""Progress reports of a tool (01 §1.3)."""

from __future__ import annotations

import msgspec

from awaken.codec import dumps, loads, to_json
from awaken.core.identity import RunIdentity
from awaken.core.tool import ProgressStatus, ToolCallProgress

IDENTITY = RunIdentity(thread_id="t1", run_id="r1", agent_id="a1")


def test_without_a_parent_call_the_parent_is_the_run() -> None:
    """01/C-19: the parent falls back to `run:<id>`."""
    report = ToolCallProgress.of("c1", "fetch", ProgressStatus.RUNNING, IDENTITY, progress=0.5)

    assert to_json(report) == {
        "schema": "tool-call-progress.v1",
        "node_id": "tool_call:c1",
        "call_id": "c1",
        "tool_name": "fetch",
        "status": "running",
        "progress": 0.5,
        "parent_node_id": "run:r1",
        "run_id": "r1",
        "thread_id": "t1",
    }


def test_a_blank_parent_call_is_no_parent_call() -> None:
    """01/C-19: a blank id falls back too."""
    blank = msgspec.structs.replace(IDENTITY, parent_tool_call_id="  ")

    report = ToolCallProgress.of("c1", "fetch", ProgressStatus.DONE, blank)

    assert report.parent_node_id == "run:r1"
    assert report.parent_call_id is None


def test_with_a_parent_call_the_parent_is_that_call() -> None:
    """01/C-19: otherwise the parent is `tool_call:<parent call>`."""
    child = msgspec.structs.replace(IDENTITY, parent_run_id="r0").with_parent_tool_call_id("c0")

    report = ToolCallProgress.of("c1", "fetch", ProgressStatus.FAILED, child, message="broke")

    assert (report.parent_node_id, report.parent_call_id) == ("tool_call:c0", "c0")
    assert (report.parent_run_id, report.message) == ("r0", "broke")
    assert loads(dumps(report), ToolCallProgress) == report
