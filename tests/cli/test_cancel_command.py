"""`cancel` tells what became of every run and call; `show` tells what a run has used up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_process import Here, Printed
from store_kit import write_store

from awaken import Runtime
from awaken.codec import loads
from awaken.domain.budget import Budget
from awaken.domain.receipt import CancelOutcome, CancelReceipt


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Two and three?", thread="sums", budget=Budget(steps=5))
    await runtime.run("adder", "Two and three?", thread="free")
    await runtime.run("payer", "Pay!", thread="bill")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_store(tmp_path, fill)


def test_the_receipt_is_a_table_with_a_line_for_each_run_and_call(printed: Printed) -> None:
    first, heading, *rows = printed("cancel", "bill").splitlines()

    assert re.fullmatch(r"run [0-9a-f-]+ was stopped", first)
    assert heading.split() == ["OUTCOME", "KIND", "NAME", "RUN", "NOTE"]
    assert [row.split()[:3] for row in rows] == [
        ["stopped", "run", "payer"],
        ["stopped", "call", "refund"],
    ]
    assert first.split()[1].startswith(rows[0].split()[3])


def test_the_receipt_is_json_for_programs(printed: Printed) -> None:
    receipt = loads(printed("cancel", "bill", "--json", "--deadline", "9"), CancelReceipt)

    assert receipt.accepted
    assert receipt.complete
    assert [(item.kind, item.name) for item in receipt.items] == [
        ("run", "payer"),
        ("call", "refund"),
    ]
    assert {item.outcome for item in receipt.items} == {CancelOutcome.STOPPED}


@pytest.mark.parametrize("id", ["sums", "bill"])
def test_there_is_nothing_to_cancel_in_what_is_over(here: Here, id: str) -> None:
    if id == "bill":
        here("cancel", id)
    done = here("cancel", id)

    assert done.code == 1
    assert done.out == ""
    assert f"nothing to cancel: no run of thread {id} is open" in done.err


def test_a_deadline_lies_ahead(here: Here) -> None:
    done = here("cancel", "bill", "--deadline", "-1")

    assert done.code == 2
    assert "--deadline" in done.err


def test_show_says_what_a_run_with_a_budget_has_used_up(printed: Printed) -> None:
    shown = {}
    for thread in ("sums", "free"):
        (run,) = re.findall(r"^([0-9a-f-]{36})", printed("runs", "--thread", thread), re.MULTILINE)
        shown[thread] = printed("show", run)

    assert re.search(
        r"^  spent +[\d,]+ tokens, 2 steps and \d+\.\d s, with all it started$",
        shown["sums"],
        re.MULTILINE,
    )
    assert "spent" not in shown["free"]
