"""`export`: a finished run becomes a test that replays it, wherever pytest and awaken are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_process import Here, Printed, environment
from store_kit import write_store
from team_kit import write_team

from awaken import Message, Runtime, ToolCallResume
from awaken.cli.pytest_file import Source, SourceCall, block, quote_text, write_test
from awaken.codec import loads
from awaken.core.lifecycle import NATURAL_END
from awaken.core.run import RunRecord
from awaken.core.store.threads import Page
from awaken.runtime.replay import Recording, answer
from awaken.runtime.replay.scene import RecordedStep

LONG = "A line of some length, to be read.\n" * 200


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Two and three?", thread="sums")
    await runtime.run("adder", "Sure?", thread="sums")
    yes = ToolCallResume.approve(by="ann")
    await runtime.run("payer", "Pay!", thread="paid", on_approval=lambda _: yes)
    await runtime.run("payer", "Pay!", thread="bill")
    await runtime.run("adder", LONG, thread="long")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_store(tmp_path, fill)


Tested = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tested(home: Path) -> Tested:
    """Runs pytest on files as their owner would: nothing of this project's tests is there."""

    def run(*files: str) -> subprocess.CompletedProcess[str]:
        keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")
        clean = {name: value for name, value in environment().items() if name not in keys}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=550,
            env=clean,
        )

    return run


@pytest.fixture
def refused(here: Here) -> Callable[..., str]:
    def run(*args: str) -> str:
        done = here(*args)
        assert done.code == 2
        assert done.out == ""
        return done.err

    return run


def run_id(printed: Printed, thread: str) -> str:
    return loads(printed("runs", "--thread", thread, "--json"), Page[RunRecord]).items[-1].run_id


# -- the test -----------------------------------------------------------------------------------


def test_an_exported_run_passes_and_fails_once_an_answer_is_another(
    printed: Printed, home: Path, tested: Tested
) -> None:
    first = run_id(printed, "sums")
    printed("export", first, "--pytest", "-o", "test_first.py")
    printed("export", "sums", "--pytest", "-o", "test_latest.py")
    printed("export", "paid", "--pytest", "-o", "test_paid.py")
    printed("export", "paid", "--pytest", "-o", "tests/test_own.py", "--agent", "app:payer")
    printed("export", "long", "--pytest", "-o", "test_long.py")
    source = (home / "test_first.py").read_text()
    said = source.replace('answer("I heard: 5."', 'answer("I heard: 6."')
    assert said != source
    (home / "test_said.py").write_text(said)
    called = source.replace('call("add", {"a": 2, "b": 3}', 'call("add", {"a": 2, "b": 4}')
    (home / "test_called.py").write_text(called)
    done = tested("-rfp")
    told = {line.split("::")[0] for line in done.stdout.splitlines() if "PASSED" in line}
    assert told == {
        f"PASSED {name}.py"
        for name in ("test_first", "test_latest", "test_long", "test_paid", "tests/test_own")
    }, done.stdout
    assert "assert 'I heard: 6.' == 'I heard: 5.'" in done.stdout
    assert "2 failed, 5 passed" in done.stdout


def test_a_test_of_the_users_own_agent_fails_when_the_agent_changes(
    printed: Printed, home: Path, tested: Tested
) -> None:
    printed("export", "paid", "--pytest", "-o", "test_played.py", "--agent", "app.py:payer")
    printed(
        *("export", "paid", "--pytest", "-o", "test_real.py", "--agent", "app:payer"),
        *("--tools", "real"),
    )
    assert "RecordedCall" not in (home / "test_real.py").read_text()
    assert "2 passed" in tested().stdout
    app = (home / "app.py").read_text()
    (home / "app.py").write_text(app.replace("async def refund(euros: int)", "async def refund()"))
    assert "1 failed, 1 passed" in (failed := tested()).stdout, failed.stdout
    assert "Invalid arguments" in failed.stdout


