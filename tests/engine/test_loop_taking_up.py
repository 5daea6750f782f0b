"""A run taken up after a crash is the same run: what it counted, wrote and was told (01/D-10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crash_stage import Deed, Mortal, crash, ledger, recovered
from loop_stage import THREAD, CheckedModel, Stage, TestPlugin, assert_event_order

from awaken import (
    Agent,
    Command,
    InferenceOverride,
    Merge,
    PhaseContext,
    StateKey,
    ToolDescriptor,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Phase, RunStatus, Stopped
from awaken.core.message import Role
from awaken.core.spec import TokenBudget
from awaken.core.state.run_keys import STOP_STATS
from awaken.core.store.threads import RunQuery
from awaken.engine.call_results import unknown_outcome
from awaken.errors import StorageError
from awaken.stores.memory import MemoryStore
from awaken.testing import text_response, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

UNKNOWN = unknown_outcome("deed", "the process ended while the call was under way").model_text()


@tool(effect="read")
async def look() -> str:
    """Look around."""
    return "seen"


def asks(name: str, tokens: int = 0, text: str = "") -> StreamResult:
    return StreamResult(
        content=text_response(text).content,
        tool_calls=tool_call_response("", name, "c1", {}).tool_calls,
        usage=TokenUsage(prompt_tokens=tokens, completion_tokens=tokens),
    )


# -- where it went on -------------------------------------------------------------------------


async def test_an_answer_that_was_not_kept_is_asked_for_again() -> None:
    """Design §4: the other side of the promise; the user's message is asked about once more."""
    store = Mortal()

    async def answer(_: Any) -> str:
        store.alive = False
        return "lost"

    stage = Stage(Agent("a", model=CheckedModel(lambda r: answer(r), "kept")), store=store)
    with pytest.raises(StorageError):
        await stage.run()
    store.alive = True

    result = await recovered(stage)

    assert result.response == "kept"
    assert await stage.texts() == [("user", "hi"), ("assistant", "kept")]


async def test_a_crash_between_two_steps_repeats_nothing() -> None:
    """01/D-10: the first step is done, the second is asked for."""
    store = Mortal()
    looked: list[int] = []

    @tool
    async def count() -> str:
        """Count."""
        looked.append(1)
        return f"count {len(looked)}"

    async def die(_: PhaseContext) -> None:
        store.alive = len(looked) != 1

    plugin = TestPlugin({Phase.STEP_START: die})
    model = CheckedModel(asks("count"), asks("count", text="lost"), asks("count"), "done")
    stage = Stage(Agent("a", model=model, tools=[count], plugins=[plugin]), store=store)
    with pytest.raises(StorageError):
        await stage.run()
    store.alive = True
    first = await stage.record()
    looked.append(0)

    result = await recovered(stage)

    assert (result.run_id, result.steps) == (first.run_id, 3)
    assert await stage.results() == ["count 1", "count 3"]
    assert [m.role for m in model.requests[2]] == [Role.USER, Role.ASSISTANT, Role.TOOL]


async def test_what_it_tells_goes_on_where_it_ended() -> None:
    """02 §5.11: a start, the rest of the step that was cut short, then steps as ever."""
    deed, store = Deed(effect="read"), MemoryStore()

    async with crash(
        store, Agent("a", model=CheckedModel(asks("deed")), tools=[deed.tool]), deed.begun
    ):
        stage = Stage(Agent("a", model=CheckedModel("done"), tools=[deed.tool]), store=store)
        await stage.run(None, continue_run_id=(await stage.record()).run_id)

    assert_event_order(stage.sink.events())
    kept = await store.load_events(THREAD)
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert len({event.run_id for event in kept}) == 1


# -- what it counted --------------------------------------------------------------------------


async def test_rounds_count_across_the_crash() -> None:
    """01/D-10: a limit is a limit, however often the process dies."""
    deed, store = Deed(), MemoryStore()

    def agent(model: CheckedModel) -> Agent:
        return Agent("a", model=model, tools=[deed.tool, look], max_rounds=3)

    async with crash(store, agent(CheckedModel(asks("look"), asks("deed"))), deed.begun):
        model = CheckedModel(asks("look", text="one more"), "never asked")
        result = await recovered(Stage(agent(model), store=store))

    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "max_rounds"
    assert (result.steps, model.calls, result.response) == (3, 1, "one more")


