"""Background tasks on the command line: who starts them stays, hears of them, or comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import awaken, on_pipe, on_terminal
from team_kit import write_team

from awaken.codec import loads
from awaken.core.event import ActivitySnapshot, RunEvent, RunFinish, RunStart
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.task import TaskStatus
from awaken.ext.tasks.listing import BackgroundTask

NEWS = '"result":"the mill is old"'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_team(tmp_path)


def statuses(home: Path, thread: str) -> list[TaskStatus]:
    listed = awaken("tasks", thread, "--json", cwd=home)
    return [task.status for task in loads(listed.stdout, list[BackgroundTask])]


# -- run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["historian", "recovering"])
def test_a_run_stays_until_its_tasks_have_ended_and_says_what_they_brought(
    home: Path, target: str
) -> None:
    with on_pipe("run", f"team:{target}", "The mill?", "--thread", "t1", cwd=home) as process:
        process.read_until("  ! waits for background tasks: research\n")
        process.read_until("    · task research: before the gate\n")
        (home / "open").touch()
        process.read_until(NEWS)
        process.read_until("\ndone · 3 steps")
        assert process.exit_code() == 0
    assert process.printed.count("before the gate") == 1
    assert process.printed.count(NEWS) == 1
    assert statuses(home, "t1") == [TaskStatus.COMPLETED]


def test_json_has_what_tasks_report_as_events_of_theirs(home: Path) -> None:
    with on_pipe("run", "team:historian", "The mill?", "--json", cwd=home) as process:
        process.read_until('"activity_type":"tool-call-progress"')
        (home / "open").touch()
        assert process.exit_code() == 0
    lines = [line for line in process.printed.splitlines() if line.startswith("{")]
    events = [loads(line, RunEvent) for line in lines]
    own = [event.event for event in events if event.thread_id == events[0].thread_id]
    task = [event for event in events if event.thread_id != events[0].thread_id]
    ends = [event.termination for event in own if isinstance(event, RunFinish)]
    assert ends == [NATURAL_END, NATURAL_END]
    assert isinstance(task[0].event, RunStart)
    assert isinstance(task[1].event, ActivitySnapshot)
    assert task[1].event.content == {"message": "before the gate", "progress": 0.5}
    assert {event.parent_run_id for event in task} == {events[0].run_id}


def test_ctrl_c_stops_the_tasks_and_the_run_that_waits_for_them(home: Path) -> None:
    with on_pipe("run", "team:historian", "The mill?", "--thread", "t1", cwd=home) as process:
        process.read_until("before the gate")
        process.interrupt()
        process.read_until("cancelled · 2 steps")
        assert process.exit_code() == 130
    assert statuses(home, "t1") == [TaskStatus.CANCELLED]
    watched = awaken("watch", "t1", "--json", cwd=home)
    last = [loads(line, RunEvent) for line in watched.stdout.splitlines()][-1]
    assert isinstance(last.event, RunFinish)
    assert last.event.termination == CANCELLED


def test_an_agent_in_the_background_is_answered_at_the_terminal(home: Path) -> None:
    with on_terminal("run", "team:bank", "Pay!", "--thread", "t1", cwd=home) as process:
        process.read_until("payer, in the background, needs an answer")
        process.read_until("approve pay(euros=7)? [y / n / why not] ›")
        process.type("y\n")
        process.read_until("I heard: paid 7")
        process.read_until("done · 3 steps")
        assert process.exit_code() == 0


def test_without_a_terminal_an_agent_in_the_background_is_told_no(home: Path) -> None:
    done = awaken("run", "team:bank", "Pay!", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "pay(euros=7) was denied" in done.stderr
    assert "Denied: no approver was there" in done.stdout


def test_a_question_from_the_background_can_be_left_and_answered_later(home: Path) -> None:
    with on_terminal("run", "team:bank", "Pay!", "--thread", "t1", cwd=home) as process:
        process.read_until("approve pay(euros=7)? [y / n / why not] ›")
        process.type("\x04")
        process.read_until("to answer: awaken decide ")
        process.read_until("to go on: awaken resume team:bank t1")
        process.read_until("waiting for tasks · 2 steps")
        assert process.exit_code() == 3
    asking = process.printed.partition("to answer: awaken decide ")[2].split()[:3]
    assert asking[2] == "yes"

    decided = awaken("decide", *asking, cwd=home)
    assert decided.returncode == 0, decided.stderr
    resumed = awaken("resume", "team:bank", "t1", cwd=home)
    assert resumed.returncode == 0, resumed.stderr
    assert "I heard: paid 7" in resumed.stdout


# -- resume -------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [(), ("t1",)])
def test_a_task_whose_process_was_killed_is_taken_up_with_the_run_that_waits_for_it(
    home: Path, id: tuple[str, ...]
) -> None:
    with on_pipe("run", "team:historian", "The mill?", "--thread", "t1", cwd=home) as process:
        process.read_until("before the gate")
        process.kill()
    (home / "open").touch()

    resumed = awaken("resume", "team:historian", *id, cwd=home)

    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.count("thread t1: historian goes on") == 1
    assert resumed.stdout.count(NEWS) == 1
    assert "other agents" not in resumed.stderr
    assert statuses(home, "t1") == [TaskStatus.COMPLETED]


# -- chat ---------------------------------------------------------------------------------------


def test_a_chat_goes_on_while_a_task_runs_and_its_news_comes_at_the_prompt(home: Path) -> None:
    with on_terminal("chat", "team:historian", cwd=home) as process:
        process.read_until("you › ")
        process.type("The mill?\n")
        process.read_until("waiting for tasks · 2 steps")
        process.read_until("you › ")
        process.type("Hello?\n")
        process.read_until("I heard: Hello?")
        process.read_until("you › ")
        (home / "open").touch()
        process.read_until("● historian")
        process.read_until(NEWS)
        process.read_until("done · ")
        process.read_until("you › ")
        process.type("/history\n")
        process.read_until("you  Hello?")
        process.read_until("you › ")
        process.type("/quit\n")
        assert process.exit_code() == 0
    assert "you  <background-task-event" not in process.printed
    assert "tasks are left" not in process.printed


def test_ctrl_c_leaves_a_chat_that_listens_for_news(home: Path) -> None:
    with on_terminal("chat", "team:historian", "--thread", "t1", cwd=home) as process:
        process.read_until("you › ")
        process.type("The mill?\n")
        process.read_until("waiting for tasks")
        process.read_until("you › ")
        process.interrupt()
        assert process.exit_code() == 130
    assert statuses(home, "t1") == [TaskStatus.RUNNING]


def test_who_leaves_a_chat_is_told_how_to_come_back_to_its_tasks(home: Path) -> None:
    with on_terminal("chat", "team:historian", "--thread", "t1", cwd=home) as process:
        process.read_until("you › ")
        process.type("The mill?\n")
        process.read_until("waiting for tasks")
        process.read_until("you › ")
        process.type("/quit\n")
        process.read_until("background tasks are left: research")
        process.read_until("to go on: awaken resume team:historian t1")
        assert process.exit_code() == 0
    assert statuses(home, "t1") == [TaskStatus.RUNNING]
    (home / "open").touch()
    assert NEWS in awaken("resume", "team:historian", "t1", cwd=home).stdout


def test_a_question_from_the_background_is_asked_at_the_prompt(home: Path) -> None:
    with on_terminal("chat", "team:bank", cwd=home) as process:
        process.read_until("you › ")
        process.type("Pay!\n")
        process.read_until("approve pay(euros=7)? [y / n / why not] ›")
        process.type("no, thanks\n")
        process.read_until("Denied: thanks")
        process.read_until("you › ")
        process.type("/quit\n")
        assert process.exit_code() == 0


def test_a_chat_that_is_piped_in_waits_for_its_tasks(home: Path) -> None:
    (home / "open").touch()
    done = awaken("chat", "team:historian", cwd=home, stdin="The mill?\n")
    assert done.returncode == 0, done.stderr
    assert NEWS in done.stdout
