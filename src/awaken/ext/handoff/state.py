"""Who speaks, and who was asked to."""

from __future__ import annotations

from awaken.domain.value import Value, nullable
from awaken.state.key import Scope, StateKey


class HandoffState(Value, frozen=True, kw_only=True):
    """The agent that speaks, and the one that is to speak next."""

    active_agent: str | None = nullable()
    requested_agent: str | None = nullable()

    @property
    def effective(self) -> str | None:
        return self.requested_agent or self.active_agent


class Request(Value, frozen=True, kw_only=True, tag="request", tag_field="type"):
    """Ask for another agent; a later request replaces an earlier one."""

    agent: str


class Activate(Value, frozen=True, kw_only=True, tag="activate", tag_field="type"):
    """The agent speaks now."""

    agent: str


class Clear(Value, frozen=True, kw_only=True, tag="clear", tag_field="type"):
    """Nobody was asked, nobody took over."""


def _apply(state: HandoffState, update: Request | Activate | Clear) -> HandoffState:
    match update:
        case Request(agent=agent):
            return HandoffState(active_agent=state.active_agent, requested_agent=agent)
        case Activate(agent=agent):
            return HandoffState(active_agent=agent)
        case Clear():
            return HandoffState()


HANDOFF: StateKey[HandoffState, Request | Activate | Clear] = StateKey(
    "agent_handoff", initial=HandoffState, apply=_apply, scope=Scope.THREAD
)