async def test_statistics_and_tokens_go_on() -> None:
    """01/D-10, L-3: what was spent before the crash is spent."""
    deed, store = Deed(), MemoryStore()

    def agent(model: CheckedModel) -> Agent:
        return Agent("a", model=model, tools=[deed.tool], stop=[TokenBudget(max_total=250)])

    async with crash(store, agent(CheckedModel(asks("deed", 100))), deed.begun):
        stage = Stage(agent(CheckedModel(asks("deed", 30), "never asked")), store=store)
        result = await recovered(stage)

    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "token_budget"
    record = await stage.record()
    assert (record.input_tokens, record.output_tokens, record.steps) == (130, 130, 2)
    assert (await stage.state(STOP_STATS))["total_input_tokens"] == 130


# -- what it wrote ----------------------------------------------------------------------------

DONE: StateKey[int, int] = StateKey(
    "test.done", initial=int, apply=lambda old, more: old + more, merge=Merge.COMMUTATIVE
)


@pytest.mark.parametrize("effect", ["once", "read"])
async def test_state_is_applied_once(effect: Any) -> None:
    """Design §4: with the outcome it belongs to; what ended before the crash adds nothing."""
    store, hang, begun = MemoryStore(), [True], asyncio.Event()

    @tool(effect=effect)
    async def add(n: int) -> ToolOutput:
        """Add."""
        if n == 10 and hang.pop():
            begun.set()
            await asyncio.Event().wait()
        return ToolOutput(ToolResult.success("add", n), Command().update(DONE, n))

    calls = tool_calls_response("", ("add", "c1", {"n": 1}), ("add", "c2", {"n": 10}))
    hang.insert(0, False)

    def agent(*script: Any) -> Agent:
        return Agent("a", model=CheckedModel(*script), tools=[add], state=[DONE])

    async with crash(store, agent(calls), begun) as before:
        assert await before.state(DONE) == 1
        stage = Stage(agent("done"), store=store)
        await recovered(stage)

    assert await stage.state(DONE) == (1 if effect == "once" else 11)


# -- what it was told -------------------------------------------------------------------------


async def test_a_message_that_was_sent_before_the_crash_is_read_after_it() -> None:
    """Design §1: whoever was told that it arrived was told the truth; it is read once."""
    deed, store = Deed(), MemoryStore()

    async with crash(
        store, Agent("a", model=CheckedModel(asks("deed")), tools=[deed.tool]), deed.begun
    ) as before:
        model = CheckedModel("both done", "nothing new")
        stage = Stage(Agent("a", model=model, tools=[deed.tool]), store=store)
        fence = await store.claim(THREAD, at_ms=1)
        assert await before.runtime.send(THREAD, "and the dishes")
        await store.release(fence)
        result = await recovered(stage)
        await stage.run("anything else?")

    assert result.response == "both done"
    assert [m.text() for m in model.requests[0] if m.role is Role.USER] == ["hi", "and the dishes"]
    assert (await stage.texts()).count(("user", "and the dishes")) == 1
    assert list(await store.load_commands(THREAD)) == []


async def test_a_cancel_outlives_the_process_it_was_meant_for() -> None:
    """01/D-11: the wish is kept first; whoever takes the run up ends it."""
    deed, store = Deed(), MemoryStore()

    async with crash(
        store, Agent("a", model=CheckedModel(asks("deed")), tools=[deed.tool]), deed.begun
    ):
        elsewhere = Stage(Agent("b", model=CheckedModel()), store=store)
        fence = await store.claim(THREAD, at_ms=1)
        assert await elsewhere.runtime.cancel(THREAD, deadline=0)
        await store.release(fence)
        model = CheckedModel("never asked")
        result = await recovered(Stage(Agent("a", model=model, tools=[deed.tool]), store=store))

    assert result.termination == CANCELLED
    assert model.calls == 0
    assert list(await store.load_commands(THREAD)) == []


