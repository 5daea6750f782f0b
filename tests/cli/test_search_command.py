"""`awaken search` and `awaken usage`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_process import Printed, awaken
from store_kit import write_store

from awaken import Runtime


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Two and three?", thread="sums-1")
    await runtime.run("adder", "Four mugs?", thread="sums-2")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_store(tmp_path, fill)


def test_threads_and_runs_are_found(printed: Printed) -> None:
    shown = printed("search", "two", "agent:adder")
    assert "sums-1" in shown
    assert "sums-2" not in shown
    assert "Two and three?" in shown
    found = json.loads(printed("search", "--json", "--runs", "tool:add", "--limit", "1"))
    assert [hit["thread_id"] for hit in found["items"]] == ["sums-2"]
    assert found["state"]["is_complete"]
    again = printed("search", "--runs", "tool:add", "--limit", "1", "--cursor", found["cursor"])
    assert "sums-1" in again
    assert printed("search", "zebra") == "nothing was found\n"
    assert "sums-2" in printed("search", "--rebuild", "--zone", "Europe/Vienna", "mugs")


def test_sums_are_shown(printed: Printed) -> None:
    shown = printed("usage", "--by", "agent")
    assert shown.split()[:2] == ["AGENT", "RUNS"]
    assert "adder" in shown
    (row,) = json.loads(printed("usage", "--by", "agent,user", "--json"))
    assert (row["agent"], row["user"], row["runs"]) == ("adder", "", 2)
    assert printed("usage", "--agent", "nobody") == "no runs\n"


def test_mistakes_are_named(home: Path) -> None:
    for words, says in (
        (("search", "cost:1"), "cost:1: '1' is no comparison"),
        (("search", "--zone", "Mars"), "time zone 'Mars'"),
        (("usage", "--by", "colour"), "'colour' is none of day, agent"),
        (("usage", "--after", "soon"), "after is a day such as"),
    ):
        done = awaken(*words, cwd=home)
        assert done.returncode == 2, done
        assert says in done.stderr
