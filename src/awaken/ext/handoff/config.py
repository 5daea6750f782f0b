"""The options of a handoff from one agent to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from awaken.codec import from_json, to_json
from awaken.core.message import Message
from awaken.core.spec import AgentOverlay
from awaken.errors import ConfigError

InputFilter = Literal["all", "since_handoff"] | Callable[[Sequence[Message]], Sequence[Message]]
"""Which part of the conversation before the hand-over the agent sees; it sees everything that comes
after.

`all` is the whole of it, `since_handoff` only the last turn: the user's last message, and all up to
the hand-over. A function takes the messages before the hand-over and returns those to show, or
others instead, such as a summary. It must return equal messages for equal ones.
"""

MAX_HANDOFFS = 8
"""The default for the most hand-overs in one run."""


class _Named(Protocol):
    """An agent; this package only needs its id."""

    id: str


class Handoff:
    """A handoff to another agent, with options.

    Args:
        agent: the agent, or its id.
        description: what the agent is for, told to the model that hands over; by default the
            agent's own description.
        input_filter: which part of the conversation so far the agent sees.
        overlay: changes to the agent for as long as it has the conversation.
        returns: whether the agent may hand the conversation back.

    Raises:
        ConfigError: an argument cannot work; the text says which.
    """

    __slots__ = ("agent", "description", "given", "input_filter", "overlay", "returns")

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
            raise ConfigError(f"a handoff takes an agent or its id, not {agent!r}")
        self.agent = id
        self.given: Any = agent
        """The agent, or its id, as it was given."""
        self.description = description
        self.input_filter: InputFilter = _filter(self.agent, input_filter)
        self.overlay = None if overlay is None else _overlay(self.agent, overlay)
        self.returns = returns

    @classmethod
    def of(cls, item: str | _Named | Handoff) -> Handoff:
        """The item if it is a `Handoff`, else a plain handoff to that agent."""
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
