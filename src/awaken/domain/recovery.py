"""What a tool does to the world, and what to do when a crash leaves its outcome open."""

from __future__ import annotations

from enum import StrEnum


class ToolEffect(StrEnum):
    """`read` changes nothing, `idempotent` may be repeated, `once` must not be."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class Recover(StrEnum):
    """How a call whose outcome is unknown is settled.

    `retry` runs it again, `verify` asks the tool whether it happened, `ask` asks a person, and
    `report` tells the model that nobody knows.
    """

    RETRY = "retry"
    VERIFY = "verify"
    ASK = "ask"
    REPORT = "report"


MOST_TAKEOVERS = 5
"""How often in a row a run is taken over from a process that died, without anything new in its log
or its ledger, before it is given up."""

ABANDONED = "abandoned: one process after another died with it, and nothing came of it in between"
"""How a run ends that was given up so."""

OUTCOME_UNKNOWN = "outcome_unknown"
"""The action of a ticket that asks what became of a call, and the mark of a result nobody knows."""
