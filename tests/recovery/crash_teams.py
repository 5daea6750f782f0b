"""What the crash matrix plays with several agents: delegates, hand-offs, tasks, messages, and
agents that run elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from crash_scenarios import (
    ALONE,
    REFUND,
    Answered,
    Cancelled,
    Far,
    Part,
    Said,
    Scenario,
    less,
    never_unknown,
    no,
)
from crash_world import FAILS, Call, Plan

from awaken import Budget, ToolCallResume
from awaken.domain.lifecycle import NATURAL_END
from awaken.domain.message import Message
from awaken.ext.handoff import Handoff
from awaken.testing.chaos import Picture, task_of

CHARGE: Plan = [[("charge", {"order": 1})]]
SHIP: Plan = [[("ship", {"order": 1})]]
LOOK: Call = ("look", {"order": 2})
NEIGHBOUR = "t2"


def to(agent: str, prompt: str = "Do it.") -> Call:
    """The call that gives an agent a task."""
    return f"agent_run_{agent}", {"prompt": prompt}


def hand_to(agent: str) -> Call:
    return "handoff", {"agent": agent}


# -- delegates --------------------------------------------------------------------------------

_NESTED = {
    "middle": Part([[to("leaf")], *SHIP], delegates=("leaf",)),
    "leaf": Part(REFUND),
}

DELEGATES = (
    Scenario(
        name="delegate",
        main=Part([[to("helper"), LOOK]], delegates=("helper",)),
        team={"helper": Part(CHARGE)},
        holds=never_unknown_above,
    ),
)