async def test_a_new_message_goes_on_with_the_abandoned_run() -> None:
    """Design §8: its calls are settled first, then the model reads on; it stays the same run."""
    deed, store = Deed(), MemoryStore()
    calls = tool_calls_response("on it", ("deed", "c1", {}), ("look", "c2", {}))

    async with crash(
        store, Agent("a", model=CheckedModel(calls), tools=[deed.tool, look]), deed.begun
    ) as before:
        model = CheckedModel("here again", "and still")
        stage = Stage(Agent("a", model=model, tools=[deed.tool, look]), store=store)
        first = await before.record()
        result = await stage.run("are you there?")
        again = await stage.run("and now?")

    assert (result.response, again.response) == ("here again", "and still")
    assert [(m.role.value, m.text()) for m in model.requests[0]] == [
        ("user", "hi"),
        ("assistant", "on it"),
        ("tool", UNKNOWN),
        ("tool", "seen"),
        ("user", "are you there?"),
    ]
    runs = await store.list_runs(RunQuery(thread_id=THREAD))
    assert [run.run_id for run in runs] == [again.run_id, first.run_id]
    assert result.run_id == first.run_id
    assert [run.status for run in runs] == [RunStatus.DONE, RunStatus.DONE]


PICK = ToolDescriptor(id="pick", name="pick", description="Let the user pick.")


async def test_it_goes_on_with_the_options_it_was_asked_with() -> None:
    """Design §8: overrides and the client's tools belong to the run, not to its process."""
    deed, store = Deed(), MemoryStore()
    overrides = InferenceOverride(temperature=0.25)

    async with crash(
        store,
        Agent("a", model=CheckedModel(asks("deed")), tools=[deed.tool]),
        deed.begun,
        settings=overrides,
        frontend_tools=(PICK,),
    ):
        model = CheckedModel("done")
        stage = Stage(Agent("a", model=model, tools=[deed.tool]), store=store)
        await recovered(stage)

    (asked,) = model.asked
    assert "pick" in [tool.name for tool in asked.tools]
    assert asked.overrides == overrides
    assert (await stage.record()).agent_changes == (), "the client's tools are not the agent's"


# -- agents that changed meanwhile ------------------------------------------------------------


async def test_the_record_says_what_of_the_agent_has_changed() -> None:
    """Design §8: it goes on with the agent as it is now, and nobody has to guess that it did."""
    deed, store = Deed(), MemoryStore()
    dying = Agent("a", model=CheckedModel(asks("deed")), system_prompt="old", tools=[deed.tool])

    async with crash(store, dying, deed.begun):
        model = CheckedModel("done")
        agent = Agent("a", model=model, system_prompt="new", tools=[deed.tool, look])
        stage = Stage(agent, store=store)
        result = await recovered(stage)

    assert result.termination == NATURAL_END
    assert (await stage.record()).agent_changes == ("system_prompt", "tools")


async def test_an_agent_that_stayed_as_it_was_is_said_to_have() -> None:
    """Design §8: no change, no mark."""
    deed, store = Deed(), MemoryStore()

    async with crash(
        store, Agent("a", model=CheckedModel(asks("deed")), tools=[deed.tool]), deed.begun
    ):
        stage = Stage(Agent("a", model=CheckedModel("done"), tools=[deed.tool]), store=store)
        await recovered(stage)

    record = await stage.record()
    assert record.agent_changes == ()
    assert record.agent_fingerprint
    assert await ledger(stage) == {"c1": "unknown"}


async def test_an_agent_the_run_was_handed_to_has_not_changed() -> None:
    """01/D-22: the mark is about the agent that speaks, not about who spoke first."""
    deed, store = Deed(), MemoryStore()

    def agents(*script: Any) -> list[Agent]:
        handoff = tool_call_response("", "handoff", "h1", {"agent": "b"})
        return [
            Agent("a", model=CheckedModel(handoff), handoffs=["b"]),
            Agent("b", model=CheckedModel(*script), tools=[deed.tool]),
        ]

    async with crash(store, agents(asks("deed")), deed.begun):
        after = Stage(*agents("done"), store=store)
        result = await recovered(after)

    assert result.response == "done"
    assert (await after.record()).agent_id == "b"
    assert (await after.record()).agent_changes == ()


async def test_another_processes_agents_are_left_alone() -> None:
    """Design §8: a process recovers only runs of agents it has."""
    deed, store = Deed(), MemoryStore()

    async with crash(
        store, Agent("a", model=CheckedModel(asks("deed")), tools=[deed.tool]), deed.begun
    ) as before:
        other = Stage(Agent("b", model=CheckedModel()), store=store)
        assert await other.runtime.recover() == []
        assert (await before.record()).status is RunStatus.RUNNING
