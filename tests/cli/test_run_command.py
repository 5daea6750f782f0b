from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import awaken, on_terminal, write_app

from awaken.codec import loads
from awaken.core.event import RunEvent, RunFinish, ToolCallDone
from awaken.core.lifecycle import NATURAL_END


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_an_agent_of_a_module_answers_and_the_last_line_says_how_it_ended(home: Path) -> None:
    done = awaken("run", "app:adder", "Two and three?", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "  Let me add.\n  → add(a=2, b=3)\n" in done.stdout
    assert "add: 5\n" in done.stdout
    assert "  I heard: 5.\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("done · 2 steps · 0 tokens · 0.")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_json_prints_every_event_as_a_line_and_nothing_else(home: Path) -> None:
    done = awaken("run", "app:adder", "Two and three?", "--json", "--thread", "t1", cwd=home)
    assert done.returncode == 0, done.stderr
    events = [loads(line, RunEvent) for line in done.stdout.splitlines()]
    assert {event.thread_id for event in events} == {"t1"}
    results = [e.event.result.data for e in events if isinstance(e.event, ToolCallDone)]
    assert results == [5]
    last = events[-1].event
    assert isinstance(last, RunFinish)
    assert last.termination == NATURAL_END
    assert "a tool may print" in done.stderr
    assert "done · 2 steps" in done.stderr


@pytest.mark.parametrize(
    ("option", "answer", "told"),
    [
        (
            "--json",
            "Denied: no approver was there",
            "refund(euros=7) was denied (no terminal to ask",
        ),
        ("--yes", "paid 7", "refund(euros=7) was approved automatically (--yes)"),
    ],
)
def test_without_a_terminal_approvals_are_denied_unless_yes_is_given(
    home: Path, option: str, answer: str, told: str
) -> None:
    done = awaken("run", "app:payer", "Pay!", option, cwd=home)
    assert done.returncode == 0, done.stderr
    assert f"I heard: {answer}" in done.stdout
    assert told in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "nowhere:agent", "x"), "there is no module 'nowhere'"),
        (("run", "app:nobody", "x"), "app has no 'nobody'; it has: adder, payer,"),
        (("run", "app:just_text", "x"), "app:just_text is a str: point at an Agent"),
        (("run",), "Missing argument 'MODULE:AGENT'"),
    ],
    ids=["no module", "no attribute", "no agent", "no arguments"],
)
def test_a_command_that_cannot_work_names_the_thing_and_exits_with_2(
    home: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = awaken(*arguments, cwd=home)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_on_a_terminal_a_yes_lets_the_call_run_and_half_a_yes_is_asked_again(home: Path) -> None:
    with on_terminal("run", "app:payer", "Pay!", cwd=home) as process:
        process.read_until("approve refund(euros=7)? [y / n / why not] › ")
        process.type("yes, but only 5\n")
        process.read_until("please answer y, n, or the reason why not › ")
        process.type("y\n")
        process.read_until("refund: paid 7")
        process.read_until("I heard: paid 7")
        process.read_until("done · 2 steps")
        assert process.exit_code() == 0
    assert "\x1b[" in process.raw


def test_on_a_terminal_a_no_and_its_reason_are_told_to_the_model(home: Path) -> None:
    with on_terminal("run", "app:payer", "Pay!", cwd=home) as process:
        process.read_until("why not] › ")
        process.type("n too much\n")
        process.read_until("refund was denied: too much")
        process.read_until("I heard: Denied: too much")
        assert process.exit_code() == 0


def test_a_front_end_tool_gets_the_value_that_is_typed(home: Path) -> None:
    with on_terminal("run", "app:painter", "Paint!", cwd=home) as process:
        process.read_until("value (text or JSON) › ")
        process.type('{"name": "blue"}\n')
        process.read_until('I heard: {"name":"blue"}')
        assert process.exit_code() == 0


def test_the_end_of_input_at_a_question_leaves_the_run_suspended(home: Path) -> None:
    with on_terminal("run", "app:payer", "Pay!", cwd=home) as process:
        process.read_until("why not] › ")
        process.type("\x04")
        process.read_until("still waits for an answer: refund")
        assert process.exit_code() == 3
