"""A second process lists, watches, cancels, messages and decides the run of the first.

The first is a command of its own; the second is another one, or this very process.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Here, Printed, on_pipe, on_terminal, only_key, write_app

from awaken.codec import from_json, loads
from awaken.core.event import RunEvent, RunFinish, ToolCallReady
from awaken.core.lifecycle import CANCELLED
from awaken.core.run import CancelOutcome, CancelReceipt, RunRecord
from awaken.core.store.threads import Page
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import Thread


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_a_run_is_listed_watched_and_cancelled_from_another_process(
    home: Path, printed: Printed, here: Here
) -> None:
    with on_pipe("run", "app:sleeper", "Go", "--thread", "night", cwd=home) as first:
        first.read_until("slow: slow has begun\n")
        first.read_until("add: 2\n")
        assert printed("threads").splitlines()[1].split()[:2] == ["night", "running"]
        listed = printed("runs", "--json", "--status", "running")
        (run,) = loads(listed, Page[RunRecord]).items
        with (
            on_pipe("watch", "night", cwd=home) as people,
            on_pipe("watch", run.run_id, "--json", cwd=home) as program,
        ):
            people.read_until("● you\n  Go\n\n● sleeper\n  Wait.\n")
            people.read_until("add: 2\n")
            program.read_until("tool_call_ready")
            told = printed("cancel", "night").splitlines()
            assert told[0] == f"run {run.run_id} was stopped"
            assert [line.split()[:3] for line in told[2:]] == [
                ["stopped", "run", "sleeper"],
                ["finished", "call", "add"],
                ["stopped", "call", "slow"],
            ]
            assert told[-1].endswith("it is unknown whether it took effect")
            first.read_until("interrupted: slow")
            assert first.exit_code() == 130
            people.read_until("slow was interrupted, with an unknown outcome\n")
            people.read_until("cancelled · 1 step")
            assert people.exit_code() == 130
            assert program.exit_code() == 130
    events = [loads(line, RunEvent) for line in program.printed.splitlines()]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [e.event.name for e in events if isinstance(e.event, ToolCallReady)] == ["add", "slow"]
    assert isinstance(events[-1].event, RunFinish)
    assert events[-1].event.termination == CANCELLED
    again = here("cancel", "night")
    assert again.code == 1
    assert "nothing to cancel: no run of thread night is open" in again.err


def test_what_was_sent_and_what_was_cancelled_is_told_as_json(home: Path, printed: Printed) -> None:
    with on_pipe("run", "app:sleeper", "Go", "--thread", "night", cwd=home) as first:
        first.read_until("slow: slow has begun\n")
        sent = loads(printed("send", "night", "Wake up!", "--json"))
        receipt = loads(printed("cancel", "night", "--json"), CancelReceipt)
        run, *calls = receipt.items
        assert sent == {"thread_id": "night", "run_id": run.run_id, "text": "Wake up!"}
        assert (run.kind, run.outcome) == ("run", CancelOutcome.STOPPED)
        assert [call.name for call in calls] == ["add", "slow"]
        assert first.exit_code() == 130


def test_a_message_from_another_process_is_read_at_the_next_step(
    home: Path, printed: Printed, here: Here
) -> None:
    with on_pipe("run", "app:listener", "I hear you.", "--thread", "ear", cwd=home) as first:
        first.read_until("→ tick()")
        told = printed("send", "ear", "Hello from afar.")
        assert told == "sent; the model reads it at its next step\n"
        first.read_until("You said: Hello from afar.")
        assert first.exit_code() == 0
    late = here("send", "ear", "Hello?")
    assert late.code == 1
    assert "no run of thread ear is open to read it" in late.err
    assert "awaken run MODULE:AGENT … --thread ear" in late.err


def test_a_question_on_one_terminal_is_answered_on_another(home: Path) -> None:
    with on_terminal("run", "app:payer", "Pay!", "--thread", "bill", cwd=home) as first:
        first.read_until("approve refund(euros=7)? [y / n / why not] › ")
        with on_terminal("decide", "bill", cwd=home) as second:
            second.read_until("approve refund(euros=7)? [y / n / why not] › ")
            second.type("n: too much\n")
            second.read_until("denied by ")
            second.read_until("the run goes on in its process")
            assert second.exit_code() == 0
        first.read_until("refund was answered by ")
        first.read_until("refund was denied: too much")
        first.read_until("I heard: Denied: too much")
        assert first.exit_code() == 0


@pytest.mark.parametrize(
    ("answer", "words", "heard"),
    [
        (("yes",), "approved by ada", "paid 7"),
        (("--edit", '{"euros": 5}'), "approved with other arguments by ada", "paid 5"),
    ],
    ids=["yes", "edit"],
)
def test_a_waiting_run_goes_on_where_it_is_with_the_answer_it_gets(
    home: Path, printed: Printed, answer: tuple[str, ...], words: str, heard: str
) -> None:
    with on_terminal("chat", "app:payer", "--thread", "bill", cwd=home) as first:
        first.read_until("you › ")
        first.type("Pay!\n")
        first.read_until("why not] › ")
        key = only_key(printed("show", "bill", "--json"))
        told = printed("decide", "bill", key, *answer, "--by", "ada")
        assert "refund(euros=7)\n  Approve refund?\n" in told
        assert f"{words}\nthe run goes on in its process\n" in told
        first.read_until("refund was answered by ada")
        first.read_until(f"I heard: {heard}.")
        first.read_until("you › ")


def test_a_decision_as_json_is_the_ticket_and_a_second_one_is_refused(
    home: Path, printed: Printed, here: Here
) -> None:
    with on_terminal("run", "app:payer", "Pay!", "--thread", "bill", cwd=home) as first:
        first.read_until("why not] › ")
        key = only_key(printed("show", "bill", "--json"))
        told = loads(printed("decide", "bill", key, "yes", "--by", "ada", "--json"))
        assert told["live"] is True
        ticket = from_json(told["ticket"], Ticket)
        assert ticket.status is TicketStatus.ANSWERED
        assert ticket.decision is not None
        assert (ticket.decision.by, ticket.decision.digest) == ("ada", ticket.digest)
        assert first.exit_code() == 0
    again = here("decide", "bill", "c1", "no")
    assert again.code == 2
    assert "nothing in thread bill waits for an answer" in again.err


def test_a_busy_thread_refuses_a_second_prompt_or_lets_it_wait(
    home: Path, printed: Printed, here: Here
) -> None:
    with on_pipe("run", "app:guard", "Halt", "--thread", "door", cwd=home) as first:
        first.read_until("gate: the gate is shut\n")
        refused = here("run", "app:guard", "Me too", "--thread", "door")
        assert refused.code == 2
        assert "thread already has an active run" in refused.err
        with on_pipe("run", "app:guard", "And I?", "--thread", "door", "--queue", cwd=home) as last:
            (home / "open").touch()
            assert first.exit_code() == 0
            last.read_until("And you said: And I?")
            assert last.exit_code() == 0
    page = loads(printed("threads", "--json"), Page[Thread])
    assert [thread.message_count for thread in page.items] == [6]


def test_watching_ends_with_ctrl_c_and_leaves_the_run_alone(home: Path, printed: Printed) -> None:
    with on_pipe("run", "app:guard", "Halt", "--thread", "door", cwd=home) as first:
        first.read_until("gate: the gate is shut\n")
        with on_pipe("watch", "door", "--forever", cwd=home) as second:
            second.read_until("→ gate()")
            second.interrupt()
            second.read_until("no longer watching; the run goes on")
            assert second.exit_code() == 130
            assert "Traceback" not in second.printed
        (home / "open").touch()
        first.read_until("I heard: the gate is open")
        assert first.exit_code() == 0
    rest = printed("watch", "door", "--after", "6")
    assert rest.startswith("\n● guard\n  I heard: the gate is open.\n  · step ended · seq 9\n")
