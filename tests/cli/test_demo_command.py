from __future__ import annotations

from pathlib import Path

from cli_process import awaken, on_terminal

from awaken.codec import loads
from awaken.core.event import InferenceComplete, RunEvent, RunFinish, RunStart

OFFER = "with SIGKILL, it comes back / Enter: go on] › "
PAID_ONCE = "it happened once:\n      24.00 € paid back for order 1042, key "


def test_without_a_terminal_it_is_killed_by_itself_and_comes_back(tmp_path: Path) -> None:
    done = awaken("demo", "--fast", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = "refund(order=1042, euros=24.0) was approved automatically (there is no terminal to ask)"
    assert told in done.stdout
    first, second = done.stdout.split("is dead: SIGKILL")
    assert "→ refund(order=1042, euros=24.0)" in first
    assert "kills itself with SIGKILL" in first
    assert "kept, so not done again: find_order, track_parcel, read_policy" in second
    assert "refund finds in the books: 24.00 € paid back" in second
    assert "So it is not done again (idempotency key " in second
    assert "refund: 24.00 € paid back for order 1042" in second
    assert "● shipping\n" in second
    assert PAID_ONCE in second
    assert "      parcel  delivered, box dented\n" in second
    assert "      cost    6 cents\n" in second
    assert "awaken chat" in second
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())


def test_json_prints_the_events_of_both_processes_and_no_answer_is_asked_for_twice(
    tmp_path: Path,
) -> None:
    done = awaken("demo", "--fast", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = [loads(line, RunEvent) for line in done.stdout.splitlines()]
    assert isinstance(events[-1].event, RunFinish)
    assert len({event.run_id for event in events}) == 1
    assert sum(isinstance(event.event, InferenceComplete) for event in events) == 5
    # Once in each process, and once more if the approval comes after the run has paused for it.
    assert sum(isinstance(event.event, RunStart) for event in events) in (2, 3)
    assert "was approved automatically (--json)" in done.stderr
    assert "is dead: SIGKILL" in done.stderr


def test_on_a_terminal_k_kills_it_and_it_comes_back(tmp_path: Path) -> None:
    with on_terminal("demo", "--fast", cwd=tmp_path) as process:
        process.read_until("approve refund(order=1042, euros=24.0)? [y / n / why not] › ")
        process.type("y\n")
        process.read_until(OFFER)
        process.type("k\n")
        process.read_until("is dead: SIGKILL")
        process.read_until("So it is not done again (idempotency key ")
        process.read_until("waited for an approval, and was approved")
        process.read_until("it happened once:")
        assert process.exit_code() == 0
    assert "approve refund" not in process.printed.split("is dead: SIGKILL")[1]


def test_on_a_terminal_enter_goes_on(tmp_path: Path) -> None:
    with on_terminal("demo", "--fast", "--yes", cwd=tmp_path) as process:
        process.read_until("was approved automatically (--yes)")
        process.read_until(OFFER)
        process.type("\n")
        process.read_until("refund: 24.00 € paid back")
        process.read_until("one change to the world")
        assert process.exit_code() == 0
    assert "is dead" not in process.printed


def test_a_refusal_leads_to_another_ending_which_survives_as_well(tmp_path: Path) -> None:
    with on_terminal("demo", "--fast", cwd=tmp_path) as process:
        process.read_until("why not] › ")
        process.type("we are broke\n")
        process.read_until("refund was denied: we are broke")
        process.read_until("send_again has just changed the world")
        process.read_until(OFFER)
        process.type("k\n")
        process.read_until("send_again finds in the books: order 1042 sent again")
        process.read_until("waited for an approval, and was denied")
        process.read_until("it happened once:")
        assert process.exit_code() == 0
