"""Keeping a conversation short: what the loop lets a plugin do about it between two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from awaken.clock import Clock
from awaken.codec import Json
from awaken.contract.llm import InferenceRequest
from awaken.domain.estimate import TokenCounter
from awaken.domain.identity import RunIdentity
from awaken.domain.inference import ContextWindowPolicy, StreamResult
from awaken.domain.message import Message
from awaken.domain.spec import AgentSpec
from awaken.ids import Ids
from awaken.state.store import StateStore


class Folded(msgspec.Struct, frozen=True):
    """A summary that stands in the place of messages, and where it is in the log, if it is."""

    summary: Message
    seq: int | None


class Talk(Protocol):
    """The conversation of a live run, at the border of a step.

    `policy` is that of the agent that speaks, within its model's limits.
    """

    @property
    def identity(self) -> RunIdentity: ...
    @property
    def spec(self) -> AgentSpec: ...
    @property
    def policy(self) -> ContextWindowPolicy: ...
    @property
    def counter(self) -> TokenCounter: ...
    @property
    def store(self) -> StateStore: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def ids(self) -> Ids: ...

    def tokens(self) -> int:
        """How much the next request would take, as the provider counts."""
        ...

    def messages(self) -> Sequence[Message]:
        """What there is of the conversation, also what no request shows any more."""
        ...

    def is_new_turn(self) -> bool:
        """Whether the user has written since this was asked last."""
        ...

    def fold(self, boundary_id: str, summary: Message) -> Folded | None:
        """Show a summary in the place of all up to a message, from now on and in every later run;
        nothing is done, and returned, if that message is not to be seen any more."""
        ...

    def tell(self, event_type: str, task_id: str, payload: Mapping[str, Json]) -> None:
        """Let clients know, with the next commit."""
        ...

    async def ask(self, request: InferenceRequest, model_id: str | None = None) -> StreamResult:
        """Have the agent's own model, or another one, answer beside the run. What that takes is
        counted with the run's; the request's `upstream_model` is filled in.

        Raises:
            BudgetExhausted: there is not enough left for it.
            ResolveError: there is no such model.
            InferenceExecutionError: it could not be had.
        """
        ...


class Compactor(Protocol):
    """A plugin's service that is called before each step of agents that have it."""

    def before_step(self, talk: Talk) -> None:
        """Do what is to be done; what takes time is done beside the run."""
        ...
