"""What commits keep of calls that have ended: log and ledger tell of them, the state need not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from awaken import Agent, Runtime, ToolCallResume, tool
from awaken.codec import Json, loads
from awaken.core.event import ToolCallDone
from awaken.core.lifecycle import Phase
from awaken.core.run import PersistedState
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.key import KeyRegistration, StateKey
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.suspension import ToolCallStatus
from awaken.errors import KeyEncode
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar
from awaken.testing import ScriptedModel, text_response, tool_calls_response

pytestmark = pytest.mark.anyio
T = "t"


def looking(count: int) -> ScriptedModel:
    """A model that makes so many calls of `look` at once, then is done."""
    note = "x" * 50
    calls = [("look", f"c{n}", {"note": note}) for n in range(count)]
    return ScriptedModel([tool_calls_response("", *calls), text_response("done")])


# -- what is written --------------------------------------------------------------------------


async def bytes_of_a_step(path: Path, count: int) -> int:
    """What a file grows to by one step, whose calls end one after another."""
    turns = [asyncio.Event() for _ in range(count + 1)]
    begun = iter(range(count))

    @tool
    async def look(note: str) -> str:
        """Look, when it is this call's turn."""
        await turns[next(begun)].wait()
        return "nothing"

    agent = Agent("walker", model=looking(count), tools=[look])
    async with Runtime([agent], store=f"sqlite:///{path}") as runtime:
        turns[0].set()
        ended = 0
        async with runtime.stream("walker", "go", thread=T) as events:
            async for event in events:
                if isinstance(event.event, ToolCallDone):
                    ended += 1
                    turns[ended].set()  # the next one ends after this one's commit
    assert ended == count
    return path.stat().st_size  # noqa: ASYNC240 - the runtime is closed, nothing else runs


async def test_calls_that_end_one_after_another_write_bytes_by_call(tmp_path: Path) -> None:
    """Four times as many calls write about four times as much, and not sixteen times."""
    few = await bytes_of_a_step(tmp_path / "few.db", 40)
    many = await bytes_of_a_step(tmp_path / "many.db", 160)

    assert many < 5 * few


class Watcher:
    """Notes the states of the calls at the end of each step."""

    id = "watcher"

    def __init__(self) -> None:
        self.seen: list[dict[str, ToolCallStatus]] = []

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.STEP_END, self.look)

    async def look(self, ctx: PhaseContext) -> None:
        states = ctx.read(TOOL_CALL_STATES)
        self.seen.append({id: call.status for id, call in states.calls.items()} if states else {})


async def test_ended_calls_stay_in_the_live_state_and_commits_leave_them_out() -> None:
    @tool
    async def look(note: str) -> str:
        """Look."""
        return "nothing"

    watcher = Watcher()
    agent = Agent("walker", model=looking(2), tools=[look], plugins=[watcher])
    async with Runtime([agent]) as runtime:
        await runtime.run("walker", "go", thread=T)
        kept = await runtime.state(T, TOOL_CALL_STATES)

    ended = {"c0": ToolCallStatus.SUCCEEDED, "c1": ToolCallStatus.SUCCEEDED}
    assert watcher.seen == [ended, ended]
    assert kept.calls == {}


# -- what a later process has to know ---------------------------------------------------------


async def test_a_call_that_waits_outlives_the_process_beside_calls_that_ended(
    tmp_path: Path,
) -> None:
    """The calls that ended are not run again, and are in the log once; the other is answered."""
    ran: list[str] = []

    @tool
    async def look(note: str) -> str:
        """Look."""
        ran.append("look")
        return "nothing"

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(f"pay {amount}")
        return "paid"

    def agent() -> Agent:
        calls = [("look", "c0", {"note": ""}), ("pay", "c1", {"amount": 5})]
        script = [tool_calls_response("", *calls, ("look", "c2", {"note": ""}))]
        model = ScriptedModel([*script, text_response("done")][len(ran) and 1 :])
        return Agent("walker", model=model, tools=[look, pay])

    address = f"sqlite:///{tmp_path / 'a.db'}"
    async with Runtime([agent()], store=address) as runtime:
        asked = await runtime.run("walker", "go", thread=T)
        kept = await runtime.state(T, TOOL_CALL_STATES)
    (ticket,) = asked.tickets
    assert ticket.key is not None
    async with Runtime([agent()], store=address) as runtime:
        result = await runtime.run(thread=T, answers={ticket.key: True})
        log = await runtime.messages(T)
        after = await runtime.state(T, TOOL_CALL_STATES)

    assert list(kept.calls) == ["c1"]
    assert ran == ["look", "look", "pay 5"]
    assert result.response == "done"
    assert sorted(m.tool_call_id for m in log if m.tool_call_id) == ["c0", "c1", "c2"]
    assert after.calls == {}, "its end was committed, too"


