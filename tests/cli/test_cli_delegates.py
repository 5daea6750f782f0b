"""Delegates on the command line: seen beneath the call that asked for them, asked for like the
agent's own calls (03/DB-6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import awaken, on_terminal, only_key, wait_until

from awaken.codec import loads
from awaken.core.event import RunEvent, TextDelta

OFFICE = '''
import asyncio
from pathlib import Path

from awaken import Agent, tool
from awaken.testing import FunctionModel, tool_calls_response


def model(text, *calls):
    """Makes the calls once, then tells what they answered."""

    def answer(request):
        told = [message.text() for message in request.messages if message.role == "tool"]
        return f"I heard: {'; '.join(told)}" if told else tool_calls_response(text, *calls)

    return FunctionModel(answer)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(needs_approval=True)
async def refund(euros: int) -> str:
    """Pay back."""
    return f"paid {euros}"


def office(text, *calls):
    give = ("agent_run_clerk", "c1", {"prompt": "Do it."})
    boss = Agent("boss", model=model("Clerk!", give), delegates=["clerk"])
    return [boss, Agent("clerk", model=model(text, *calls), tools=[add, refund, hold])]


@tool
async def hold() -> None:
    """Never ends."""
    Path("held").touch()
    await asyncio.Event().wait()


adding = office("Let me add.", ("add", "c1", {"a": 2, "b": 3}))
paying = office("Let me pay.", ("refund", "c1", {"euros": 7}))
holding = office("Let me see.", ("hold", "c1", {}))
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "office.py").write_text(OFFICE)
    return tmp_path


def test_what_a_delegate_does_is_shown_beneath_its_call_and_its_words_are_not_the_answer(
    home: Path,
) -> None:
    done = awaken("run", "office:adding", "Go!", cwd=home)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "  Clerk!" in lines
    shown = [line for line in lines if line.startswith("    ")]
    assert shown == [
        "    · agent_run_clerk: delegating to clerk",
        "    → clerk: add(a=2, b=3)",
        "    ✓ clerk: add: 5",
    ]
    assert "Let me add." not in done.stdout
    assert lines.count("  I heard: I heard: 5") == 1
    assert "  I heard: 5" not in lines
    assert lines[-1].startswith("done · 2 steps")
    assert [line for line in lines if line.startswith("● ")] == ["● boss"]


def test_json_has_the_delegates_events_with_their_own_run(home: Path) -> None:
    done = awaken("run", "office:adding", "Go!", "--json", "--thread", "t1", cwd=home)

    assert done.returncode == 0, done.stderr
    events = [loads(line, RunEvent) for line in done.stdout.splitlines()]
    root = events[0].run_id
    said = {e.thread_id == "t1": e.event.delta for e in events if isinstance(e.event, TextDelta)}
    assert said == {True: "I heard: I heard: 5", False: "I heard: 5"}
    assert {e.parent_run_id for e in events if e.thread_id != "t1"} == {root}
    assert "done · 2 steps" in done.stderr


@pytest.mark.parametrize(
    ("option", "answer", "told"),
    [
        ("--json", "Denied: no approver was there", "refund(euros=7) was denied"),
        ("--yes", "paid 7", "refund(euros=7) was approved automatically (--yes)"),
    ],
)
def test_without_a_terminal_a_delegates_approval_is_like_any_other(
    home: Path, option: str, answer: str, told: str
) -> None:
    done = awaken("run", "office:paying", "Go!", option, cwd=home)

    assert done.returncode == 0, done.stderr
    assert f"I heard: I heard: {answer}" in done.stdout
    assert done.stderr.count(told) == 1


def test_somebody_at_the_terminal_is_asked_once_what_the_delegate_asks(home: Path) -> None:
    with on_terminal("run", "office:paying", "Go!", cwd=home) as process:
        process.read_until("approve refund(euros=7)? [y / n / why not] ›")
        process.type("too much\n")
        process.read_until("I heard: I heard: Denied: too much")
        assert process.exit_code() == 0
    assert process.printed.count("approve refund") == 1
    assert "agent_run_clerk was denied" not in process.printed


def test_a_delegates_question_is_answered_by_another_command(home: Path) -> None:
    kept = ("--thread", "t1", "--store", "sqlite:///office.db")
    with on_terminal("run", "office:paying", "Go!", *kept, cwd=home) as process:
        process.read_until("approve refund(euros=7)?")
        process.type("\x04")
        assert process.exit_code() == 3

    key = only_key(awaken("show", "t1", "--json", *kept[2:], cwd=home).stdout)
    decided = awaken("decide", "t1", key, "yes", *kept[2:], cwd=home)
    assert decided.returncode == 0, decided.stderr
    resumed = awaken("resume", "office:paying", "t1", *kept[2:], cwd=home)

    assert resumed.returncode == 0, resumed.stderr
    assert "I heard: I heard: paid 7" in resumed.stdout


def test_a_delegate_that_was_cut_short_is_resumed_with_the_run_it_works_for(home: Path) -> None:
    store = ("--store", "sqlite:///office.db")
    with on_terminal("run", "office:holding", "Go!", "--thread", "t1", *store, cwd=home) as process:
        wait_until((home / "held").exists, "the delegate was at work")
        process.kill()
    beneath = awaken("threads", "--children-of", "t1", "--json", *store, cwd=home)
    (child,) = [thread["id"] for thread in loads(beneath.stdout)["items"]]

    alone = awaken("resume", "office:holding", child, *store, cwd=home)
    together = awaken("resume", "office:holding", *store, cwd=home)

    assert alone.returncode == 2
    assert "resume thread t1" in alone.stderr
    assert together.returncode == 0, together.stderr
    assert "it is unknown whether 'hold' took effect" in together.stdout
    assert together.stdout.count("goes on after") == 1
