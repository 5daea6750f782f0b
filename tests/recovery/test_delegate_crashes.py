"""A process that is killed while its delegate works, waits, or has just ended (03/DB-6, 02/8.18).

Really killed, with SIGKILL; another process goes on.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from killed_programs import deeds, play

HERE = [
    "in the child's tool",
    "in the child's tool that asks",
    "before the child asks",
    "after the child asked",
    "while both wait",
    "after the root was answered",
    "before the child is answered",
    "after the child was answered",
    "before the child ends",
    "after the child ended",
    "before the root keeps it",
    "after the root kept it",
]
FAR = ["far, after the root was answered", "far, before it is said", "far, after it was said"]
ASKED_AGAIN = [
    "in the child's tool that asks",
    "before the child asks",
    "after the child asked",
    "while both wait",
]
"""Where somebody has to be asked after the crash; elsewhere the answer had been given."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was found after each kill."""
    return play("delegate_desk.py", tmp_path_factory.mktemp("desks"), [*HERE, *FAR])


@pytest.mark.parametrize("place", HERE)
def test_the_child_pays_once_and_its_parent_hears_of_it(played: dict[str, Any], place: str) -> None:
    found = played[place]
    assert deeds(found) == ["noted", "paid 5"]
    assert found["answer"].startswith("desk[clerk[noted, ")
    if "tool" not in place:
        assert found["answer"] == "desk[clerk[noted, paid 5]]"


@pytest.mark.parametrize("place", [*HERE, *FAR])
def test_nothing_is_left_open_and_no_second_child_is_started(
    played: dict[str, Any], place: str
) -> None:
    found = played[place]
    assert found["open"] == []
    assert (found["runs"], found["children"]) == (2, 1)
    assert found["tickets"] == ["answered"]


@pytest.mark.parametrize("place", HERE)
def test_no_model_is_asked_again_for_an_answer_that_was_kept(
    played: dict[str, Any], place: str
) -> None:
    asked = Counter(line for line in played[place]["ledger"] if line.startswith("asked "))
    once = {"asked desk 1", "asked desk 3", "asked clerk 1", "asked clerk 3", "asked clerk 5"}
    assert set(asked) == once
    # The child's last words are committed with its end.
    again = ["asked clerk 5"] if place == "before the child ends" else []
    assert [line for line, times in asked.items() if times > 1] == again


@pytest.mark.parametrize("place", HERE)
def test_somebody_is_asked_again_only_if_nobody_had_answered(
    played: dict[str, Any], place: str
) -> None:
    assert len(played[place]["questions"]) == (place in ASKED_AGAIN)


def test_a_child_that_was_killed_while_it_paid_is_told_that_nobody_knows(
    played: dict[str, Any],
) -> None:
    found = played["in the child's tool"]
    assert "it is unknown whether 'pay' took effect" in found["answer"]


def test_what_nobody_knows_of_a_childs_call_is_asked_at_the_root(played: dict[str, Any]) -> None:
    found = played["in the child's tool that asks"]
    (question,) = found["questions"]
    assert question.startswith("agent 'clerk' asks: 'pay' was under way when the process ended.")
    assert found["answer"].startswith("desk[clerk[noted, 'pay' took effect")


@pytest.mark.parametrize("place", FAR)
def test_an_answer_is_said_once_to_a_delegate_elsewhere(played: dict[str, Any], place: str) -> None:
    found = played[place]
    assert deeds(found) == ["heard Pay the bill.", "heard Rome", "heard Yes."]
    assert found["answer"] == "desk[far[Rome, Yes.]]"
    assert found["questions"] == ["which day?"]
