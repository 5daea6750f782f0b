"""The test the peers fail: killed inside `ship`, after its effect, and started again."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import forked

PROGRAM = Path(__file__).with_name("charge_and_ship.py")


def start(home: Path, policy: str, *rest: str) -> subprocess.CompletedProcess[str]:
    return forked.play(PROGRAM, home / "shop.db", home / "deeds", policy, *rest)


def crash_and_recover(home: Path, policy: str) -> dict[str, Any]:
    died = start(home, policy, "die")
    assert died.returncode == -signal.SIGKILL, died.stderr
    again = start(home, policy)
    assert again.returncode == 0, again.stderr
    found: dict[str, Any] = json.loads(again.stdout)
    return found


@pytest.fixture(params=["report", "verify", "ask"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_customer_is_charged_once_and_the_goods_are_sent_once(
    tmp_path: Path, policy: str
) -> None:
    crash_and_recover(tmp_path, policy)
    deeds = [line.split()[0] for line in (tmp_path / "deeds").read_text().splitlines()]
    assert deeds == ["charge", "ship"]


def test_the_model_is_told_that_nobody_knows_whether_it_was_sent(tmp_path: Path) -> None:
    found = crash_and_recover(tmp_path, "report")
    assert found["ledger"] == ["succeeded", "unknown"]
    assert found["asked"] == []
    charged, shipped = found["answer"].split(" / ")
    assert charged == "charged"
    assert "unknown" in shipped


def test_a_tool_that_can_verify_is_asked_and_its_word_becomes_the_result(tmp_path: Path) -> None:
    found = crash_and_recover(tmp_path, "verify")
    assert found["ledger"] == ["succeeded", "succeeded"]
    assert found["asked"] == []
    assert found["answer"] == "charged / it left on Monday"


def test_a_person_is_asked_and_the_answer_becomes_the_result(tmp_path: Path) -> None:
    found = crash_and_recover(tmp_path, "ask")
    assert found["ledger"] == ["succeeded", "succeeded"]
    assert found["asked"] == ["outcome_unknown"]
    assert found["answer"] == "charged / Ann saw it leave"


def test_a_third_start_finds_nothing_left_to_do(tmp_path: Path) -> None:
    first = crash_and_recover(tmp_path, "report")
    assert json.loads(start(tmp_path, "report").stdout) == first
