"""The contract of a compactor: a plugin service that shortens a conversation between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from awaken.clock import Clock
from awaken.codec import Json
from awaken.core.identity import RunIdentity
from awaken.core.inference import ContextWindowPolicy, StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message
from awaken.core.run import PersistedState
from awaken.core.spec import AgentSpec
from awaken.core.state.store import StateStore
from awaken.core.window import TokenCounter
from awaken.ids import Ids


class Folded(msgspec.Struct, frozen=True):
    """A summary that replaces messages, and its position in the message log, if it has one."""

    summary: Message
    seq: int | None


class LiveConversation(Protocol):
    """The conversation of a running run, between two steps.

    `policy` is the active agent's, within its model's limits.
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
    def state(self) -> StateStore: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def ids(self) -> Ids: ...

    def tokens(self) -> int:
        """The tokens of the next request, as the provider would count them."""
        ...

    def messages(self) -> Sequence[Message]:
        """All messages in memory, also those that requests no longer include."""
        ...

    def is_new_turn(self) -> bool:
        """Whether a user message has come since the last call."""
        ...

    def fold(self, boundary_id: str, summary: Message) -> Folded | None:
        """Show a summary instead of all messages up to `boundary_id`, here and in later runs.

        Returns `None`, and changes nothing, if requests no longer include that message.
        """
        ...

    def emit(self, event_type: str, task_id: str, payload: Mapping[str, Json]) -> None:
        """Emit an event to clients, with the next commit."""
        ...

    async def ask(self, request: InferenceRequest, model_id: str | None = None) -> StreamResult:
        """Send a side request to the agent's own model, or to another one.

        Its cost counts as the run's. The request's `upstream_model` is filled in.

        Raises:
            BudgetExhausted: too little is left for the request.
            ResolveError: there is no such model.
            InferenceExecutionError: the request failed.
        """
        ...


class Compactor(Protocol):
    """A plugin service that the loop calls before each step."""

    def before_step(self, talk: LiveConversation) -> None:
        """Shorten the conversation if needed; slow work must go into a task of its own."""
        ...

    def last_summary_seq(self, thread_state: PersistedState) -> int | None:
        """The position in the log of a thread's last summary, by the thread's recorded state.
        Returns `None` if it has none."""
        ...
