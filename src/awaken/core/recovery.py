"""What effects a tool has, and what to do with a call whose outcome a crash left unknown."""

from __future__ import annotations

from enum import StrEnum


class ToolEffect(StrEnum):
    """A `read` tool changes nothing, an `idempotent` one may be repeated, a `once` one must not."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class Recover(StrEnum):
    """What to do with a tool call whose outcome is unknown.

    `retry` runs it again, `verify` asks the tool whether it happened, `ask` asks an approver, and
    `report` tells the model that the outcome is unknown.
    """

    RETRY = "retry"
    VERIFY = "verify"
    ASK = "ask"
    REPORT = "report"


MOST_TAKEOVERS = 5
"""How often in a row a run is taken over from a dead process, with nothing new in its message log
or call ledger, before it is given up."""

ABANDONED = "abandoned: one process after another died with it, and nothing came of it in between"
"""The error of a run that was given up."""


def error_payload_of(why: str) -> dict[str, str]:
    """What the record of a failed run says about its error. A run that was given up has a code."""
    if why == ABANDONED:
        return {"message": why, "code": "abandoned"}
    return {"message": why}


OUTCOME_UNKNOWN = "outcome_unknown"
"""The action of a ticket that asks for the outcome of a call, and the mark of such a result."""
