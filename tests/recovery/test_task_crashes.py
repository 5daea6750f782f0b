"""A process that is killed while its background tasks begin, work or end (03/DB-1, ADR 7).

Really killed, with SIGKILL; another process goes on.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from killed_programs import deeds, play

from awaken.core.thread_ids import task_key

MOMENTS = [
    "before the task is kept",
    "after the task was kept",
    "in the tool at once",
    "before its call is done",
    "after its call was done",
    "in the tool while its owner waits",
    "before its end is kept",
    "after its end was kept",
    "before its owner has heard",
    "after its owner has heard",
]
LOST = [
    "after the task was kept",
    "in the tool at once",
    "in the tool while its owner waits",
    "before its end is kept",
]
"""Where a task was on record as begun, and not as ended, when its process died."""

CANCELLED = "after its owner was cancelled"
HELPER = ["in its tool", "before its end is kept", "after its end was kept"]
BESIDE = ["beside", "beside, taken up"]
ALL = [
    *[f"{tool}, {moment}" for tool in ("dig", "blast") for moment in (*MOMENTS, CANCELLED)],
    *[f"helper, {moment}" for moment in HELPER],
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was found after each kill."""
    return play("task_yard.py", tmp_path_factory.mktemp("yards"), [*ALL, *BESIDE])


@pytest.mark.parametrize("place", ALL)
def test_nothing_is_left_running_and_no_second_task_is_started(
    played: dict[str, Any], place: str
) -> None:
    """The task's name is made of the call that started it: carried out again, it finds the task."""
    found = played[place]
    assert found["open"] == []
    assert len(found["tasks"]) == 1
    assert found["runs"] == (3 if place.startswith("helper") else 2)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_task_that_may_run_again_is_taken_up_and_ends_once(
    played: dict[str, Any], moment: str
) -> None:
    """With the key it had: whoever it works for can tell that it is the same deed."""
    found = played[f"dig, {moment}"]
    ((task, status),) = found["tasks"]
    assert status == "completed"
    assert found["told"] == ["bg_0 completed dug"]
    assert found["answer"] == "boss: bg_0 completed dug"
    assert set(deeds(found)) == {f"dug for {task_key(task)}"}
    assert len(deeds(found)) <= 2
    assert found["commands"] == 0


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_task_that_must_run_once_is_not_run_again(played: dict[str, Any], moment: str) -> None:
    """What it did is reported as unknown, its owner goes on, and the model reads it, once."""
    found = played[f"blast, {moment}"]
    ((_, status),) = found["tasks"]
    (news,) = found["told"]
    assert len(deeds(found)) <= 1
    assert found["answer"] == f"boss: {news}"
    if moment in LOST:
        assert (status, news) == ("failed", "bg_0 failed, outcome unknown")
    if status == "completed":
        assert news == "bg_0 completed blasted"
        assert len(deeds(found)) == 1
    assert found["commands"] == 0


@pytest.mark.parametrize("tool", ["dig", "blast"])
def test_an_end_that_was_kept_is_told_and_not_run_again(played: dict[str, Any], tool: str) -> None:
    """End and message are one commit: whoever goes on finds both."""
    for moment in ("after its end was kept", "before its owner has heard"):
        found = played[f"{tool}, {moment}"]
        assert len(deeds(found)) == 1
        assert found["told"] == [f"bg_0 completed {'dug' if tool == 'dig' else 'blasted'}"]


@pytest.mark.parametrize("tool", ["dig", "blast"])
def test_a_task_whose_owner_was_cancelled_is_not_taken_up(
    played: dict[str, Any], tool: str
) -> None:
    """The cancel was kept, and reached nobody any more: it counts for the task all the same."""
    found = played[f"{tool}, {CANCELLED}"]
    ((_, status),) = found["tasks"]
    assert status == "cancelled"
    assert found["ended"] == "CancelledEnd()"
    assert len(deeds(found)) == 1


@pytest.mark.parametrize("moment", HELPER)
def test_an_agent_in_the_background_goes_on_from_its_last_commit(
    played: dict[str, Any], moment: str
) -> None:
    found = played[f"helper, {moment}"]
    assert found["answer"] == "boss: bg_0 completed helper: "
    assert deeds(found).count("noted") == 1
    asked = Counter(line for line in found["ledger"] if line.startswith("asked "))
    assert set(asked.values()) == {1}, "no answer that was kept is asked for again"


@pytest.mark.parametrize("place", BESIDE)
def test_a_task_that_lives_elsewhere_is_left_alone_and_can_be_ended_from_here(
    played: dict[str, Any], place: str
) -> None:
    """By a second process with the same agents on the same file, also if the first one has the
    task from a dead one."""
    found = played[place]
    assert found["recovered"] == 0
    assert found["found"] == ["running", None, False]
    assert found["receipt"] == [["task", "dig", "stopped"]]
    assert found["told"] == ["bg_0 cancelled"]
    assert found["answer"] == "boss: bg_0 cancelled"
    assert len(deeds(found)) == (2 if "taken up" in place else 1)
