from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import awaken, on_terminal, write_app


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_two_turns_with_the_built_in_agent_share_one_thread(tmp_path: Path) -> None:
    with on_terminal("chat", cwd=tmp_path) as process:
        process.read_until("you › ")
        process.type("calculate 12 * (3 + 4)\n")
        process.read_until("calculate: 84")
        process.read_until("calculate answered: 84.")
        process.read_until("you › ")
        process.type('count words "the quick brown fox"\n')
        process.read_until("words 4, characters 19")
        process.read_until("you › ")
        process.type("/history\n")
        process.read_until("you  calculate 12 * (3 + 4)")
        process.read_until('you  count words "the quick brown fox"')
        process.read_until("you › ")
        process.type("/quit\n")
        assert process.exit_code() == 0


def test_ctrl_c_stops_an_answer_and_at_the_prompt_it_leaves(home: Path) -> None:
    with on_terminal("chat", "app:sleeper", cwd=home) as process:
        process.read_until("you › ")
        process.type("Go\n")
        process.read_until("slow has begun")
        process.interrupt()
        process.read_until("cancelled · 1 step")
        process.read_until("you › ")
        process.interrupt()
        assert process.exit_code() == 130


def test_approvals_are_asked_for_in_the_middle_of_a_chat(home: Path) -> None:
    with on_terminal("chat", "app:payer", cwd=home) as process:
        process.read_until("you › ")
        process.type("Pay!\n")
        process.read_until("why not] › ")
        process.type("y\n")
        process.read_until("I heard: paid 7")
        process.read_until("you › ")
        process.type("\x04")
        assert process.exit_code() == 0


def test_a_chat_can_be_piped_in(tmp_path: Path) -> None:
    done = awaken(
        "chat", cwd=tmp_path, stdin="calculate 1 + 1\n/nonsense\n/help\ncalculate 2 ** 9999"
    )
    assert done.returncode == 0, done.stderr
    assert "you › calculate 1 + 1\n" in done.stdout
    assert "calculate answered: 2." in done.stdout
    assert "/nonsense is no command; /help lists them" in done.stdout
    assert "/quit      leave" in done.stdout
    assert "the result is too large" in done.stdout
