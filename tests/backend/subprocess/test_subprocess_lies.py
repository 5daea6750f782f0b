"""A process that says what is not its business: of others' runs, or less than nothing."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from process_stage import backend_for, delegate, root

from awaken.core.backend import BackendRunStatus, RemoteError
from awaken.core.event import CollectingSink, RunEvent

pytestmark = pytest.mark.anyio

PROGRAM = """#!{python}
import json, sys
start = json.loads(sys.stdin.readline())
own = start["identity"]
sys.stderr.write("  all \\x1b[2J is well\\r\\n")
for line in json.loads({lines!r}):
    text = json.dumps(line).replace("OWN-RUN", own["run_id"])
    print(text.replace("OWN-THREAD", own["thread_id"]))
"""
OWN = {"thread_id": "OWN-THREAD", "run_id": "OWN-RUN"}
ENDED = {"type": "result", "termination": {"type": "natural_end"}, "response": "done"}


def event(**fields: Any) -> dict[str, Any]:
    said = {"event_type": "text_delta", "delta": "psst"}
    return {"type": "event", "event": {"at_ms": 1, **OWN, "event": said, **fields}}


def end_frame(**counts: Any) -> dict[str, Any]:
    return {**ENDED, "steps": 1, "tokens": 2, **counts}


def liar(folder: Path, *lines: dict[str, Any]) -> dict[str, Any]:
    """Options that start a process which says `lines`."""
    program = folder / "liar"
    program.write_text(PROGRAM.format(python=sys.executable, lines=json.dumps(lines)))
    program.chmod(0o755)
    return {"python": str(program)}


async def receive_events(folder: Path, *lines: dict[str, Any]) -> list[RunEvent]:
    request = delegate()
    backend = backend_for("echo", options=liar(folder, *lines, end_frame()))
    assert (await backend.execute_delegate(request)).status == BackendRunStatus.completed()
    assert isinstance(request.sink, CollectingSink)
    return request.sink.events()


def activity(**where: Any) -> dict[str, Any]:
    told = {"event_type": "activity_snapshot", "message_id": "m", "activity_type": "a"}
    return event(event={**told, "content": {}}, **where)


def start(thread: str, identity: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"event_type": "run_start", "thread_id": thread, "run_id": "OWN-RUN"}
    if identity:
        who = {"agent_id": "a", "origin": "user"}
        told["identity"] = {**who, "thread_id": identity, "run_id": "OWN-RUN"}
    return told


@pytest.mark.parametrize(
    "where",
    [
        {"thread_id": "other"},
        {"run_id": "other"},
        {"thread_id": "other", "run_id": "other"},
        {"thread_id": "other", "run_id": "other", "parent_run_id": "another"},
        {"thread_id": "other", "run_id": "new", "parent_run_id": "OWN-RUN"},
        {"thread_id": "above", "run_id": "above", "parent_run_id": "OWN-RUN"},
        {"thread_id": "parent", "run_id": "parent", "parent_run_id": "OWN-RUN"},
        {"at_ms": -1},
        {"at_ms": 2**60},
        {"event": start("other")},
        {"event": start("OWN-THREAD", identity="other")},
    ],
    ids=str,
)
async def test_what_is_outside_the_runs_own_tree_is_not_passed_on(
    tmp_path: Path, where: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "awaken.backend.subprocess")
    heard_of = await receive_events(tmp_path, event(**where), event(), event(**where))
    assert [(each.thread_id, each.run_id) for each in heard_of] == [
        (heard_of[0].thread_id, heard_of[0].run_id)
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING"], "it is said once"
    assert "not its own: such events are dropped" in caplog.text


async def test_runs_beneath_the_run_are_heard_at_any_depth(tmp_path: Path) -> None:
    child = {"thread_id": "child", "run_id": "child", "parent_run_id": "OWN-RUN"}
    grandchild = {"thread_id": "grandchild", "run_id": "grandchild", "parent_run_id": "child"}
    heard_of = await receive_events(
        tmp_path, event(**grandchild), event(**child), event(**grandchild), event(**child)
    )
    assert [each.run_id for each in heard_of] == ["child", "grandchild", "child"]


async def test_a_run_beneath_stays_in_its_thread(tmp_path: Path) -> None:
    child = {"thread_id": "child", "run_id": "child", "parent_run_id": "OWN-RUN"}
    heard_of = await receive_events(
        tmp_path, event(**child), event(**{**child, "thread_id": "OWN-THREAD"})
    )
    assert [each.thread_id for each in heard_of] == ["child"]


async def test_a_place_in_another_store_moves_no_cursor(tmp_path: Path) -> None:
    (told,) = await receive_events(tmp_path, event(seq=7))
    assert told.seq is None


async def test_of_a_run_for_its_own_sake_only_its_activity_is_passed_on(tmp_path: Path) -> None:
    """Its beginning and end, its text and its children are told by who asked for it."""
    child = {"thread_id": "child", "run_id": "child", "parent_run_id": "OWN-RUN"}
    said = [event(), activity(), activity(**child), activity(thread_id="other")]
    sink = CollectingSink()
    backend = backend_for("echo", options=liar(tmp_path, *said, end_frame()))
    await backend.execute_root(root(sink=sink))
    assert [type(each.event).__name__ for each in sink.events()] == ["ActivitySnapshot"]
    assert sink.events()[0].thread_id == "t"


@pytest.mark.parametrize(
    "counts",
    [
        {"steps": -1},
        {"tokens": -1_000_000},
        {"tokens": 10**30},
        {"spent": {"tokens": -5}},
        {"spent": {"money": -0.5}},
        {"spent": {"money": 1e300}},
        {"spent": {"steps": -5}},
        {"spent": {"seconds": -1.0}},
    ],
    ids=str,
)
async def test_nobody_gives_back_what_others_have_used_up(
    tmp_path: Path, counts: dict[str, Any]
) -> None:
    """A count below zero would be added to what the parent may still spend."""
    backend = backend_for("echo", options=liar(tmp_path, end_frame(**counts)))
    with pytest.raises(RemoteError, match="broke the protocol"):
        await backend.execute_root(root())


@pytest.mark.parametrize(
    "lie",
    [
        {"usage": {"prompt_tokens": -5}},
        {"usage": {"total_tokens": -1, "prompt_tokens": 1}},
        {"cost": -0.5},
        {"duration_ms": -3},
    ],
    ids=repr,
)
async def test_a_call_that_used_less_than_nothing_is_not_told(
    tmp_path: Path, lie: dict[str, Any]
) -> None:
    told = {"event_type": "inference_complete", "model": "m", "duration_ms": 1}
    honest = {**told, "usage": {"prompt_tokens": 0}, "cost": 0.0}
    events = await receive_events(tmp_path, event(event={**told, **lie}), event(event=honest))
    assert [one.event.duration_ms for one in events] == [1]  # type: ignore[union-attr]
    assert "-" not in repr([one.event for one in events])


async def test_a_process_that_invents_runs_is_not_remembered_without_end(tmp_path: Path) -> None:
    invented = [
        event(thread_id=f"c{n}", run_id=f"c{n}", parent_run_id="OWN-RUN") for n in range(10_050)
    ]
    assert len(await receive_events(tmp_path, *invented)) == 9_999


async def test_a_line_on_stderr_cannot_clear_the_screen_of_who_reads_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "awaken.backend.subprocess")
    await receive_events(tmp_path)
    assert [record.getMessage() for record in caplog.records] == ["remote:   all \ufffd[2J is well"]
