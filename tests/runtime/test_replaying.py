"""A finished run is read back from its log and played again."""

from __future__ import annotations

import pytest
import replay_kit as kit
from replay_kit import DONE, KINDS, Kind, recorded

from awaken import Agent, Runtime, ToolCallResume, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END, SUSPENDED_END, Failed
from awaken.core.message import Message
from awaken.errors import ConfigError, NotFound
from awaken.runtime.replay import (
    Approval,
    Difference,
    RecordedCall,
    RecordedStep,
    Recording,
    answer,
    first_difference,
    read_recording,
    replay,
)
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


async def again(was: Recording, agents: list[Agent] | None = None) -> Recording:
    """The run with the answers of then."""
    own = agents is not None
    model = ScriptedModel(was.answers(own_code=own))
    now = await replay(was.scene(own_code=own), model, agents)
    assert model.remaining == 0
    return now


@kinds
async def test_a_run_is_the_same_with_an_agent_that_stands_in(kind: Kind) -> None:
    was, _ = await kind()
    DONE.clear()
    now = await again(was)
    assert first_difference(was, now) is None
    assert (now.calls, now.response, now.steps) == (was.calls, was.response, was.steps)
    assert now.termination == was.termination
    assert now.stray is None
    assert DONE == []


NOT_ASKED_AGAIN = (kit.a_message_instead_of_an_answer,)
"""A call that asked, and was overtaken: nobody decided about it, so it would still wait."""


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k not in NOT_ASKED_AGAIN], ids=lambda kind: kind.__name__
)
async def test_a_run_is_the_same_with_its_own_agents_and_does_nothing_twice(kind: Kind) -> None:
    was, agents = await kind()
    DONE.clear()
    now = await again(was, list(agents))
    assert first_difference(was, now) is None
    assert now.termination == was.termination
    assert DONE == []


async def test_what_is_read_is_what_was_asked_said_called_and_decided() -> None:
    was, _ = await kit.approvals_given_refused_and_changed()
    assert was.agents == ("a",)
    assert [message.text() for message in was.input] == ["Go"]
    assert was.recorded_calls == (
        RecordedCall("pay", {"euros": 7}, "paid 7"),
        RecordedCall("pay", {"euros": 8}, "Denied: too much", failed=True),
        RecordedCall("pay", {"euros": 9}, "paid 1"),
    )
    assert was.approvals == (
        Approval("pay", {"euros": 7}, ToolCallResume.approve(by="ann")),
        Approval("pay", {"euros": 8}, ToolCallResume.deny("too much")),
        Approval("pay", {"euros": 9}, ToolCallResume.edit({"euros": 1})),
    )
    assert (was.termination, was.response, was.steps) == (NATURAL_END, "Paid, some of it.", 4)


async def test_history_input_and_words_in_between_are_kept_apart() -> None:
    was, _ = await kit.a_thread_with_a_history()
    assert [message.role for message in was.history] == ["user", "assistant", "tool", "assistant"]
    assert was.input == (Message(role=was.input[0].role, content=was.input[0].content),)
    assert was.response == "As I said."
    spoken, _ = await kit.a_word_in_between()
    assert [len(turn.news) for turn in spoken.turns] == [1, 0, 0]
    assert spoken.scene().news[1][0].text() == "Hurry!"


def test_what_the_agents_own_code_says_again_is_not_said_twice() -> None:
    again = Message.internal_user("Your answer does not fit: it is not JSON")
    was = Recording(
        run_id="r",
        thread_id="t",
        agents=("a",),
        input=(Message.user("Go"),),
        turns=(RecordedStep(answer=answer("no"), news=(again,)), RecordedStep(answer=answer("{}"))),
        termination=NATURAL_END,
    )
    assert was.scene().news == {1: (again,)}
    assert was.scene(own_code=True).news == {}


async def test_the_model_reads_in_a_replay_what_it_read_then() -> None:
    was, _ = await kit.a_thread_with_a_history()
    model = ScriptedModel(was.answers())
    await replay(was.scene(), model)
    (request,) = model.requests
    assert [message.text() for message in request.messages] == [
        "One and two?",
        "",
        "3",
        "Three.",
        "Sure?",
    ]


async def test_an_end_from_outside_is_played_and_one_of_the_model_comes_by_itself() -> None:
    cancelled, _ = await kit.cancelled_while_a_tool_ran()
    assert (cancelled.termination, cancelled.scene().end) == (CANCELLED, CANCELLED)
    failed, _ = await kit.a_model_that_fails()
    assert failed.termination == Failed(value="inference failed: out of order")
    assert failed.scene().end is None
    assert (await again(failed)).termination == failed.termination
    blocked, _ = await kit.blocked_by_a_gate()
    assert blocked.scene().end == blocked.termination
    assert blocked.scene(own_code=True).end is None


# -- what differs -------------------------------------------------------------------------------


async def test_another_tool_result_is_a_difference_in_its_step() -> None:
    was, _ = await kit.calls_of_every_outcome()
    without = Agent("a", model="demo", tools=[kit.note, kit.lose])
    now = await again(was, [without])
    difference = first_difference(was, now)
    assert difference is not None
    assert difference.step == 1
    assert "← 3" in difference.was
    assert "← tool 'add' not found; available: lose, note" in difference.now


