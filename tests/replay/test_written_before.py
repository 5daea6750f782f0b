"""Databases written by earlier versions: they are read, and their open runs are continued.

`office.py` says how one is written. A file is never written again: a later version adds its own.
`0.1-postgres.sql` was written by the code before its packages became fourteen rooms.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import asyncpg
import pytest
from office import AGENTS, SCHEMA

from awaken import Runtime
from awaken.core.lifecycle import NATURAL_END
from awaken.core.message import Role
from awaken.core.run import RunKind, RunRecord
from awaken.core.store.threads import RunQuery
from awaken.errors import StoreUnavailable
from postgres_kit import Postgres

HERE = Path(__file__).parent
WRITTEN = sorted(path.name for end in ("sqlite", "sql") for path in HERE.glob(f"*.{end}"))
LATER = ["0.1-second.sqlite", "0.1-third.sqlite", "0.1-postgres.sql"]
"""The offices whose process was killed while a delegate and a background agent were at work."""


async def restore(name: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """The address of a store like the one that was written."""
    if name.endswith(".sql"):
        server: Postgres = request.getfixturevalue("postgres")
        return await server.restore(SCHEMA, (HERE / name).read_text())
    shutil.copy(HERE / name, folder / "office.db")
    return f"sqlite:///{folder / 'office.db'}"


@pytest.fixture(params=WRITTEN)
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return await restore(request.param, tmp_path, request)


@pytest.fixture
async def reader(address: str) -> AsyncIterator[Runtime]:
    async with Runtime(AGENTS, store=address, recover=False) as runtime:
        yield runtime


@pytest.fixture
async def office(address: str) -> AsyncIterator[Runtime]:
    async with Runtime(AGENTS, store=address) as runtime:
        yield runtime


async def said(runtime: Runtime, thread: str) -> list[tuple[Role, str]]:
    return [(m.role, m.text()) for m in await runtime.messages(thread)]


def test_there_are_databases_of_earlier_versions() -> None:
    assert {Path(name).suffix for name in WRITTEN} == {".sqlite", ".sql"}


async def test_conversations_are_read(reader: Runtime) -> None:
    assert await said(reader, "talk") == [
        (Role.USER, "please look charge"),
        (Role.ASSISTANT, ""),
        (Role.TOOL, "three chairs"),
        (Role.ASSISTANT, ""),
        (Role.TOOL, "charged"),
        (Role.ASSISTANT, "three chairs / charged"),
        (Role.USER, "thank you"),
        (Role.ASSISTANT, "noted"),
    ]
    assert await said(reader, "copy") == (await said(reader, "talk"))[:2]


async def test_events_are_read_without_a_gap(reader: Runtime) -> None:
    for thread in ("talk", "approval", "team", "background", "killed"):
        numbers = [told.seq async for told in reader.events(thread, follow=False)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


async def test_finished_runs_say_how_they_ended(reader: Runtime) -> None:
    ended: list[RunRecord] = [
        run for run in await reader.list_runs() if run.thread_id == "talk" and run.finished_at
    ]
    assert [run.final_output for run in ended] == ["noted", "three chairs / charged"]
    assert {run.termination_reason for run in ended} == {NATURAL_END}


async def test_times_are_known_in_milliseconds(reader: Runtime) -> None:
    """The earliest versions kept seconds alone."""
    for run in await reader.list_runs(RunQuery(limit=100)):
        assert run.created_at_ms // 1000 == run.created_at > 0
        assert run.updated_at_ms // 1000 == run.updated_at
        assert (run.finished_at_ms is None) == (run.finished_at is None)
    assert not (await reader.list_runs(RunQuery(updated_after_ms=run.created_at_ms * 2))).items


async def test_a_run_that_waited_for_an_approval_goes_on_with_it(office: Runtime) -> None:
    (ticket,) = [t for t in await office.list_tickets() if t.thread_id == "approval"]
    result = await office.run(thread="approval", answers={ticket.key: True})
    assert result.response == "charged / shipped"


async def test_a_delegate_that_waited_for_an_approval_goes_on_with_it(office: Runtime) -> None:
    (ticket,) = [t for t in await office.list_tickets() if t.thread_id == "team"]
    result = await office.run(thread="team", answers={ticket.key: True})
    assert result.response == "charged / shipped"


async def test_background_tasks_are_known_by_their_kind(reader: Runtime) -> None:
    tasks = [run for run in await reader.list_runs(RunQuery(limit=100)) if run.is_task]
    assert [run.run_id for run in tasks] == [task.id for task in await reader.tasks()]
    assert tasks


async def test_a_background_task_whose_process_died_is_carried_on(office: Runtime) -> None:
    result = await office.wait("background")
    assert result.termination == NATURAL_END
    (task,) = await office.tasks("background")
    assert (task.status.value, task.result) == ("completed", "found")


async def test_a_killed_run_goes_on_and_reads_the_message_that_waited(office: Runtime) -> None:
    result = await office.wait("killed")
    assert result.termination == NATURAL_END
    told = await said(office, "killed")
    assert [text for role, text in told if role is Role.USER] == ["please charge explode", "hurry"]
    charged, exploded = [text for role, text in told if role is Role.TOOL]
    assert charged == "charged"
    assert "unknown" in exploded


async def test_what_was_spent_before_counts(office: Runtime) -> None:
    result = await office.wait("killed")
    assert result.spent is not None
    assert result.spent.steps == result.steps


@pytest.fixture(params=LATER)
async def later_office(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    address = await restore(request.param, tmp_path, request)
    async with Runtime(AGENTS, store=address) as runtime:
        yield runtime


@pytest.mark.parametrize("thread", ["porter", "packer"])
async def test_a_delegate_whose_process_died_goes_on_and_is_not_started_again(
    later_office: Runtime, thread: str
) -> None:
    result = await later_office.wait(thread)
    assert result.termination == NATURAL_END
    beneath = RunQuery(ancestor_thread_id=thread, kind=RunKind.AGENT)
    (delegate,) = await later_office.list_runs(beneath)
    assert delegate.final_output == "charged / nine boxes"
    told = [
        text for role, text in await said(later_office, delegate.thread_id) if role is Role.TOOL
    ]
    assert told == ["charged", "nine boxes"]
    assert "nine boxes" in str(await said(later_office, thread))


async def test_new_runs_are_written_behind_those_of_before(office: Runtime) -> None:
    result = await office.run("boss", "please look", thread="talk")
    assert result.response == "three chairs"
    assert (await said(office, "talk"))[-1] == (Role.ASSISTANT, "three chairs")
    numbers = [told.seq async for told in office.events("talk", follow=False)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_database_of_a_later_version_is_refused_with_words(address: str) -> None:
    """What this version would write, a later one may not be able to read."""
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as database:
            database.execute("PRAGMA user_version = 1000")
    else:
        connection = await asyncpg.connect(address.partition("?")[0])
        await connection.execute(f"INSERT INTO {SCHEMA}.migrations VALUES (1000, 'later')")
        await connection.close()
    with pytest.raises(StoreUnavailable, match=r"has version 1000.*upgrade awaken"):
        async with Runtime(AGENTS, store=address):
            pass


# -- exported tests ---------------------------------------------------------------------------

EXPORT_AGAIN = "if an earlier release of awaken has written this test, export it again"
IMPORTED = {
    "awaken": "Message ToolCallResume InferenceOverride ToolCall ToolDescriptor",
    "awaken.domain.inference": "ReasoningBudget StopReason TokenUsage",
    "awaken.domain.lifecycle": (
        "BehaviorRequested Blocked CancelledEnd Failed NaturalEnd Stopped StoppedReason Suspended"
    ),
    "awaken.domain.message": (
        "Audio Base64Source BlobSource Citation CompactionInterval Document Image MessageMetadata "
        "Opaque Role Text Thinking ToolResultBlock ToolUse UrlSource Video Visibility"
    ),
    "awaken.domain.suspension": "ResumeAction ToolCallResumeMode",
    "awaken.domain.tool": "ToolKind",
    "awaken.front.replay": "Approval RecordedCall Scene answer call replay",
    "awaken.testing": "ScriptedModel stream_of",
}
"""All that a test imports that release 0.1 exported, by its module."""


def run_exported(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    shutil.copy(Path(__file__).parent / f"{name}.py.txt", folder / "test_exported.py")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_exported.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
    )


def test_a_test_that_an_earlier_version_exported_passes(tmp_path: Path) -> None:
    done = run_exported("0.1-public", tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "export it again" not in done.stdout


def test_an_earlier_test_of_private_modules_says_in_one_line_what_to_do(tmp_path: Path) -> None:
    done = run_exported("0.1-exported", tmp_path)
    assert done.returncode == 2, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("E  ")]
    assert line.endswith(f"ImportError: there is no awaken.domain: {EXPORT_AGAIN}")


def test_an_earlier_test_with_too_few_answers_fails_and_says_in_one_line_what_to_do(
    tmp_path: Path,
) -> None:
    """A later version asks once more after an empty answer."""
    done = run_exported("0.1-empty-answer", tmp_path)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "export it again" in line]
    assert line.endswith(f"the model was asked more often than it was recorded: {EXPORT_AGAIN}")


def test_an_earlier_test_that_imports_a_name_that_is_gone_says_in_one_line_what_to_do(
    tmp_path: Path,
) -> None:
    """The name stands for one that a later version no longer has."""
    written = (Path(__file__).parent / "0.1-public.py.txt").read_text()
    (tmp_path / "0.1-gone.py.txt").write_text(written.replace("Scene, answer", "Scenery, answer"))

    done = subprocess.run(
        [sys.executable, str(tmp_path / "0.1-gone.py.txt")],
        capture_output=True,
        text=True,
        timeout=250,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: awaken.front.replay has no Scenery: {EXPORT_AGAIN}"
    )


@pytest.mark.parametrize("module", IMPORTED)
def test_what_an_earlier_test_imports_is_there_or_says_what_to_do(module: str) -> None:
    """A module that is to go leaves one behind with its name, whose `__getattr__` raises an
    ImportError with these words: of a module without a trace Python says only that it is gone."""
    for name in IMPORTED[module].split():
        try:
            getattr(import_module(module), name)
        except ImportError as error:
            assert EXPORT_AGAIN in str(error)  # noqa: PT017
