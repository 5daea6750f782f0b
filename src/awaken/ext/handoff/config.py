"""A way from one agent to another, and what is special about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from awaken.codec import from_json, to_json
from awaken.domain.message import Message
from awaken.domain.overlay import AgentOverlay
from awaken.errors import ConfigError

InputFilter = Literal["all", "since_handoff"] | Callable[[Sequence[Message]], Sequence[Message]]
"""What an agent sees of the conversation before it was handed over; of what comes after, it sees
everything.

`all` is all of it, `since_handoff` only the last turn: what the user asked for last, and how that
led to the hand-over. A function is given what was before and returns what is to be seen of it, or
something else in its place, such as a summary; it must give the same for the same.
"""

MAX_HANDOFFS = 8
"""How often a run is handed over at most, unless its agents say otherwise."""


class _Named(Protocol):
    """An agent, as far as this package knows one."""

    id: str


class Handoff:
    """A way to another agent.

    Args:
        agent: the agent, or its id.
        description: what it is there for, if the model that hands over is to be told something
            else than the agent says of itself.
        input_filter: what it sees of the conversation so far.
        overlay: what is changed about it for as long as the conversation is with it.
        returns: whether it may hand back.

    Raises:
        ConfigError: an argument cannot work; the text says which.
    """

    __slots__ = ("agent", "description", "input_filter", "overlay", "returns")

    def __init__(
        self,
        agent: str | _Named,
        *,
        description: str | None = None,
        input_filter: InputFilter = "all",
        overlay: AgentOverlay | None = None,
        returns: bool = False,
    ) -> None:
        id: Any = agent if isinstance(agent, str) else getattr(agent, "id", None)
        if not isinstance(id, str):
            raise ConfigError(f"a hand-over is to an agent or its id, not to {agent!r}")
        self.agent = id
        self.description = description
        self.input_filter: InputFilter = _filter(self.agent, input_filter)
        self.overlay = None if overlay is None else _overlay(self.agent, overlay)
        self.returns = returns

    @classmethod
    def of(cls, item: str | _Named | Handoff) -> Handoff:
        """The way an item is, or a plain one to the agent it is."""
        return item if isinstance(item, Handoff) else cls(item)

    def __repr__(self) -> str:
        return f"Handoff({self.agent!r})"


def _filter(agent: str, given: Any) -> InputFilter:
    if given in ("all", "since_handoff") or callable(given):
        checked: InputFilter = given
        return checked
    raise ConfigError(
        f"the hand-over to {agent!r}: input_filter is 'all', 'since_handoff' or a function of the "
        f"messages so far, not {given!r}"
    )


def _overlay(agent: str, given: Any) -> AgentOverlay:
    try:
        return from_json(to_json(given), AgentOverlay)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"the overlay of {agent!r} does not fit: {error}") from error
