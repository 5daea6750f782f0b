"""`replay`: a finished run once more, with another model, prompt or tool set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_process import Here, Printed
from store_kit import write_store

from awaken import Runtime
from awaken.codec import loads
from awaken.core.run import RunRecord
from awaken.core.store.threads import Page

SUMS = '''
from pathlib import Path

from awaken import Agent, tool
from awaken.testing import FunctionModel


def never(request):
    raise AssertionError("the agent's own model is not asked")


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    with Path("done").open("a") as done:
        done.write(f"{a}+{b};")
    return a + b


@tool
async def refund(euros: int) -> str:
    """Pay back."""
    return f"paid {euros}"


adder = Agent("adder", model=FunctionModel(never), tools=[add], system_prompt="Add.")
renamed = Agent("sums", model=FunctionModel(never), tools=[add])
bare = Agent("adder", model=FunctionModel(never))
payer = Agent("payer", model=FunctionModel(never), tools=[refund])
both = [adder, Agent("other", model=FunctionModel(never))]
'''


async def fill(runtime: Runtime) -> None:
    await runtime.run("adder", "Please add 2 and 3", thread="sums")
    await runtime.run("adder", "Please add 4 and 5", thread="others")
    await runtime.run("payer", "Pay!", thread="paid", on_approval=lambda _: True)
    await runtime.run("payer", "Pay!", thread="bill")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = write_store(tmp_path_factory.mktemp("replays"), fill)
    (home / "sums.py").write_text(SUMS)
    return home


@pytest.fixture
def home(store: Path) -> Path:
    (store / "done").unlink(missing_ok=True)
    return store


@pytest.fixture
def refused(here: Here) -> Callable[..., str]:
    def run(*args: str) -> str:
        done = here(*args)
        assert done.code == 2
        assert done.out == ""
        return done.err

    return run


def compared(here: Here, *args: str) -> Any:
    done = here("replay", *args, "--json")
    assert done.err == ""
    value = loads(done.out)
    assert done.code == (0 if value["same"] else 1)
    return value


# -- the same -----------------------------------------------------------------------------------


def test_the_answers_of_then_give_the_same_run(printed: Printed, home: Path) -> None:
    (run,) = loads(printed("runs", "--thread", "sums", "--json"), Page[RunRecord]).items
    assert printed("replay", "sums") == (
        f"run {run.run_id} of adder, again\n"
        "  asked       the recorded answers\n"
        "\n"
        "        WAS          IS\n"
        "model   function     function\n"
        "steps   2            2\n"
        "calls   1            1\n"
        "tokens  0 in, 0 out  0 in, 0 out\n"
        "ended   done         done\n"
        "\n"
        "the same\n"
    )
    assert printed("replay", run.run_id, "app:adder").endswith("\nthe same\n")
    assert printed("replay", "paid", "app:payer").endswith("\nthe same\n")
    assert not (home / "done").exists()


def test_nothing_is_written_to_the_store(printed: Printed) -> None:
    before = printed("threads"), printed("runs"), printed("show", "sums", "--limit", "0")
    printed("replay", "sums", "sums:adder")
    assert (printed("threads"), printed("runs"), printed("show", "sums", "--limit", "0")) == before


def test_what_of_the_agent_has_changed_is_said(here: Here) -> None:
    same = compared(here, "sums", "app:adder")
    assert "changes" not in same
    changed = compared(here, "sums", "sums:adder")
    assert (changed["same"], changed["changes"]) == (True, ["prompt"])
    assert "  changed     prompt\n" in here("replay", "sums", "sums:adder").out
    prompted = compared(here, "sums", "app:adder", "--prompt", "Add well.")
    assert prompted["changes"] == ["prompt"]


def test_an_only_agent_may_have_another_name(here: Here, refused: Printed) -> None:
    assert compared(here, "sums", "sums:renamed")["same"]
    assert "has no agent 'payer'" in refused("replay", "paid", "sums:both")


# -- different ----------------------------------------------------------------------------------


def test_another_model_shows_the_first_difference_and_exits_with_1(here: Here) -> None:
    done = here("replay", "sums", "sums:adder", "--model", "demo")
    assert done.code == 1, done.err
    assert "  asked       demo\n" in done.out
    found = done.out.partition("\nfirst difference, in step 1\n")[2].partition("\n\n")[0]
    old, new, *shared = found.splitlines()
    assert old == "  - Let me add."
    assert new.startswith("  + ")
    assert shared == ["    → add(a=2, b=3)", "    ← 5"]
    assert "\nmodel   function     demo\n" in done.out
    assert done.out.endswith("\ndifferent\n")


def test_what_is_said_may_be_left_out(here: Here, home: Path) -> None:
    told = compared(here, "sums", "sums:adder", "--model", "demo", "--ignore-text")
    assert told["same"]
    assert told["now"]["model"] == "demo"
    assert told["now"]["response"] == "add answered: 5."
    assert not (home / "done").exists()


def test_a_tool_that_is_gone_is_a_difference(here: Here) -> None:
    told = compared(here, "sums", "sums:bare")
    assert told["difference"] == {
        "step": 1,
        "was": ["Let me add.", "→ add(a=2, b=3)", "← 5"],
        "now": ["Let me add.", "→ add(a=2, b=3)", "← tool 'add' not found; available: none"],
    }
    assert told["changes"] == ["tools"]


def test_an_approval_that_is_not_asked_for_any_more_is_a_difference(here: Here) -> None:
    told = compared(here, "paid", "sums:payer")
    assert told["difference"] == {"was": ["? refund(euros=7): yes"], "now": [], "step": None}


def test_a_call_that_was_not_made_then_stops_the_replay_or_runs(here: Here, home: Path) -> None:
    """The recorded model added 2 and 3, whatever it was asked."""
    asked = ("others", "sums:adder", "--model", "demo", "--ignore-text")
    stopped = compared(here, *asked)
    assert stopped["stopped"] == 'calls add({"a":4,"b":5}), which was not recorded'
    assert stopped["difference"]["step"] == 1
    assert stopped["now"]["ended"] == {"type": "cancelled"}
    assert not (home / "done").exists()
    assert "  stopped     calls add(" in here("replay", *asked).out
    ran = compared(here, *asked, "--tools", "real")
    assert "stopped" not in ran
    assert ran["difference"]["now"] == ["→ add(a=4, b=5)", "← 9"]
    assert (home / "done").read_text() == "4+5;"


def test_a_stand_in_has_the_tools_that_were_called(here: Here) -> None:
    assert compared(here, "sums", "--model", "demo", "--ignore-text")["same"]


# -- what cannot be -----------------------------------------------------------------------------


def test_what_cannot_be_replayed_is_refused_with_its_reason(
    printed: Printed, refused: Printed
) -> None:
    assert "is still open (waiting)" in refused("replay", "bill")
    assert "nothing that begins with 'nowhere'" in refused("replay", "nowhere")
    assert "at least 4 characters" in refused("replay", "x")
    assert "can be several" in refused("replay", _common(printed))
    unknown = refused("replay", "sums", "--model", "nobody:knows")
    assert "model 'nobody:knows': provider 'nobody' is unknown" in unknown
    assert "name MODULE:AGENT" in refused("replay", "sums", "--tools", "real")
    assert "there is no module 'nix'" in refused("replay", "sums", "nix:agent")
    assert "makes its own Runtime" in refused("replay", "sums", "app:runtime")
    assert "cannot be read" in refused("replay", "sums", "--prompt", "@nowhere.md")
    assert "there is no store at" in refused("replay", "sums", "--store", "sqlite:///no.db")


def _common(printed: Printed) -> str:
    """The beginning that all run ids share."""
    runs = loads(printed("runs", "--json"), Page[RunRecord]).items
    return runs[0].run_id[:8]


def test_a_prompt_may_come_from_a_file(here: Here, home: Path) -> None:
    (home / "prompt.md").write_text("Add well.")
    told = compared(here, "sums", "app:adder", "--prompt", "@prompt.md")
    assert told["changes"] == ["prompt"]
