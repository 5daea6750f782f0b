from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_process import awaken, on_terminal

SHOP = '''
import asyncio

from awaken import Agent, Runtime, tool
from awaken.testing import FunctionModel, tool_calls_response


def model(*names, **more):
    """Calls each tool once, then tells what it heard."""

    def answer(request):
        told = [message.text() for message in request.messages if message.role == "tool"]
        calls = [(name, f"c{i}", {"order": 7} | more) for i, name in enumerate(names)]
        return f"I heard: {'; '.join(told)}" if told else tool_calls_response("", *calls)

    return FunctionModel(answer)


@tool
async def charge(order: int) -> str:
    """Take the money."""
    with open("charged", "a") as book:
        book.write("7\\n")
    return "charged"


@tool(effect="idempotent")
async def label(order: int) -> str:
    """Print a label."""
    print("a tool may print")
    return "printed"


@tool(needs_approval=True)
async def refund(order: int) -> str:
    """Pay back."""
    return "refunded"


@tool(verify=lambda ctx: False)
async def ship(order: int) -> str:
    """Send the goods; whoever asks the carrier gets a wrong answer."""
    return "shipped"


def fail(request):
    raise ValueError("no model is here")


buyer = Agent(
    "buyer", model=model("charge", "label"), tools=[charge, label], sequential=True
)
payer = Agent("payer", model=model("refund"), tools=[refund])
sender = Agent("sender", model=model("ship"), tools=[ship])
broken = Agent("broken", model=FunctionModel(fail))
payers = [
    Agent("boss", model=model("agent_run_payer", prompt="Pay!"), delegates=[payer]),
    payer,
]


@tool
async def dig(order: int) -> str:
    """Take a while."""
    await asyncio.sleep(0.3)
    return "dug"


@tool(effect="idempotent")
async def seek(order: int) -> str:
    """Take a while, perhaps more than once."""
    await asyncio.sleep(0.3)
    return "found"


clerk = Agent("clerk", model=model("dig", "seek"), background=[dig, seek])


def runtime():
    return Runtime([buyer])
'''


AT_THE_ENDS_OF_TOOLS = ("--kills", "3", "--seed", "16")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_every_tool_is_told_of_and_nothing_was_lost_or_doubled(home: Path) -> None:
    done = awaken("chaos", "shop:buyer", "Buy!", *AT_THE_ENDS_OF_TOOLS, cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tools really run and the model is really asked" in done.stderr
    headings, charge, label, *_, sums, verdict = done.stdout.splitlines()
    assert headings.split()[:4] == ["TOOL", "EFFECT", "RECOVER", "CALLS"]
    name, effect, recover, calls, _, ran_again, unknown, *_ = charge.split()
    assert (name, effect, recover, calls, ran_again) == ("charge", "once", "report", "3", "0")
    assert int(unknown) > 0
    name, effect, recover, _, _, ran_again, unknown, *_ = label.split()
    assert (name, effect, recover, unknown) == ("label", "idempotent", "retry", "0")
    assert "label ran again " in done.stdout
    assert ": is it really idempotent?" in done.stdout
    assert "kills 3, lost results 0, doubled once effects 0, invalid transcripts 0, " in sums
    assert verdict == "nothing was lost or doubled, provided that label may be repeated"
    assert len((home / "charged").read_text().splitlines()) <= 4


def test_each_kill_and_the_report_are_lines_of_json(home: Path) -> None:
    done = awaken("chaos", "shop:buyer", "Buy!", *AT_THE_ENDS_OF_TOOLS, "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    *kills, report = (json.loads(line) for line in done.stdout.splitlines())
    assert {"end of charge", "end of label"} < {kill["at"] for kill in kills}
    assert report["kills"] == len(kills) == 3
    assert report["damage"] == {"lost": [], "doubled": [], "invalid": [], "left_open": []}
    assert [tool["name"] for tool in report["tools"]] == ["charge", "label"]


@pytest.mark.parametrize(
    ("option", "told"),
    [("--yes", "are approved"), ("--seed=1", "are denied; --yes approves")],
)
def test_approvals_are_answered_as_asked_and_it_says_so(home: Path, option: str, told: str) -> None:
    done = awaken("chaos", "shop:payer", "Pay!", "--kills", "1", option, cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"calls that need an approval {told}" in done.stderr


def test_what_delegates_do_and_ask_counts_as_well(home: Path) -> None:
    done = awaken("chaos", "shop:payers", "Pay!", "--kills", "4", "--yes", "--json", cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["kills"] == 4
    assert not any(report["damage"].values())
    calls = {tool["name"]: tool["calls"] for tool in report["tools"]}
    assert calls == {"agent_run_payer": 4, "refund": 4}


def test_tasks_in_the_background_are_awaited_and_told_of(home: Path) -> None:
    """One that may not run again is not run again, and the model hears that nobody knows."""
    while_both_are_at_work = ("--kills", "3", "--seed", "9546")  # however they end afterwards
    done = awaken("chaos", "shop:clerk", "Dig!", *while_both_are_at_work, "--json", cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert not any(report["damage"].values())
    tools = {tool["name"]: tool for tool in report["tools"]}
    dig, seek = tools["dig"], tools["seek"]
    assert dig["calls"] == seek["calls"] == 3
    assert (dig["ran_again"], seek["reported_unknown"]) == (0, 0)
    assert dig["reported_unknown"] > 0
    assert seek["ran_again"] > 0


def test_a_verify_that_does_not_know_what_happened_is_found_out(home: Path) -> None:
    done = awaken("chaos", "shop:sender", "Send!", "--kills", "4", "--seed", "12", cwd=home)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ship had run to its end, and its verify says that it did not happen" in done.stdout
    assert (
        done.stdout.splitlines()[-1] == "killing this agent loses or doubles something; see above"
    )


def test_an_agent_that_does_not_work_undisturbed_is_not_killed(home: Path) -> None:
    done = awaken("chaos", "shop:broken", "Go!", cwd=home)
    assert done.returncode == 1
    assert "undisturbed, 'broken' does not come to its end, so nothing was killed" in done.stderr
    assert "no model is here" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shop:runtime", "x"), "shop:runtime makes its own Runtime: point at the agents"),
        (("shop:buyer", "x", "--agent", "nobody"), "shop:buyer has no agent 'nobody'"),
        (("shop:buyer", "x", "--kills", "0"), "Invalid value for '--kills'"),
        (("shop:buyer", "x", "--model", "nobody:1"), "provider 'nobody' is unknown"),
    ],
    ids=["a runtime", "no agent", "no kills", "no model"],
)
def test_what_cannot_be_killed_is_refused_with_2(
    home: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = awaken("chaos", *arguments, cwd=home)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_another_model_can_be_asked(home: Path) -> None:
    done = awaken(
        "chaos", "shop:buyer", "Please charge order 7", "--model", "demo", "--kills", "1", cwd=home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills 1, " in done.stdout


def test_on_a_terminal_it_shows_how_far_it_is(home: Path) -> None:
    with on_terminal("chaos", "shop:payer", "Pay!", "--kills", "2", cwd=home) as process:
        process.read_until("killing")
        process.read_until("0/2")
        process.read_until("nothing was lost or doubled")
        assert process.exit_code() == 0
