"""Who speaks, who was asked to, and from whom the conversation came."""

from __future__ import annotations

from awaken.domain.value import Value, nullable
from awaken.state.key import Merge, Scope, StateKey


class Handover(Value, frozen=True, kw_only=True):
    """A conversation that was given away: who gave it, and the last message by then."""

    by: str
    since: str | None = None


class HandoffState(Value, frozen=True, kw_only=True):
    """The agent that speaks, and the one that is to speak next.

    `trail` is how the conversation came to who speaks: each agent once, who gave it last at the
    end.
    """

    active_agent: str | None = nullable()
    requested_agent: str | None = nullable()
    trail: tuple[Handover, ...] = ()

    @property
    def effective(self) -> str | None:
        """Who was asked, else who speaks."""
        return self.requested_agent or self.active_agent

    @property
    def handover(self) -> Handover | None:
        """How the agent that speaks came by the conversation, if another gave it."""
        return self.trail[-1] if self.trail else None

    @property
    def home(self) -> str | None:
        """The agent the conversation began with, if it was ever given away."""
        return self.trail[0].by if self.trail else None


class HandoffRequest(Value, frozen=True, kw_only=True, tag="request", tag_field="type"):
    """Ask for another agent; a later request replaces an earlier one."""

    agent: str


class Activate(Value, frozen=True, kw_only=True, tag="activate", tag_field="type"):
    """The agent speaks now; `by` gave it the conversation, whose last message is `since`.

    One that is on the trail has got it back: whoever came after it is off the trail.
    """

    agent: str
    by: str | None = None
    since: str | None = None


class Clear(Value, frozen=True, kw_only=True, tag="clear", tag_field="type"):
    """Nobody was asked, nobody took over: the conversation goes back to where it began."""


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
        # Somebody outside has chosen, who knows of no trail; or nothing has changed.
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
"""How often the run was handed over."""