def test_with_real_tools_delegates_still_bring_what_they_brought(
    printed: Printed, home: Path
) -> None:
    write_team(home)
    printed("run", "team:office", "Do it.", "--thread", "office")
    of_boss = ("export", "office", "--pytest", "--agent", "team:office", "-o", "test_office.py")
    printed(*of_boss, "--tools", "real")
    source = (home / "test_office.py").read_text()
    assert 'RecordedCall(\n            "agent_run_clerk",' in source
    scope: dict[str, Any] = {"__file__": str(home / "test_office.py")}
    exec(compile(source, "test_office.py", "exec"), scope)
    scope["test_run_of_boss"]()


def test_an_exported_file_says_what_happened_in_few_words(printed: Printed) -> None:
    text = printed("export", "paid", "--pytest", "-o", "-")
    run = run_id(printed, "paid")
    assert text.startswith(f'"""Run {run} of ')
    assert text.partition("SCENE = ")[2] == PAID


PAID = """Scene(
    agent="payer",
    input=[Message.user("Pay!")],
    calls=[RecordedCall("refund", {"euros": 7}, "paid 7")],
    approvals=[Approval("refund", {"euros": 7}, ToolCallResume.approve(by="ann"))],
)

ANSWERS = [
    answer("Let me pay.", call("refund", {"euros": 7}, id="c1")),
    answer("I heard: paid 7."),
]


def test_run_of_payer() -> None:
    model = ScriptedModel(ANSWERS)

    run = asyncio.run(replay(SCENE, model))

    assert run.calls == [("refund", {"euros": 7}, "paid 7")]
    assert run.response == "I heard: paid 7."
    assert run.termination == NaturalEnd()
    assert model.remaining == 0
"""


def test_exporting_twice_gives_the_same_bytes(printed: Printed, home: Path) -> None:
    for name in ("test_a.py", "test_b.py"):
        printed("export", "long", "--pytest", "-o", name)
    assert (home / "test_a.py").read_bytes() == (home / "test_b.py").read_bytes()
    assert (home / "test_a.json").read_bytes() == (home / "test_b.json").read_bytes()


def test_large_texts_are_kept_beside_the_file_if_there_is_such_a_place(
    printed: Printed, home: Path
) -> None:
    told = printed("export", "long", "--pytest", "-o", "deep/er/test_long.py")
    assert told == ("deep/er/test_long.py\ndeep/er/test_long.json\n  pytest deep/er/test_long.py\n")
    assert 'Message.user(TEXTS["text_1"])' in (home / "deep/er/test_long.py").read_text()
    assert loads((home / "deep/er/test_long.json").read_bytes()) == {"text_1": LONG}
    alone = printed("export", "long", "--pytest", "-o", "-")
    assert "TEXTS" not in alone
    assert 'TEXT_1 = """\\\nA line of some length, to be read.\n' in alone


