"""What was started by others, in lists and transcripts: delegates and tasks where they belong."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from cli_process import Printed, on_pipe
from team_kit import write_team

from awaken import Runtime
from awaken.codec import from_json, loads
from awaken.core.event import RunEvent, TextDelta
from awaken.core.run import RunRecord
from awaken.core.store.threads import Page
from awaken.core.task import TaskStatus
from awaken.core.thread import Thread
from awaken.ext.tasks.listing import BackgroundTask


def load_team(home: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("stored_team", home / "team.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def fill(home: Path) -> None:
    team = load_team(home)
    agents = [*team.office, team.historian]
    async with Runtime(agents, store=f"sqlite:///{home / 'awaken.db'}") as runtime:
        await runtime.run("twice", "Go!", thread="pair")
        await runtime.run("boss", "Go!", thread="case")
        await runtime.run("boss", "Once more!", thread="case")
        await runtime.run("historian", "The mill?", thread="stopped")
        await runtime.cancel("stopped")
        (home / "open").touch()
        await runtime.run("historian", "The mill?", thread="lab")
        await runtime.wait("lab")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = write_team(tmp_path_factory.mktemp("tree"))
    # The gate is a file beside the module; only there is it found.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        asyncio.run(fill(home))
    return home


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# -- lists --------------------------------------------------------------------------------------


def test_threads_that_were_started_stand_beneath_the_one_that_started_them(
    printed: Printed,
) -> None:
    lines = printed("threads").splitlines()[1:]
    assert [line.split()[0] for line in lines if indent(line) == 0] == [
        "lab",
        "stopped",
        "case",
        "pair",
    ]
    case = lines[[line.split()[0] for line in lines].index("case") :]
    assert [indent(line) for line in case] == [0, 2, 4, 0, 2, 2]
    assert case[1].endswith("clerk: Do it.")
    assert case[2].endswith("intern: Do it.")
    assert lines[1].endswith("task research")


def test_threads_as_json_are_those_nobody_has_started_unless_they_are_asked_for(
    printed: Printed,
) -> None:
    page = loads(printed("threads", "--json"), Page[Thread])
    assert {thread.id for thread in page} == {"case", "pair", "stopped", "lab"}
    (child,) = loads(printed("threads", "--children-of", "case", "--json"), Page[Thread])
    assert child.parent_thread_id == "case"
    beneath = printed("threads", "--children-of", "case").splitlines()[1:]
    assert [indent(line) for line in beneath] == [0, 2]


def test_of_many_threads_beneath_one_the_latest_are_listed(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.cli.commands.threads.MOST_CHILDREN", 1)
    lines = printed("threads").splitlines()
    assert [indent(line) for line in lines[-3:]] == [0, 2, 2]
    assert lines[-1].endswith("more: awaken threads --children-of pair")
    assert sum("--children-of" in line for line in lines) == 1


def test_runs_say_beneath_which_thread_they_were_started(printed: Printed) -> None:
    table = [line.split() for line in printed("runs").splitlines()[1:]]
    (clerk,) = (row for row in table if row[1] == "clerk")
    assert clerk[-2:] == ["beneath", "case"]
    tasks = [row for row in table if row[1:3] == ["task", "research"]]
    assert {row[-1] for row in tasks} == {"lab", "stopped"}
    assert sum(row[1] == "boss" and row[-1] == "case" for row in table) == 2


# -- one of them --------------------------------------------------------------------------------


def test_a_run_is_shown_with_the_tree_of_what_it_started(printed: Printed) -> None:
    shown = printed("show", "case")
    tree = shown[shown.index("STARTED") :].splitlines()[1:]
    assert [(indent(line), line.split()[0]) for line in tree] == [(0, "clerk"), (2, "intern")]
    assert all(" done " in line for line in tree)

    (run,) = loads(printed("show", "lab", "--json"))["runs"]
    beneath = loads(printed("show", run["run_id"], "--json"))["started"]
    (task,) = from_json(beneath, list[RunRecord])
    assert (task.agent_id, task.parent_run_id) == ("task:research", run["run_id"])


def test_a_task_is_shown_as_one_with_its_result_and_owner(printed: Printed) -> None:
    (task,) = loads(printed("tasks", "lab", "--json"), list[BackgroundTask])
    (run,) = loads(printed("runs", "--thread", "lab", "--json"), Page[RunRecord])
    shown = printed("show", task.id)
    assert "  task        research\n  agent       historian\n  state       done\n" in shown
    assert f"  started by  run {run.run_id} of thread lab\n" in shown
    assert "  result      the mill is old\n" in shown


def test_what_started_nothing_shows_no_tree(printed: Printed) -> None:
    (intern, *_) = loads(printed("runs", "--agent", "intern", "--json"), Page[RunRecord])
    assert "STARTED" not in printed("show", intern.run_id)


# -- tasks --------------------------------------------------------------------------------------


def test_tasks_are_listed_with_their_state_age_owner_and_result(printed: Printed) -> None:
    lines = printed("tasks").splitlines()
    assert lines[0].split() == ["TASK", "NAME", "STATE", "BEGUN", "THREAD", "RESULT"]
    done, stopped = lines[1:]
    assert done.split()[1:3] == ["research", "completed"]
    assert done.endswith("lab (bg_0)      the mill is old")
    assert stopped.split()[1:3] == ["research", "cancelled"]
    assert stopped.endswith("stopped (bg_0)")
    assert [line.split() for line in printed("tasks", "--limit", "1").splitlines()] == [
        line.split() for line in lines[:2]
    ]


def test_tasks_of_one_thread_or_of_one_status(printed: Printed) -> None:
    of_lab = loads(printed("tasks", "lab", "--json"), list[BackgroundTask])
    completed = loads(printed("tasks", "--status", "completed", "--json"), list[BackgroundTask])
    assert of_lab == completed
    (task,) = of_lab
    assert (task.status, task.result) == (TaskStatus.COMPLETED, "the mill is old")
    assert task.thread_id == "lab"
    assert printed("tasks", "case") == "no tasks\n"
    assert printed("tasks", "--status", "running") == "no tasks\n"


# -- watching -----------------------------------------------------------------------------------


def test_what_others_do_is_watched_beneath_the_call_that_asked_for_it(printed: Printed) -> None:
    shown = printed("watch", "case", "--no-follow").splitlines()
    began = shown.index('  → agent_run_clerk(prompt="Do it.")')
    ended = next(place for place, line in enumerate(shown) if "✓" in line and "run_clerk" in line)
    beneath = shown[began + 1 : ended]
    assert [line for line in beneath if "lose" in line] == [
        "    → clerk: lose()",
        "    ✗ clerk: lose: Execution failed: RuntimeError: lost it",
    ]
    assert [line for line in beneath if "lose" not in line] == [
        '    → clerk: agent_run_intern(prompt="Do it.")',
        "      → intern: add(a=2, b=3)",
        "      ✓ intern: add: 5",
        "    ✓ clerk: agent_run_intern: I heard: 5",
    ]
    assert not any("Let me see." in line or "Let me add." in line for line in shown)


def test_a_task_is_watched_by_its_name_and_its_result(printed: Printed) -> None:
    shown = printed("watch", "lab")
    assert "    ✓ task research: the mill is old\n" in shown
    assert shown.splitlines()[-1].startswith("done · 3 steps")


def test_the_events_of_others_are_among_the_json_with_threads_of_their_own(
    printed: Printed,
) -> None:
    lines = printed("watch", "case", "--json", "--no-follow").splitlines()
    events = [loads(line, RunEvent) for line in lines]
    own = [event for event in events if event.thread_id == "case"]
    others = [event for event in events if event.thread_id != "case"]
    assert [event.seq for event in own] == list(range(1, len(own) + 1))
    assert {event.parent_run_id for event in others} >= {own[0].run_id}
    assert not any(isinstance(event.event, TextDelta) for event in events)

    after = str(own[-1].seq)
    assert printed("watch", "case", "--json", "--no-follow", "--after", after) == ""


def test_a_run_is_watched_with_what_it_started_and_nothing_else(printed: Printed) -> None:
    second, first = loads(printed("runs", "--thread", "case", "--json"), Page[RunRecord]).items
    assert "clerk" in printed("watch", first.run_id, "--no-follow")
    assert "clerk" not in printed("watch", second.run_id, "--no-follow")


def test_a_delegate_in_another_process_is_watched_while_it_works(tmp_path: Path) -> None:
    home = write_team(tmp_path)
    with on_pipe("run", "team:hotel", "Go!", "--thread", "t1", cwd=home) as process:
        process.read_until("    → porter: gate()\n")
        with on_pipe("watch", "t1", cwd=home) as watching:
            watching.read_until("    → porter: gate()\n")
            (home / "open").touch()
            watching.read_until("    ✓ porter: gate: the gate is open\n")
            watching.read_until("  I heard: I heard: the gate is open\n")
            assert watching.exit_code() == 0
        assert process.exit_code() == 0
