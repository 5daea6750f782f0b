"""The state of handoffs: the active agent, the requested one, and the agents before."""

from __future__ import annotations

from awaken.core.state.key import Merge, Scope, StateKey
from awaken.core.value import Value, nullable


class Handover(Value, frozen=True, kw_only=True):
    """One hand-over: the agent that handed over, and the last message at that moment."""

    by: str
    since: str | None = None


class HandoffState(Value, frozen=True, kw_only=True):
    """The active agent, and the one that was requested to take over.

    `trail` lists the hand-overs that led to the active agent, each agent once, the latest last.
    """

    active_agent: str | None = nullable()
    requested_agent: str | None = nullable()
    trail: tuple[Handover, ...] = ()

    @property
    def effective(self) -> str | None:
        """The requested agent, else the active one."""
        return self.requested_agent or self.active_agent

    @property
    def handover(self) -> Handover | None:
        """The hand-over to the active agent, or `None`."""
        return self.trail[-1] if self.trail else None

    @property
    def home(self) -> str | None:
        """The agent that the conversation began with; `None` if it was never handed over."""
        return self.trail[0].by if self.trail else None


class HandoffRequest(Value, frozen=True, kw_only=True, tag="request", tag_field="type"):
    """Request another agent; a later request replaces an earlier one."""

    agent: str


class Activate(Value, frozen=True, kw_only=True, tag="activate", tag_field="type"):
    """Make an agent the active one. `by` handed over to it, after the message `since`.

    An agent that is on the trail already gets the conversation back: the trail ends before it.
    """

    agent: str
    by: str | None = None
    since: str | None = None


class Clear(Value, frozen=True, kw_only=True, tag="clear", tag_field="type"):
    """Clear the request and the active agent: the conversation goes back to the first agent."""


def _apply(state: HandoffState, update: HandoffRequest | Activate | Clear) -> HandoffState:
    match update:
        case HandoffRequest(agent=agent):
            return HandoffState(
                active_agent=state.active_agent, requested_agent=agent, trail=state.trail
            )
        case Activate(agent=agent):
            return HandoffState(active_agent=agent, trail=_trail(state, update))
        case Clear():
            return HandoffState(trail=state.trail)


def _trail(state: HandoffState, update: Activate) -> tuple[Handover, ...]:
    before = tuple(entry.by for entry in state.trail)
    if update.agent in before:
        return state.trail[: before.index(update.agent)]
    if update.by is None or update.by == update.agent:
        # The caller has chosen an agent, which starts a new trail; or the agent is the same as
        # before.
        return () if update.agent != state.active_agent else state.trail
    return (*state.trail, Handover(by=update.by, since=update.since))


HANDOFF: StateKey[HandoffState, HandoffRequest | Activate | Clear] = StateKey(
    "agent_handoff", initial=HandoffState, apply=_apply, scope=Scope.THREAD
)

HANDOFF_COUNT: StateKey[int, int] = StateKey(
    "agent_handoff_count",
    initial=int,
    apply=lambda count, more: count + more,
    merge=Merge.COMMUTATIVE,
)
"""The number of hand-overs in the run."""
