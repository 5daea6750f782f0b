"""How a run ended."""

from __future__ import annotations

from awaken.core.budget import Amount
from awaken.core.lifecycle import TerminationReason
from awaken.core.run import RunWaitingTicket
from awaken.core.value import Value


class AgentRunResult(Value, frozen=True, kw_only=True):
    """How a run ended.

    `empty_twice` says whether its last answer was empty, also when the model was asked once more.
    `cost` is that of its own models, as far as their prices are known. `spent` is what the run and
    all it started have used up, if it has a budget.
    """

    run_id: str
    agent_id: str = ""
    response: str
    termination: TerminationReason
    steps: int
    empty_twice: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    thinking_tokens: int = 0
    cost: float | None = None
    tickets: tuple[RunWaitingTicket, ...] = ()
    waits: bool = False
    spent: Amount | None = None
