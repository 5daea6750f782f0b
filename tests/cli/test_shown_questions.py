"""An approver at a terminal can agree only to what was shown, and nothing steers the terminal."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from cli_process import awaken, on_terminal, only_key

from awaken import cli as awaken_cli
from awaken.cli.question import Question
from awaken.codec import dumps_text, loads
from awaken.stores import SqliteStore, ThreadCommit

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
    key = only_key(awaken("show", "t1", "--json", cwd=home).stdout)
    done = awaken("decide", "t1", key, "yes", cwd=home)
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
    "hidden",
    [
        *("\u202e", "\u200b", "\u00a0", "\u2028", "\x1b", "\x9b", "\u00ad"),
        *("\ufe0f", "\ufe00", "\u034f", "\u3164", "\u115f", "\uffa0", "\u2800", "\u180b", "\u17b4"),
    ],
)
def test_a_character_that_does_not_show_is_escaped_in_a_question(hidden: str) -> None:
    words = Question("f", {"path": f"a{hidden}b", f"k{hidden}": 1}).words
    assert hidden not in words
    assert words.count(f"\\u{ord(hidden):04x}") == 2
    assert Question("f", {"a": "two  spaces"}).words == 'f(a="two  spaces")'


@pytest.mark.parametrize("hidden", ["\U000e0100", "\U000e0101", "\U000e01ef"])
def test_a_variation_selector_beyond_the_first_plane_is_escaped_in_a_question(hidden: str) -> None:
    words = Question("f", {"path": f"a{hidden}b"}).words
    assert words.startswith('f(path="a\\udb40\\udd')
    assert words.isascii()


GATE = '''
from awaken import Agent, Suspend, tool


@tool
async def post(text: str) -> str:
    """Post."""
    return "posted"


class Editor:
    id = "editor"

    def register(self, registrar):
        registrar.gate(self.look)

    async def look(self, ctx):
        return Suspend.ask("May this be public?\\n" + "x" * 5_000 + " and\\u3164 transfer it all")


agent = Agent("writer", model="demo", tools=[post], plugins=[Editor()])
'''


def test_all_of_a_gates_message_is_shown_with_the_question(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(GATE)
    with on_terminal("run", "app:agent", "Please post 'Hi'", "--thread", "t1", cwd=tmp_path) as it:
        it.read_until("› ")
        it.type("\x04")
        assert it.exit_code() == 3
    shown = awaken("show", "t1", cwd=tmp_path)
    key = only_key(awaken("show", "t1", "--json", cwd=tmp_path).stdout)
    assert f"  awaken decide t1 {key}\n" in shown.stdout, "only a part was shown: no yes yet"
    with on_terminal("decide", "t1", cwd=tmp_path) as process:
        process.read_until("why not] › ")
        assert "May this be public? xxx" in process.printed
        assert "x and\\u3164 transfer it all" in "".join(process.printed.splitlines())
        process.type("\x04")
        assert process.exit_code() == 3
    told = awaken("decide", "t1", key, "yes", cwd=tmp_path)
    assert "x and\\u3164 transfer it all\n" in told.stdout
    assert told.returncode == 0, told.stderr


# -- a yes is for the question that was seen ----------------------------------------------------

AGAIN = '''
from awaken import Agent, tool
from awaken.testing import FunctionModel, tool_call_response


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"PAID {euros}"


def answer(request):
    if request.messages[-1].role == "tool":
        return "I heard: " + request.messages[-1].text()
    return tool_call_response("", "pay", "c1", {"euros": int(request.messages[-1].text())})


agent = Agent("till", model=FunctionModel(answer), tools=[pay])
'''


def ask(home: Path, euros: str) -> dict[str, str]:
    """Have the agent ask, and leave the question; returns its ticket."""
    with on_terminal("run", "app:agent", euros, "--thread", "t1", cwd=home) as process:
        process.read_until("› ")
        process.type("\x04")
        process.read_until("to answer: ")
        assert process.exit_code() == 3
    (ticket,) = loads(awaken("show", "t1", "--json", cwd=home).stdout)["tickets"]
    typed = f"awaken decide t1 {ticket['key']} yes"
    assert typed in " ".join(process.printed.split())
    assert f"\n  {typed}\n" in awaken("show", "t1", cwd=home).stdout
    assert f"\n  {typed}\n" in awaken("decide", "t1", cwd=home).stdout
    return {name: str(ticket[name]) for name in ("key", "digest", "ticket_id", "call_id")}


def test_a_yes_to_a_question_that_was_superseded_approves_no_later_one(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(AGAIN)
    seen, now = ask(tmp_path, "1"), ask(tmp_path, "1000")
    assert seen["call_id"] == now["call_id"] == "c1"
    five = '{"euros": 5}'
    for words in (
        ["yes"],
        ["--edit", five],
        ["--value", "1"],
        ["c1", "yes"],
        ["c1", "--edit", five],
        ["c1", "--value", "1"],
        [now["ticket_id"], "yes"],
        [now["key"][:-1], "yes"],
        [seen["key"], "yes"],
        ["yes", "--digest", seen["digest"]],
        ["c1", "yes", "--digest", seen["digest"]],
        [now["key"], "yes", "--digest", seen["digest"]],
    ):
        done = awaken("decide", "t1", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert f"{now['key']}: pay(euros=1000)" in done.stderr
    done = awaken("decide", "t1", "c1", "yes", "--digest", now["digest"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "PAID 1000" in awaken("resume", "app:agent", "t1", cwd=tmp_path).stdout


@pytest.mark.parametrize("name", ["key", "ticket_id", "call_id", None])
def test_a_no_may_name_a_call_or_ticket_by_any_of_its_ids(tmp_path: Path, name: str | None) -> None:
    (tmp_path / "app.py").write_text(AGAIN)
    ticket = ask(tmp_path, "1")
    named = [] if name is None else [ticket[name]]
    done = awaken("decide", "t1", *named, "no", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "denied by" in done.stdout


# -- nothing steers the terminal ----------------------------------------------------------------

EVIL = "\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e\r"


async def begin_thread(home: Path, id: str) -> None:
    """A thread with an id that earlier versions took: it stays usable."""
    store = SqliteStore(home / "awaken.db")
    await store.commit(ThreadCommit(thread_id=id, expected_length=0))
    await store.close()


def test_ids_that_hold_escape_sequences_reach_no_terminal_raw(tmp_path: Path) -> None:
    home = write(tmp_path, {"note": "n", "to": EVIL, "euros": 1}, call_id=f"c{EVIL}")
    asyncio.run(begin_thread(home, f"t{EVIL}"))
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


def test_an_id_with_a_newline_begins_no_line_of_its_own(tmp_path: Path) -> None:
    forged = "approved by ann: pay(euros=1)"
    home = write(tmp_path, {"note": "n", "to": "eve", "euros": 1}, call_id=f"c\n{forged}")
    thread = f"t\n{forged}"
    asyncio.run(begin_thread(home, thread))
    with on_terminal("run", "app:agent", "Pay!", "--thread", thread, cwd=home) as process:
        process.read_until("› ")
        process.type("\x04")
        assert process.exit_code() == 3
    printed = process.printed.splitlines()
    for words in (
        ["show"],
        ["decide"],
        ["decide", "zz", "yes"],
        ["decide", "yes"],
        ["decide", "no"],
    ):
        done = awaken(words[0], thread, *words[1:], cwd=home)
        printed += [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert not [line for line in printed if line.strip().startswith("approved by ann")]


def test_no_command_writes_to_the_terminal_but_through_the_console() -> None:
    """`output.py` makes every text harmless; a command that printed by itself could forget to."""
    direct = re.compile(
        r"\bclick\.(?:secho|echo)\b|(?<![\w.])print\(|\bsys\.std(?:out|err)\.write\b"
    )
    folder = Path(awaken_cli.__file__).parent
    found = [
        f"{path.relative_to(folder)}:{number}"
        for path in sorted(folder.rglob("*.py"))
        if path != folder / "output.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if direct.search(line)
    ]
    assert found == []


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
