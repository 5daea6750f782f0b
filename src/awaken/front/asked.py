"""Checks of what a caller asks a runtime for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from awaken.domain.message import Message
from awaken.errors import ConfigError
from awaken.front.agent import Agent
from awaken.front.remote import RemoteAgent
from awaken.runtime.request import WhenBusy

Input = str | Message | Iterable[Message | str] | None
"""What a caller gives a run to read."""


def checked_agent(agent: str | Agent | RemoteAgent | None) -> str | None:
    """The id of the agent that a caller asks for, if it names one.

    Raises:
        ConfigError: it is neither an agent nor an id.
    """
    given: Any = agent
    if isinstance(given, Agent | RemoteAgent):
        return given.id
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"agent is an agent's id, or an Agent, not {given!r}")
    return given


def checked_when_busy(word: str) -> WhenBusy:
    """
    Raises:
        ConfigError: there is no such word.
    """
    try:
        return word if isinstance(word, WhenBusy) else WhenBusy(word)
    except ValueError:
        raise ConfigError(f"when_busy is 'refuse' or 'queue', not {word!r}") from None
