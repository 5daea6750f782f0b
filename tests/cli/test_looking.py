"""`threads`, `runs` and `show`: what a store holds, for people and for programs."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import Here, Printed, awaken
from store_kit import write_store

from awaken import Runtime
from awaken.codec import from_json, loads
from awaken.core.lifecycle import RunStatus
from awaken.core.message import MessageRecord
from awaken.core.run import RunRecord
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.store.threads import Page
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Two and three?", thread="sums-1")
    await runtime.run("adder", "Once more?", thread="sums-2")
    await runtime.fork("sums-1", new="sums-1-b")
    await runtime.run("payer", "Pay!", thread="bill")
    await runtime.run("adder", "Hello", thread="0199-aaaa-1")
    await runtime.run("adder", "Hello", thread="0199-aaaa-2")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store"), fill)


@pytest.fixture
def refused(here: Here) -> Callable[..., str]:
    """What a command says that makes no sense."""

    def run(*args: str) -> str:
        done = here(*args)
        assert done.code == 2
        assert done.out == ""
        return done.err

    return run


# -- lists --------------------------------------------------------------------------------------


def test_threads_are_listed_with_how_they_stand_and_how_they_begin(printed: Printed) -> None:
    lines = printed("threads").splitlines()
    assert lines[0].split() == ["THREAD", "STATE", "MESSAGES", "CHANGED", "BEGINS"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert len(rows) == 6
    assert rows["bill"].split()[1:3] == ["waiting", "2"]
    assert rows["sums-1"].split()[1:3] == ["idle", "4"]
    assert rows["sums-1"].endswith("Two and three?")


def test_a_list_goes_on_where_the_last_one_ended(printed: Printed) -> None:
    first = printed("threads", "--limit", "4")
    assert len(first.splitlines()) == 6
    cursor = first.splitlines()[-1].partition("--cursor ")[2].strip("'")
    rest = printed("threads", "--limit", "4", "--cursor", cursor)
    assert len(rest.splitlines()) == 3
    told = {line.split()[0] for line in (first + rest).splitlines() if " idle" in line}
    assert len(told) == 5


def test_threads_as_json_are_a_page_of_threads(printed: Printed) -> None:
    page = loads(printed("threads", "--prefix", "sums-", "--json"), Page[Thread])
    assert {thread.id for thread in page.items} == {"sums-1", "sums-2", "sums-1-b"}
    assert page.cursor is None
    forked = next(thread for thread in page.items if thread.id == "sums-1-b")
    assert forked.forked_from == "sums-1"
    assert printed("threads", "--children-of", "bill") == "no threads\n"


def test_runs_are_listed_and_filtered(printed: Printed) -> None:
    (line,) = printed("runs", "--agent", "payer").splitlines()[1:]
    assert line.split()[1:5] == ["payer", "waiting", "1", "0"]
    assert line.endswith("bill")
    assert len(printed("runs").splitlines()) == 6
    assert printed("runs", "--status", "running") == "no runs\n"


def test_runs_as_json_are_a_page_of_records(printed: Printed) -> None:
    page = loads(printed("runs", "--thread", "sums-2", "--json"), Page[RunRecord])
    (run,) = page.items
    assert (run.agent_id, run.status, run.steps) == ("adder", RunStatus.DONE, 2)


# -- one of them --------------------------------------------------------------------------------


def test_a_thread_is_shown_with_its_transcript_calls_and_open_tickets(printed: Printed) -> None:
    shown = printed("show", "bill")
    assert shown.startswith(
        "thread bill\n  state       waiting\n  holds       2 messages, 7 events"
    )
    assert "● you\n  Pay!\n\n● payer\n  Let me pay.\n  → refund(euros=7)\n" in shown
    assert "waits for an answer\n  ? refund(euros=7)\n" in shown
    assert "    digest    " in shown
    assert "    expires   in 1 h\n" in shown
    assert re.search(r"^  awaken decide bill \S+:0 yes$", shown, re.MULTILINE)
    assert "calls\n  ? refund(euros=7)  waits for an answer\n" in shown


def test_a_thread_as_json_is_its_head_runs_messages_tickets_and_calls(printed: Printed) -> None:
    shown = loads(printed("show", "bill", "--json"))
    thread = from_json(shown["thread"], Thread)
    (run,) = from_json(shown["runs"], list[RunRecord])
    (ticket,) = from_json(shown["tickets"], list[Ticket])
    (call,) = from_json(shown["calls"], list[CallEntry])
    messages = from_json(shown["messages"], list[MessageRecord])
    assert thread.open_run_id == run.run_id == ticket.run_id == call.run_id
    assert [message.seq for message in messages] == [1, 2]
    assert (ticket.tool_name, ticket.arguments) == ("refund", {"euros": 7})
    assert (ticket.key, call.phase) == (call.key, CallPhase.SUSPENDED)


def test_a_run_is_shown_with_what_it_was_asked_and_what_it_wrote(printed: Printed) -> None:
    (run,) = loads(printed("runs", "--thread", "sums-1", "--json"), Page[RunRecord]).items
    shown = printed("show", run.run_id)
    assert shown.startswith(f"run {run.run_id}\n  thread      sums-1\n  agent       adder\n")
    assert "● you\n  Two and three?\n" in shown
    assert "  ← add: 5\n\n  I heard: 5.\n" in shown
    assert "✓ add(a=2, b=3)  done" in shown
    again = loads(printed("show", run.run_id, "--json", "--limit", "1"))
    assert [message["seq"] for message in again["messages"]] == [4]


def test_only_the_last_messages_are_shown_if_there_are_many(printed: Printed) -> None:
    shown = printed("show", "sums-1-b", "--limit", "1")
    assert "… 3 messages before" in shown
    assert "Two and three?" not in shown
    assert "forked from sums-1 at event 10" in shown


def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(
    printed: Printed, refused: Printed
) -> None:
    assert printed("show", "bill", "--limit", "0").startswith("thread bill\n")
    assert printed("runs", "--thread", "sums-2").endswith("sums-2\n")
    (run,) = loads(printed("runs", "--thread", "bill", "--json"), Page[RunRecord]).items
    assert printed("show", run.run_id[:-1]).startswith(f"run {run.run_id}\n")
    several = refused("show", "0199-aaaa")
    assert "'0199-aaaa' can be several: thread 0199-aaaa-" in several
    assert "Give more of the id" in several
    assert "the beginning of an id has at least 4 characters" in refused("show", "bil")
    assert "has nothing that begins with 'nothing'" in refused("show", "nothing")


# -- where --------------------------------------------------------------------------------------


def test_a_store_that_is_not_there_is_not_made_by_looking(
    refused: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = refused("threads")
    assert "there is no store at awaken.db" in told
    assert "--store" in told
    assert "AWAKEN_STORE" in told
    assert "exists only in the process" in refused("runs", "--store", "memory:")
    assert not list(tmp_path.iterdir())


def test_the_environment_names_a_store_and_an_option_beats_it(
    printed: Printed, refused: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWAKEN_STORE", f"sqlite:///{Path.cwd() / 'awaken.db'}")
    monkeypatch.chdir(tmp_path)
    assert "sums-1" in printed("threads")
    told = refused("threads", "--store", "sqlite:///other.db")
    assert "there is no store at other.db" in told


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "awaken.db").write_text("Dear diary, " * 100)
    done = awaken("threads", cwd=tmp_path)
    assert done.returncode == 1
    assert "awaken.db" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "awaken.db").read_text().startswith("Dear diary")


# -- runs that no process carries out -----------------------------------------------------------


def test_runs_that_no_process_carries_out_are_listed(
    tmp_path: Path,
) -> None:
    """06 §5.9: a version of an agent is gone. A run that is not due, one that is over and one that
    waits for a person are no orphans."""

    async def fill(runtime: Runtime) -> None:
        await runtime.run("adder", "Two and three?", thread="done")
        await runtime.run("payer", "Pay!", thread="waiting")
        await runtime.submit("adder", "Go on", thread="left")
        await runtime.submit("adder", "Behind it", thread="left")
        await runtime.submit("payer", "Later", thread="later", not_before_ms=10**15)

    home = write_store(tmp_path, fill)
    printed = awaken("runs", "--orphaned", "--json", cwd=home).stdout
    listed = from_json(loads(printed.encode()), Page[RunRecord])
    assert [run.thread_id for run in listed] == ["left", "left"]
    shown = awaken("runs", "--orphaned", "--agent", "payer", cwd=home)
    assert (shown.returncode, shown.stdout) == (0, "no runs\n")
    assert awaken("runs", "--orphaned", "--status", "done", cwd=home).returncode == 2


def test_a_run_whose_thread_is_gone_is_said_so(
    home: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    file = shutil.copytree(home, tmp_path / "copy") / "awaken.db"
    with closing(sqlite3.connect(file)) as database:
        (run,) = database.execute(
            "SELECT runs.id FROM runs JOIN threads ON thread = threads.pk WHERE threads.id = 'bill'"
        ).fetchone()
        database.execute("UPDATE threads SET id = 'renamed' WHERE id = 'bill'")
        database.commit()
    for command in (("show", run), ("export", run, "--pytest"), ("replay", run, "app:payer")):
        said = refused(*command, "--store", f"sqlite:///{file}")
        assert "names thread 'bill', which is not there" in said
        assert "Traceback" not in said
