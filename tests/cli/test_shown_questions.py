"""An approver at a terminal can agree only to what was shown, and nothing steers the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import awaken, on_terminal

from awaken.cli.question import Question
from awaken.codec import dumps_text, loads

APP = '''
from awaken import Agent, tool
from awaken.testing import FunctionModel, tool_call_response

ARGUMENTS = {arguments}
CALL_ID = {call_id}


@tool(needs_approval=True, effect="once")
async def pay(note: str, to: str, euros: int) -> str:
    """Pay."""
    return f"PAID {{euros}} to {{to}}"


def answer(request):
    if request.messages[-1].role == "tool":
        return "I heard: " + request.messages[-1].text()
    return tool_call_response("", "pay", CALL_ID, ARGUMENTS)


agent = Agent("payer", model=FunctionModel(answer), tools=[pay])
'''
LONG = {"note": "n" * 6_000, "to": "eve", "euros": 900}


def write(folder: Path, arguments: dict[str, object], call_id: str = "c1") -> Path:
    text = APP.format(arguments=repr(arguments), call_id=repr(call_id))
    (folder / "app.py").write_text(text)
    return folder


def test_a_yes_is_not_taken_while_something_is_cut(tmp_path: Path) -> None:
    home = write(tmp_path, LONG)
    with on_terminal("run", "app:agent", "Pay!", cwd=home) as process:
        process.read_until("characters more")
        process.read_until('to="eve", euros=900)? [show / n / why not] › ')
        process.type("y\n")
        process.read_until("not all of it was shown: answer show to see it, or n › ")
        process.type("yes\n")
        process.read_until("not all of it was shown")
        process.type("show\n")
        process.read_until('to="eve", euros=900)? [y / n / why not] › ')
        process.type("y\n")
        process.read_until("PAID 900 to eve")
        assert process.exit_code() == 0
    assert "n" * 6_000 in "".join(process.printed.split())


def test_a_no_is_taken_while_something_is_cut(tmp_path: Path) -> None:
    home = write(tmp_path, LONG)
    with on_terminal("run", "app:agent", "Pay!", cwd=home) as process:
        process.read_until("[show / n / why not] › ")
        process.type("too long\n")
        process.read_until("Denied: too long")
        assert process.exit_code() == 0


def test_the_decide_command_asks_in_the_same_way(tmp_path: Path) -> None:
    home = write(tmp_path, LONG)
    with on_terminal("run", "app:agent", "Pay!", "--thread", "t1", cwd=home) as process:
        process.read_until("› ")
        process.type("\x04")
        assert process.exit_code() == 3
    with on_terminal("decide", "t1", cwd=home) as process:
        process.read_until("[show / n / why not] › ")
        process.type("y\n")
        process.read_until("not all of it was shown")
        process.type("show\n")
        process.read_until("[y / n / why not] › ")
        process.type("y\n")
        process.read_until("approved by")
        assert process.exit_code() == 0


def test_the_decide_command_shows_all_of_what_it_was_told_to_approve(tmp_path: Path) -> None:
    home = write(tmp_path, LONG)
    with on_terminal("run", "app:agent", "Pay!", "--thread", "t1", cwd=home) as process:
        process.read_until("› ")
        process.type("\x04")
        assert process.exit_code() == 3
    done = awaken("decide", "t1", "yes", cwd=home)
    assert done.returncode == 0, done.stderr
    assert f'pay(note="{"n" * 6_000}", to="eve", euros=900)' in done.stdout


def test_every_key_is_shown_however_long_the_values_are() -> None:
    arguments = {f"key_{n}": "x" * 10_000 for n in range(300)} | {"last": 1}
    question = Question("f", arguments)
    assert question.is_cut
    assert all(f"{key}=" in question.words for key in arguments)
    assert not Question("f", {"a": "x" * 400, "b": [1, {"c": None}]}).is_cut


@pytest.mark.parametrize(
    "value",
    [
        "x" * 401,
        ["x" * 401],
        {"k": {"x" * 401: 1}},
        list(range(51)),
        {str(n): n for n in range(51)},
        10**500,
        [[[[[[[[[[[[[[1]]]]]]]]]]]]]],
    ],
)
def test_whatever_is_left_out_counts_as_cut(value: object) -> None:
    question = Question("f", {"a": value, "b": 1})
    assert question.is_cut
    assert question.words.endswith(", b=1)")
    assert dumps_text(value) in question.whole
    assert not Question("f", value).words.startswith("f()")


def test_a_key_cannot_pass_for_other_arguments() -> None:
    words = Question("pay", {'to="bob", euros': 5, "to": "eve", "euros": 900}).words
    assert words == r'pay("to=\"bob\", euros"=5, to="eve", euros=900)'


def test_two_long_keys_that_look_alike_are_both_shown() -> None:
    keys = [f"{'k' * 300}{n}{'k' * 300}" for n in range(2)]
    assert Question("f", {key: n for n, key in enumerate(keys)}).words.count("=") == 2


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u200b", "\u00a0", "\u2028", "\x1b", "\x9b", "\u00ad"]
)
def test_a_character_that_does_not_show_is_escaped_in_a_question(hidden: str) -> None:
    words = Question("f", {"path": f"a{hidden}b", f"k{hidden}": 1}).words
    assert hidden not in words
    assert words.count(f"\\u{ord(hidden):04x}") == 2
    assert Question("f", {"a": "two  spaces"}).words == 'f(a="two  spaces")'


# -- nothing steers the terminal ----------------------------------------------------------------

EVIL = "\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e\r"


def test_ids_that_hold_escape_sequences_reach_no_terminal_raw(tmp_path: Path) -> None:
    home = write(tmp_path, {"note": "n", "to": EVIL, "euros": 1}, call_id=f"c{EVIL}")
    first = awaken("run", "app:agent", "Pay!", "--yes", "--thread", f"t{EVIL}", cwd=home)
    assert first.returncode == 0, first.stderr
    for command in (
        ["show", f"t{EVIL}"],
        ["threads"],
        ["runs"],
        ["tasks"],
        ["watch", f"t{EVIL}"],
        ["fork", f"t{EVIL}"],
        ["decide", f"t{EVIL}", "yes"],
        ["cancel", f"t{EVIL}"],
        ["send", f"t{EVIL}", "hi"],
        ["export", f"t{EVIL}", "-o", "-"],
        ["gc", "--older-than", "1d"],
        ["show", f"no{EVIL}such"],
        ["show", f"--no{EVIL}such"],
    ):
        done = awaken(*command, cwd=home)
        said = done.stdout + done.stderr
        assert said, command
        assert not set(said) & set("\x1b\x07\x9b\u202e\r"), (command, said)


def test_json_lines_escape_what_could_steer_a_terminal(tmp_path: Path) -> None:
    home = write(tmp_path, {"note": "n", "to": EVIL + "\x7f", "euros": 1}, call_id=f"c{EVIL}")
    lines = awaken("run", "app:agent", "Pay!", "--yes", "--json", "--thread", "t", cwd=home).stdout
    lines += awaken("show", "t", "--json", cwd=home).stdout
    lines += awaken("watch", "t", "--json", cwd=home).stdout
    assert not set(lines) & set("\x1b\x07\x7f\x9b\u202e\r")
    assert "\\u009b" in lines
    assert "\\u202e" in lines
    assert any(_holds(loads(line)) for line in lines.splitlines()), "nothing is lost"


def _holds(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_holds, value.values()))
    if isinstance(value, list):
        return any(map(_holds, value))
    return isinstance(value, str) and EVIL in value
