"""`cancel` tells what became of every run and call; `show` tells what a run has used up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_process import Here, Printed
from store_kit import write_store

from awaken import Runtime
from awaken.codec import loads
from awaken.core.budget import Budget
from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import RunStatus
from awaken.core.run import CancelOutcome, CancelReceipt, RunRecord, RunRequestSnapshot
from awaken.core.store.store import Store
from awaken.core.store.threads import Page
from awaken.testing.conformance.helpers import record, write


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Two and three?", thread="sums", budget=Budget(steps=5))
    await runtime.run("adder", "Two and three?", thread="free")
    await runtime.run("payer", "Pay!", thread="bill")
    await runtime.run("payer", "Pay!", thread="beneath")
    await beside(runtime.store)


async def beside(store: Store) -> None:
    """A run elsewhere that waits, and an open run beneath one that has ended."""
    far = RunRequestSnapshot(origin=RequestOrigin.USER, backend="a2a")
    away = record("run-away", "away", agent_id="far", status=RunStatus.WAITING, request=far)
    await write(store, "away", run=away)
    await write(store, "over", run=record("run-over", "over", status=RunStatus.DONE))
    await write(store, "beneath", parent_thread_id="over")


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


def test_what_was_left_open_beneath_a_run_that_is_over_is_cancelled(printed: Printed) -> None:
    """03/DB-6."""
    receipt = loads(printed("cancel", "over", "--json"), CancelReceipt)

    assert [(item.kind, item.name) for item in receipt.items] == [
        ("run", "payer"),
        ("call", "refund"),
    ]
    assert receipt.complete


def test_a_run_elsewhere_is_left_to_who_has_its_agent(here: Here) -> None:
    """03/DB-6: no command here could stop it; it says who can."""
    done = here("cancel", "away", "--deadline", "0.01")

    assert done.code == 3
    first, _, row, *_ = done.out.splitlines()
    assert first == "run run-away was told to stop, and may still go on"
    assert row.split()[:3] == ["unknown", "run", "far"]
    assert "agent 'far'" in " ".join(done.out.split())
    (run,) = loads(here("runs", "--thread", "away", "--json").out, Page[RunRecord])
    assert run.status is RunStatus.WAITING


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
