"""What can stand for an agent on the command line, and what is said when it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from cli_process import Here, write_app

from awaken.cli.app import cli


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_a_file_can_be_named_instead_of_a_module(here: Here, home: Path) -> None:
    done = here("run", f"{home / 'app.py'}:adder", "Two and three?")
    assert done.code == 0, done.err
    assert "I heard: 5" in done.out


def test_a_thread_is_kept_and_named_unless_it_is_to_be_forgotten(here: Here, home: Path) -> None:
    forgotten = here("run", "app:adder", "Two and three?", "--store", "memory:")
    assert "thread" not in forgotten.out.splitlines()[-1]
    assert not (home / "awaken.db").exists()
    kept = here("run", "app:adder", "Two and three?")
    thread = kept.out.splitlines()[-1].rpartition(" · thread ")[2]
    again = here("run", "app:adder", "Sure?", "--thread", thread)
    assert "I heard: 5. And you said: Sure?" in again.out


def test_a_list_of_agents_hands_over_and_the_transcript_says_who_speaks(here: Here) -> None:
    done = here("run", "app:team", "Hello")
    assert done.code == 0, done.err
    assert "● host\n  Over to you.\n" in done.out
    assert "\n● demo\n" in done.out


def test_a_function_that_returns_a_runtime_is_called_and_its_agent_picked(here: Here) -> None:
    done = here("run", "app:runtime", "Hello", "--agent", "demo")
    assert done.code == 0, done.err
    assert "You said: “Hello”." in done.out


def test_another_model_can_be_asked_instead(here: Here) -> None:
    done = here("run", "app:adder", "Please add 4 and 5", "--model", "demo")
    assert done.code == 0, done.err
    assert "→ add(a=4, b=5)" in done.out
    assert "add answered: 9." in done.out


def test_agents_that_run_elsewhere_are_agents_too(here: Here, home: Path) -> None:
    (home / "bad.py").write_text(
        "from awaken import Agent, RemoteAgent\n"
        "far = RemoteAgent('far', 'python:awaken.cli.builtin_agent:build_builtin_agent')\n"
        "team = [Agent('near', model='demo', delegates=[far]), far]\n"
    )
    alone = here("run", "bad:far", "calculate 6 * 7")
    assert alone.code == 0, alone.err
    assert "calculate answered: 42." in alone.out
    together = here("run", "bad:team", 'Please agent run far "calculate 6 * 7"', "--model", "demo")
    assert together.code == 0, together.err
    assert "agent_run_far: calculate answered: 42." in together.out
    killed = here("chaos", "bad:team", "Hello")
    assert killed.code == 2
    assert "agents that run elsewhere (far): point at those that run here" in killed.err


def test_a_value_cannot_be_made_up_so_the_run_stays_suspended(here: Here) -> None:
    done = here("run", "app:painter", "Paint!", "--yes")
    assert done.code == 3
    assert "colour() wants a value, and there is no terminal to ask" in done.err
    assert "still waits for an answer: colour" in done.out
    assert done.out.splitlines()[-1].startswith("suspended · 1 step")


def test_a_run_that_fails_exits_with_1_and_its_words_are_harmless(here: Here, home: Path) -> None:
    (home / "bad.py").write_text(
        "from awaken import Agent\n"
        "from awaken.testing import ScriptedModel\n"
        "agent = Agent('bad', model=ScriptedModel([ValueError('the \\x1b[31mnet is down')]))\n"
    )
    done = here("run", "bad:agent", "x")
    assert done.code == 1
    assert "failed: inference failed: the ␛[31mnet is down" in done.out.splitlines()[-1]
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.py:agent",), "there is no file 'nowhere.py'"),
        (("app",), "'app' does not name an agent: write module:name"),
        (("app:add",), "app:add is a FunctionTool: point at an Agent"),
        (("app:broken",), "app:broken() raised RuntimeError: no such thing"),
        (("app:runtime",), "app:runtime has several agents (demo, host): pick with --agent"),
        (("app:runtime", "--model", "demo"), "app:runtime makes its own Runtime"),
        (("app:adder", "--agent", "y"), "app:adder has no agent 'y'; it has: adder"),
        (("app:adder", "--model", "zzz"), "model 'zzz': provider 'zzz' is unknown"),
        (("app:adder", "--store", "zzz:"), "store 'zzz:': scheme 'zzz' is unknown"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_target_that_cannot_work_is_named_with_the_next_move(
    here: Here, arguments: tuple[str, ...], words: str
) -> None:
    done = here("run", arguments[0], "x", *arguments[1:])
    assert done.code == 2
    assert words in done.err
    assert done.out == ""


def test_a_module_that_raises_is_named_with_its_line(here: Here, home: Path) -> None:
    (home / "bad.py").write_text("x = 1\nraise KeyError('OPENAI\\x1b[0m_KEY')\n")
    done = here("run", "bad:agent", "x")
    assert done.code == 2
    assert "bad raised KeyError when imported: 'OPENAI\\x1b[0m_KEY'" in done.err
    assert "bad.py, line 2" in done.err


def test_a_module_that_misses_a_package_names_the_package(here: Here, home: Path) -> None:
    (home / "bad.py").write_text("import surely_not_installed\n")
    done = here("run", "bad:agent", "x")
    assert done.code == 2
    assert "bad needs surely_not_installed, which is not installed" in done.err


def test_help_and_version_are_there(here: Here) -> None:
    assert here("--version").out.startswith("awaken 0.")
    shown = here("--help")
    assert shown.code == 0
    for section in ("Run agents:", "See what they do:", "Steer them, from any process:"):
        assert f"\n{section}\n" in shown.out
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert f"  {name} " in shown.out
        assert f" {command.get_short_help_str(72)}\n" in shown.out
        assert here(name, "--help").code == 0


def test_help_loads_no_engine_and_a_command_no_other() -> None:
    program = (
        "import sys; from awaken.cli import main; main(sys.argv[1:]);"
        "print(*[m for m in sys.modules if m.startswith('awaken')])"
    )
    for args, without in [
        (
            ["--help"],
            {"awaken.runtime.builder", "awaken.cli.commands.chat", "awaken.cli.store_view"},
        ),
        (["chat", "--help"], {"awaken.cli.commands.serve", "awaken.cli.chaos", "awaken.cli.demo"}),
    ]:
        ran = subprocess.run(
            [sys.executable, "-c", program, *args], capture_output=True, text=True, check=True
        )
        assert not without & set(ran.stdout.splitlines()[-1].split())