def test_an_exported_file_is_formatted_and_has_nothing_a_linter_minds(
    printed: Printed, home: Path
) -> None:
    for thread, agent in (("sums", "adder"), ("paid", "payer"), ("long", "adder")):
        printed("export", thread, "--pytest", "-o", f"test_{thread}.py", "--agent", f"app:{agent}")
        printed("export", thread, "--pytest", "-o", f"test_{thread}_alone.py")
    files = sorted(home.glob("test_*.py"))
    for command in (
        ("check", "--select", "E,F,W,I,UP,B,C4,SIM,RUF,PT"),
        ("format", "--check"),
        ("format", "--check", "--line-length", "120"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", *files],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout
    assert len(files) == 6


def test_the_file_has_a_name_of_its_own_and_is_not_written_over(
    printed: Printed, refused: Printed, home: Path
) -> None:
    run = run_id(printed, "paid")
    name = f"test_payer_{run[-8:]}.py"
    assert printed("export", run, "--pytest") == f"{name}\n  pytest {name}\n"
    (home / name).write_text("mine")
    assert f"{name} is there already: --force writes over it" in refused("export", run, "--pytest")
    assert (home / name).read_text() == "mine"
    printed("export", run, "--pytest", "--force")
    assert (home / name).read_text().startswith('"""Run ')
    (home / "file").write_text("")
    assert "cannot be written" in refused("export", run, "--pytest", "-o", "file/test_x.py")


# -- what cannot be -----------------------------------------------------------------------------


def test_what_cannot_be_exported_is_refused_with_its_reason(
    printed: Printed, refused: Printed
) -> None:
    assert "is still open (waiting): it can be replayed once it has ended" in refused(
        "export", "bill", "--pytest"
    )
    assert "nothing that begins with 'nowhere'" in refused("export", "nowhere", "--pytest")
    assert "at least 4 characters" in refused("export", "x", "--pytest")
    assert "--pytest writes a test" in refused("export", "paid")
    assert "--agent MODULE:AGENT" in refused("export", "paid", "--pytest", "--tools", "real")
    assert "there is no module 'nix'" in refused("export", "paid", "--pytest", "--agent", "nix:a")
    assert "app:adder has no agent 'payer', whose run it is; it has: adder" in refused(
        "export", "paid", "--pytest", "--agent", "app:adder"
    )
    assert "makes its own Runtime" in refused(
        "export", "paid", "--pytest", "--agent", "app:runtime"
    )
    several = refused("export", run_id(printed, "paid")[:8], "--pytest")
    assert "can be several" in several


def test_a_test_that_fails_already_is_written_with_a_warning(here: Here, home: Path) -> None:
    app = (home / "app.py").read_text()
    changed = app.replace('"payer", model=', '"payer", max_rounds=1, model=')
    (home / "app.py").write_text(changed)
    done = here("export", "paid", "--pytest", "-o", "test_now.py", "--agent", "app:payer")
    assert done.code == 0
    assert "the test fails with the agent as it is now: in step 1 it was" in done.err
    assert (home / "test_now.py").exists()


# -- the source ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        'with "quotes"',
        'it\'s "both"',
        "tabs\tand\nlines\r\n",
        "back\\slash \\n",
        'ends with """',
        '"""',
        "trailing \n  space \n",
        "bell\x07 nul\x00 half\ud800 turn\u202e wide漢字 😀 \u2028",
        "a very long word " * 30 + "x" * 200,
    ],
)
def test_any_text_is_itself_again(text: str) -> None:
    assert eval(quote_text(text)) == text
    scope: dict[str, str] = {}
    exec(block("TEXT", text), scope)
    assert scope["TEXT"] == text


def test_values_are_broken_into_lines_only_where_they_do_not_fit() -> None:
    source = Source()
    short = source.write(
        {"a": [1, (2,), None], "b": SourceCall("make", "x", y=True)}, before="X = "
    )
    assert short == 'X = {"a": [1, (2,), None], "b": make("x", y=True)}'
    long = source.write([Message.user("hello " * 9), SourceCall("make", *range(40))], before="X = ")
    assert max(map(len, long.splitlines())) <= 88
    assert source.imports == {"awaken": {"Message"}, "awaken.models": {"Role", "Text"}}
    assert eval(source.write(["x" * 50, "y" * 50], before="")) == ["x" * 50, "y" * 50]


def test_a_name_that_is_no_name_does_no_harm() -> None:
    odd = 'x"""\nimport os\n"""\\'
    recording = Recording(
        run_id=odd,
        thread_id="t",
        agents=(odd,),
        input=(Message.user("hi"),),
        turns=(RecordedStep(answer=answer("yes")),),
        termination=NATURAL_END,
        response="yes",
        steps=1,
    )
    source = write_test(recording).source
    scope: dict[str, object] = {}
    exec(compile(source, "test", "exec"), scope)
    assert "os" not in scope
    check = scope["test_run_of_x_import_os"]
    assert callable(check)
    check()