async def test_a_call_that_was_not_made_then_ends_the_replay_and_does_nothing() -> None:
    was, agents = await kit.calls_of_every_outcome()
    DONE.clear()
    model = ScriptedModel([tool_call_response("", "note", "c1", {"text": "eggs"}), "Eggs."])
    now = await replay(was.scene(own_code=True), model, agents)
    assert now.stray == 'calls note({"text":"eggs"}), which was not recorded'
    assert now.termination == CANCELLED
    assert DONE == []
    difference = first_difference(was, now)
    assert difference is not None
    assert difference.step == 1


async def test_with_real_tools_only_calls_that_were_not_made_then_run() -> None:
    was, agents = await kit.calls_of_every_outcome()
    DONE.clear()
    calls = [
        tool_call_response("", "note", "c1", {"text": "milk"}),
        tool_call_response("", "note", "c2", {"text": "eggs"}),
    ]
    model = ScriptedModel([*calls, "Both."])
    now = await replay(was.scene(own_code=True), model, agents, tools="real")
    assert DONE == ["eggs"]
    assert [text for _, _, text in now.calls] == ["noted: milk", "noted: eggs"]
    assert now.stray is None


async def test_a_question_nobody_decided_then_leaves_the_replay_waiting() -> None:
    was, agents = await kit.approvals_given_refused_and_changed()
    DONE.clear()
    model = ScriptedModel([tool_call_response("", "pay", "c1", {"euros": 1_000})])
    now = await replay(was.scene(own_code=True), model, agents, tools="real")
    assert now.stray == 'asks about pay({"euros":1000}), for which the recording has no decision'
    assert now.termination == SUSPENDED_END
    assert DONE == []


async def test_an_approval_that_is_not_asked_for_any_more_is_a_difference() -> None:
    was, _ = await kit.approvals_given_refused_and_changed()
    eager = Agent("a", model="demo", tools=[tool(kit.pay._fn, name="pay")])
    now = await again(was, [eager])
    assert first_difference(was, now) == Difference(
        was=("? pay(euros=7): yes", "? pay(euros=8): no", "? pay(euros=9): yes"), now=()
    )


async def test_what_is_said_can_be_left_out_of_the_comparison() -> None:
    was, _ = await kit.the_same_call_twice()
    said = [*was.answers()[:-1], "Two times."]
    now = await replay(was.scene(), ScriptedModel(said))
    assert first_difference(was, now) == Difference(step=3, was=("Twice.",), now=("Two times.",))
    assert first_difference(was, now, text=False) is None


async def test_the_order_of_arguments_does_not_matter() -> None:
    call = tool_call_response("", "add", "c1", {"a": 1, "b": 2})
    turned = tool_call_response("", "add", "c1", {"b": 2, "a": 1})
    was, _ = await kit.made(Agent("a", model=ScriptedModel([call, "Three."]), tools=[kit.add]))
    now = await replay(was.scene(), ScriptedModel([turned, "Three."]))
    assert now.calls == [("add", {"b": 2, "a": 1}, "3")]
    assert first_difference(was, now) is None


async def test_a_prompt_is_for_the_agent_that_is_asked() -> None:
    was, agents = await kit.handed_over()
    model = ScriptedModel(was.answers(own_code=True))
    await replay(was.scene(own_code=True), model, agents, prompt="Be brief.")
    prompts = [[block.text for block in request.system] for request in model.requests]  # type: ignore[union-attr]
    assert prompts == [["Be brief."], []]


# -- what cannot be replayed --------------------------------------------------------------------


async def test_a_run_that_is_open_or_unknown_cannot_be_read() -> None:
    model = ScriptedModel([tool_call_response("", "pay", "c1", {"euros": 7})])
    async with Runtime([Agent("a", model=model, tools=[kit.pay])]) as runtime:
        waiting = await runtime.run("a", "Pay", thread="t")
        with pytest.raises(ConfigError, match=r"is still open \(waiting\): .* cancel it"):
            await read_recording(runtime.store, waiting.run_id)
        with pytest.raises(NotFound):
            await read_recording(runtime.store, "nothing")


async def test_a_task_in_the_background_is_no_conversation() -> None:
    @tool(effect="read")
    async def research() -> str:
        """Find out."""
        return "old"

    call = tool_call_response("", "research", "c1", {})
    model = ScriptedModel([call, "Soon.", "It is old."])
    agent = Agent("a", model=model, background=[research])
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "How old?", thread="t")
        await runtime.wait("t", timeout=20)
        (task,) = await runtime.tasks("t")
        with pytest.raises(ConfigError, match="replay the run that started it"):
            await read_recording(runtime.store, task.id)


async def test_there_are_two_ways_to_treat_tools() -> None:
    was, _ = await kit.plain_answer()
    with pytest.raises(ConfigError, match="'recorded' or 'real', not 'both'"):
        await replay(was.scene(), "demo", tools="both")  # type: ignore[arg-type]


async def test_a_recording_of_a_replay_is_a_recording() -> None:
    was, _ = await kit.calls_of_every_outcome()
    now = await again(await again(was))
    assert first_difference(was, now) is None


async def test_runs_of_a_thread_are_read_one_by_one() -> None:
    agent = Agent("a", model=ScriptedModel(["One.", "Two."]))
    async with Runtime([agent]) as runtime:
        first = await runtime.run("a", "First", thread="t")
        await runtime.run("a", "Second", thread="t")
        one = await read_recording(runtime.store, first.run_id)
        two = await recorded(runtime)
    assert (one.response, len(one.history), len(one.turns)) == ("One.", 0, 1)
    assert (two.response, len(two.history), len(two.turns)) == ("Two.", 2, 1)
