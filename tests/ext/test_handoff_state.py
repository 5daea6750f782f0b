"""Who speaks, who was asked to, and from whom the conversation came (03 §3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from awaken import Registrar
from awaken.codec import dumps, loads
from awaken.core.lifecycle import Phase
from awaken.core.state.key import Merge, Scope
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.ext.handoff import HandoffPlugin
from awaken.ext.handoff.state import (
    HANDOFF,
    HANDOFF_COUNT,
    Activate,
    Clear,
    HandoffRequest,
    HandoffState,
    Handover,
)
from awaken.plugin.env import ExecutionEnv

Update = HandoffRequest | Activate | Clear


def after(*updates: Update) -> HandoffState:
    state = HandoffState()
    for update in updates:
        state = HANDOFF.apply(state, update)
    return state


# -- requests ---------------------------------------------------------------------------------


def test_a_later_request_replaces_an_earlier_one() -> None:
    """03/MH-3 a later request replaces an earlier one."""
    assert after(HandoffRequest(agent="a"), HandoffRequest(agent="b")).requested_agent == "b"


def test_a_request_leaves_the_active_agent_alone() -> None:
    """03/MH-3 request leaves active alone; the effective agent is the requested one."""
    state = after(Activate(agent="a"), HandoffRequest(agent="b"))

    assert (state.active_agent, state.requested_agent, state.effective) == ("a", "b", "b")


def test_activating_another_agent_than_was_requested_wins() -> None:
    """03/MH-3 activate of another agent than requested wins: the request is done with."""
    state = after(HandoffRequest(agent="b"), Activate(agent="c"))

    assert (state.active_agent, state.requested_agent, state.effective) == ("c", None, "c")


def test_clearing_what_is_empty_is_harmless() -> None:
    """03/MH-3 clear on empty is harmless, and so is clearing twice."""
    assert after(Clear()) == after(Clear(), Clear()) == HandoffState()
    assert after(Activate(agent="a"), HandoffRequest(agent="b"), Clear(), Clear()) == HandoffState()


def test_the_state_is_written_as_the_agents_and_the_way_between_them() -> None:
    """03 §3: both names nullable; what is empty beside them is left out."""
    assert loads(dumps(HandoffState())) == {"active_agent": None, "requested_agent": None}
    state = after(Activate(agent="b", by="a", since="m1"))
    assert loads(dumps(state)) == {
        "active_agent": "b",
        "requested_agent": None,
        "trail": [{"by": "a", "since": "m1"}],
    }
    assert HANDOFF.load(HANDOFF.dump(state)) == state


def test_the_actions_carry_their_type() -> None:
    """03 §3: `request{agent}`, `activate{agent}`, `clear`."""
    actions = [HandoffRequest(agent="a"), Activate(agent="a"), Clear()]

    assert [loads(dumps(action)) for action in actions] == [
        {"type": "request", "agent": "a"},
        {"type": "activate", "agent": "a"},
        {"type": "clear"},
    ]


# -- the trail --------------------------------------------------------------------------------


def test_the_trail_tells_from_whom_the_conversation_came() -> None:
    """03/DB-7 return path: each hand-over with who gave it, and the last message by then."""
    state = after(Activate(agent="b", by="a", since="m1"), Activate(agent="c", by="b", since="m2"))

    assert state.trail == (Handover(by="a", since="m1"), Handover(by="b", since="m2"))
    assert (state.home, state.handover) == ("a", Handover(by="b", since="m2"))


def test_whoever_gets_it_back_has_it_as_before() -> None:
    """03/DB-7 return path: the hand-over it had it from counts again, not the return."""
    state = after(
        Activate(agent="b", by="a", since="m1"),
        Activate(agent="c", by="b", since="m2"),
        Activate(agent="b", by="c", since="m3"),
    )

    assert state.trail == (Handover(by="a", since="m1"),)
    assert after(Activate(agent="b", by="a"), Activate(agent="a", by="b")).trail == ()


def test_an_agent_chosen_from_outside_has_it_from_nobody() -> None:
    """01/A-5: a name in a request is no hand-over; one on the trail has it back."""
    way = (Activate(agent="b", by="a"), Activate(agent="c", by="b"))

    assert after(*way, Activate(agent="d")).trail == ()
    assert after(*way, Activate(agent="b")).trail == (Handover(by="a"),)


def test_an_agent_that_hands_over_to_itself_stays_where_it_is() -> None:
    """03 §3: its request is done with, and nobody gave it anything."""
    state = after(
        Activate(agent="b", by="a"), HandoffRequest(agent="b"), Activate(agent="b", by="b")
    )

    assert (state.active_agent, state.requested_agent) == ("b", None)
    assert state.trail == (Handover(by="a"),)


def test_clearing_keeps_the_way_home() -> None:
    """03/DB-7: `clear` switches back, so it must know where to."""
    state = after(Activate(agent="b", by="a"), Activate(agent="c", by="b"), Clear())

    assert (state.effective, state.home) == (None, "a")


NAMES = st.sampled_from("abcde")


@given(st.lists(NAMES, max_size=40))
def test_the_trail_never_grows_beyond_the_agents(handed: list[str]) -> None:
    """03/DB-7: however often agents hand over, each is on the trail once, the active one never."""
    state, speaker = HandoffState(), "a"
    for agent in handed:
        state = HANDOFF.apply(state, Activate(agent=agent, by=speaker))
        speaker = agent
        givers = [entry.by for entry in state.trail]
        assert len(givers) == len(set(givers))
        assert speaker not in givers


# -- what the plugin brings -------------------------------------------------------------------


def test_the_keys_live_as_long_as_they_must() -> None:
    """03, table: `agent_handoff` and `__runtime.active_agent` (thread, exclusive)."""
    for key, name in ((HANDOFF, "agent_handoff"), (ACTIVE_AGENT, "__runtime.active_agent")):
        assert (key.name, key.scope, key.merge) == (name, Scope.THREAD, Merge.EXCLUSIVE)
        assert key.persistent
    assert HANDOFF_COUNT.scope is Scope.RUN


class Other:
    id = "other"

    def register(self, registrar: Registrar) -> None:
        return


def test_an_empty_hook_filter_runs_all_hooks() -> None:
    """03/MH-3 hook filters: an empty filter runs all hooks; another silences it, keys stay."""
    plugins = (HandoffPlugin(["b"]), Other())
    everything = ExecutionEnv.from_plugins(plugins, ())
    silenced = ExecutionEnv.from_plugins(plugins, {"other"})

    assert [len(everything.hooks[phase]) for phase in (Phase.RUN_START, Phase.STEP_END)] == [1, 1]
    assert not any(silenced.hooks.values())
    assert (list(everything.tools), list(silenced.tools)) == (["handoff"], [])
    assert {HANDOFF.name, ACTIVE_AGENT.name} <= silenced.keys.keys() & everything.keys.keys()
