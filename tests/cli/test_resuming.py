"""What a killed process leaves behind, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Here, on_pipe, on_terminal, only_key
from store_kit import write_store

from awaken import Runtime
from awaken.codec import loads
from awaken.core.event import RunEvent, RunFinish
from awaken.core.lifecycle import NATURAL_END


async def fill(runtime: Runtime) -> None:
    for thread in ("bill-1", "bill-2"):
        await runtime.run("payer", "Pay!", thread=thread)
    await runtime.run("painter", "Paint!", thread="wall")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_store(tmp_path, fill)


def killed_at_the_gate(home: Path) -> None:
    with on_pipe("run", "app:guard", "Who goes there?", "--thread", "door", cwd=home) as first:
        first.read_until("gate: the gate is shut\n")
        first.kill()


def test_a_killed_run_is_seen_at_once_and_goes_on_from_its_last_commit(
    home: Path, here: Here
) -> None:
    killed_at_the_gate(home)
    shown = here("show", "door").out
    assert "  state       to resume\n" in shown
    assert "→ gate()  under way: it may have begun" in shown
    with on_pipe("watch", "door", cwd=home) as watcher:
        watcher.read_until("→ gate()\n")
        watcher.read_until("nobody runs it now; this goes on with it: awaken resume")
        resumed = here("resume", "app:guard")
        assert resumed.code == 0, resumed.err
        assert "thread door: guard goes on after 0 steps" in resumed.out
        assert "gate was interrupted, with an unknown outcome" in resumed.out
        assert "I heard: the process ended while the call was under way" in resumed.out
        assert "Halt." not in resumed.out
        watcher.read_until("gate was interrupted, with an unknown outcome")
        watcher.read_until("I heard: the process ended while the call was under way")
        assert watcher.exit_code() == 0
    shown = here("show", "door").out
    assert "! gate()  outcome unknown: it may have happened, check" in shown
    assert "idempotency key " in shown


def test_a_new_prompt_goes_on_with_a_thread_whose_process_was_killed(
    home: Path, here: Here
) -> None:
    killed_at_the_gate(home)
    done = here("run", "app:guard", "Still there?", "--thread", "door")
    assert done.code == 0, done.err
    assert "And you said: Still there?" in done.out
    nothing = here("resume", "app:guard")
    assert nothing.code == 0
    assert "nothing to resume; some wait for an answer" in nothing.err


def test_a_killed_run_can_be_cancelled_by_a_process_that_has_no_agents(
    home: Path, here: Here
) -> None:
    killed_at_the_gate(home)
    done = here("cancel", "door")
    assert done.code == 3, "nobody knows what became of its call"
    first, _, run, call, last = done.out.splitlines()
    assert first.endswith("was stopped")
    assert run.split()[:3] == ["stopped", "run", "guard"]
    assert call.split()[:3] == ["unknown", "call", "gate"]
    assert last == "1 outcome unknown: check before it is done again"
    over = here("resume", "app:guard", "door")
    assert over.code == 2
    assert "thread door has nothing to go on with" in over.err


def test_an_answer_is_kept_until_the_run_is_resumed(home: Path, here: Here) -> None:
    key = only_key(here("show", "bill-1", "--json").out)
    told = here("decide", "bill-1", key, "yes", "--by", "ada").out
    assert "approved by ada\nno process runs it now" in told
    assert "  awaken resume MODULE:AGENT bill-1\n" in told
    denied = here("decide", "bill-2", "no", "--reason", "too much", "--json")
    assert loads(denied.out)["live"] is False
    done = here("resume", "app:payer")
    assert done.code == 0, done.err
    assert "refund: paid 7\n\n  I heard: paid 7." in done.out
    assert "refund was denied: too much\n\n  I heard: Denied: too much." in done.out


def test_a_run_that_still_waits_is_asked_about_on_the_terminal(home: Path) -> None:
    with on_terminal("resume", "app:payer", "bill-1", cwd=home) as process:
        process.read_until("approve refund(euros=7)? [y / n / why not] › ")
        process.type("y\n")
        process.read_until("refund: paid 7")
        process.read_until("done · ")
        assert process.exit_code() == 0


def test_an_answer_that_comes_second_is_refused_and_changes_nothing(home: Path, here: Here) -> None:
    with on_terminal("decide", "bill-1", cwd=home) as second:
        second.read_until("why not] › ")
        assert here("decide", "bill-1", "no", "--reason", "too much", "--by", "ada").code == 0
        second.type("y\n")
        second.read_until("refused")
        assert second.exit_code() == 1
        assert "Traceback" not in second.printed
    assert "refund was denied: too much" in here("resume", "app:payer").out


def test_a_run_that_waits_is_cancelled_where_nobody_runs_it(home: Path, here: Here) -> None:
    done = here("cancel", "bill-1")
    assert done.code == 0, done.err
    assert [line.split()[:3] for line in done.out.splitlines()[2:]] == [
        ["stopped", "run", "payer"],
        ["stopped", "call", "refund"],
    ]
    shown = here("show", "bill-1").out
    assert "  state       idle\n" in shown
    assert "waits for an answer\n  ?" not in shown


@pytest.mark.parametrize(
    ("answer", "heard"),
    [(("yes",), "took effect"), (("--value", "in orbit"), "in orbit"), (("no",), "did not")],
    ids=["yes", "its result", "no"],
)
def test_somebody_says_what_became_of_a_call_that_cannot_be_asked(
    home: Path, here: Here, answer: tuple[str, ...], heard: str
) -> None:
    with on_pipe("run", "app:pilot", "Go!", "--thread", "moon", cwd=home) as first:
        first.read_until("launch: three, two, one\n")
        first.kill()
    asked = here("resume", "app:pilot", "--yes")
    assert asked.code == 3
    assert "it is unknown whether launch() took effect: the run waits" in asked.err
    key = only_key(here("show", "moon", "--json").out)
    assert "Did it take effect?" in here("decide", "moon", key, *answer).out
    done = here("resume", "app:pilot", "moon")
    assert done.code == 0, done.err
    assert heard in done.out


def test_a_runtime_that_recovers_by_itself_is_waited_for(home: Path, here: Here) -> None:
    killed_at_the_gate(home)
    done = here("resume", "app:recovering")
    assert done.code == 0
    assert "of guard: done" in done.err
    assert "outcome unknown" in here("show", "door").out


def test_resuming_as_json_prints_the_events(home: Path, here: Here) -> None:
    key = only_key(here("show", "wall", "--json").out)
    mere_yes = here("decide", "wall", key, "yes")
    assert mere_yes.code == 2
    assert "colour waits for a value: give it with --value" in mere_yes.err
    assert here("decide", "wall", key, "--value", '{"name": "blue"}').code == 0
    done = here("resume", "app:painter", "--json")
    assert done.code == 0, done.err
    events = [loads(line, RunEvent) for line in done.out.splitlines()]
    last = events[-1].event
    assert isinstance(last, RunFinish)
    assert last.termination == NATURAL_END
    assert last.result["response"] == 'I heard: {"name":"blue"}.'


def test_runs_of_other_agents_are_left_where_they_are(home: Path, here: Here) -> None:
    key = only_key(here("show", "bill-1", "--json").out)
    assert here("decide", "bill-1", key, "yes").code == 0
    done = here("resume", "app:adder")
    assert done.code == 0
    assert "runs of other agents were left, too: payer" in done.err
    other = here("resume", "app:adder", "bill-1")
    assert other.code == 2
    assert "payer" in other.err


def test_a_run_left_suspended_says_how_to_come_back(home: Path, here: Here) -> None:
    done = here("run", "app:painter", "Paint!", "--thread", "a-wall")
    assert done.code == 3
    key = only_key(here("show", "a-wall", "--json").out)
    assert f"to answer:  awaken decide a-wall {key} --value JSON\n" in done.out
    assert "to go on:   awaken resume app:painter a-wall\n" in done.out