# -- the state store --------------------------------------------------------------------------


def stored(*calls: ToolCallState) -> Json:
    return msgspec.to_builtins({"turn": "m1", "calls": {call.call_id: call for call in calls}})


def state_of(id: str, status: ToolCallStatus, **fields: object) -> ToolCallState:
    state = ToolCallState(call_id=id, tool_name="look", arguments={}, status=status)
    return msgspec.structs.replace(state, **fields)


def new_store() -> StateStore:
    store = StateStore()
    store.register_keys([KeyRegistration.of(TOOL_CALL_STATES)])
    return store


def taken(store: StateStore) -> Json:
    """What the next commit keeps of the calls; `None` if nothing is written."""
    _, thread = store.take_unsaved()
    return loads(thread[TOOL_CALL_STATES.name]) if thread else None


ENDED = state_of("c0", ToolCallStatus.SUCCEEDED)
WAITS = state_of("c1", ToolCallStatus.SUSPENDED, suspension_id="s1")
NO = ToolCallResume.deny("no")


def test_a_call_that_only_ended_writes_no_state() -> None:
    store = new_store()
    store.update(TOOL_CALL_STATES, PutCall(call=ENDED, turn="m1"))

    assert taken(store) is None


def test_a_call_is_kept_until_its_answer_is_carried_out() -> None:
    """A refusal ends the call, and is still to be told to the model."""
    store = new_store()
    refused = msgspec.structs.replace(WAITS, status=ToolCallStatus.CANCELLED, resume_input=NO)
    told = msgspec.structs.replace(refused, resume_input=None, suspension_id=None)

    store.update(TOOL_CALL_STATES, PutCall(call=ENDED, turn="m1"))
    store.update(TOOL_CALL_STATES, PutCall(call=WAITS, turn="m1"))
    assert list(taken(store)["calls"]) == ["c1"]
    store.update(TOOL_CALL_STATES, PutCall(call=refused))
    assert list(taken(store)["calls"]) == ["c1"]
    store.update(TOOL_CALL_STATES, PutCall(call=told))
    assert taken(store)["calls"] == {}, "what was kept is not kept any more"


def test_states_of_ended_calls_that_were_kept_before_are_read_and_dropped() -> None:
    """Databases of earlier versions hold them."""
    store = new_store()
    state = PersistedState(extensions={TOOL_CALL_STATES.name: stored(ENDED, WAITS)})
    store.restore_thread_scoped(state, UnknownKeyPolicy.ERROR)

    states = store.read(TOOL_CALL_STATES)
    assert states is not None
    assert states.calls == {"c0": ENDED, "c1": WAITS}
    given_up = msgspec.structs.replace(WAITS, status=ToolCallStatus.CANCELLED, suspension_id=None)
    store.update(TOOL_CALL_STATES, PutCall(call=given_up))
    assert taken(store)["calls"] == {}


def test_a_seed_with_a_call_that_waits_is_kept() -> None:
    store = new_store()
    seed = PersistedState(extensions={TOOL_CALL_STATES.name: stored(ENDED, WAITS)})
    store.apply_seed(seed, UnknownKeyPolicy.ERROR)

    assert list(taken(store)["calls"]) == ["c1"]


def test_a_call_that_came_back_with_its_key_is_dropped_when_it_ends() -> None:
    """The state was restored before the agent that has the key took over."""
    store = StateStore()
    state = PersistedState(extensions={TOOL_CALL_STATES.name: stored(WAITS)})
    store.restore_thread_scoped(state, UnknownKeyPolicy.SKIP)
    store.register_keys([KeyRegistration.of(TOOL_CALL_STATES)])
    given_up = msgspec.structs.replace(WAITS, status=ToolCallStatus.CANCELLED, suspension_id=None)

    store.update(TOOL_CALL_STATES, PutCall(call=given_up))

    assert taken(store)["calls"] == {}


def test_a_key_that_cannot_say_what_is_durable_is_given_up_like_one_that_cannot_be_written() -> (
    None
):
    def fail(value: int) -> int | None:
        raise ValueError(value)

    broken: StateKey[int, int] = StateKey("broken", initial=int, durable=fail)
    count: StateKey[int, int] = StateKey("count", initial=int)
    store = StateStore()
    store.register_keys([KeyRegistration.of(broken), KeyRegistration.of(count)])
    store.update(broken, 1)
    store.update(count, 1)

    with pytest.raises(KeyEncode, match="broken"):
        store.take_unsaved()
    run, _ = store.take_unsaved()
    assert list(run) == ["count"]
