from __future__ import annotations

from pathlib import Path

from cli_process import awaken, on_terminal

from awaken.codec import loads
from awaken.domain.event import RunEvent, RunFinish


def test_without_a_terminal_it_approves_by_itself_and_says_so(tmp_path: Path) -> None:
    done = awaken("demo", "--fast", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = "refund(order=1042, euros=24.0) was approved by itself (there is no terminal to ask)"
    assert told in done.stdout
    assert "refund: 24.00 € paid back for order 1042" in done.stdout
    assert "● support\n" in done.stdout
    assert "● shipping\n" in done.stdout
    assert "done · 5 steps" in done.stdout
    assert "      parcel  delivered, box dented\n" in done.stdout
    assert "      cost    6 cents\n" in done.stdout
    assert "awaken chat" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_json_prints_its_events_as_lines(tmp_path: Path) -> None:
    done = awaken("demo", "--fast", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = [loads(line, RunEvent) for line in done.stdout.splitlines()]
    assert isinstance(events[-1].event, RunFinish)
    assert "was approved by itself (--json)" in done.stderr


def test_on_a_terminal_it_asks_and_a_refusal_leads_to_another_ending(tmp_path: Path) -> None:
    with on_terminal("demo", "--fast", cwd=tmp_path) as process:
        process.read_until("approve refund(order=1042, euros=24.0)? [y / n / why not] › ")
        process.type("we are broke\n")
        process.read_until("refund was denied: we are broke")
        process.read_until("order 1042 sent again, arrives on Friday")
        process.read_until("waited for an approval, and was denied")
        assert process.exit_code() == 0
