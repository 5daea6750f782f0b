"""How a run ended, and what it took, in the AI SDK's words."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.event import RunFinish
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import (
    BehaviorRequested,
    Blocked,
    CancelledEnd,
    Failed,
    NaturalEnd,
    Stopped,
    Suspended,
    TerminationReason,
)

_RAN_OUT = frozenset({"max_rounds", "token_budget", "budget"})
_FIELDS = {
    "inputTokens": "prompt_tokens",
    "outputTokens": "completion_tokens",
    "totalTokens": "total_tokens",
    "reasoningTokens": "thinking_tokens",
    "cachedInputTokens": "cache_read_tokens",
}


def ending_of(event: RunFinish) -> list[Json]:
    """The chunks at the end of a run."""
    termination = event.termination
    if isinstance(termination, Failed):
        return failed(termination.value)
    cost = {} if event.cost is None else {"cost": event.cost}
    metadata = {**usage_of(event.usage), **cost, "steps": event.steps}
    if not isinstance(termination, NaturalEnd | BehaviorRequested | Suspended):
        metadata["termination"] = str(type(termination).__struct_config__.tag)
    finish = {
        "type": "finish",
        "finishReason": _reason(termination),
        "messageMetadata": metadata,
    }
    return [{"type": "abort"}, finish] if isinstance(termination, CancelledEnd) else [finish]


def failed(text: str) -> list[Json]:
    """The chunks at the end of a run that has failed. A page that is loaded later has the metadata
    alone: an error belongs to a stream, not to a message."""
    metadata = {"termination": "failed", "error": text}
    return [
        {"type": "message-metadata", "messageMetadata": metadata},
        {"type": "error", "errorText": text},
    ]


def _reason(termination: TerminationReason) -> str:
    match termination:
        case Suspended():
            return "tool-calls"
        case Stopped(value=stopped):
            return "length" if stopped.code in _RAN_OUT else "other"
        case Blocked():
            return "content-filter"
        case CancelledEnd():
            return "other"
        case _:
            return "stop"


def usage_of(usage: TokenUsage | None) -> dict[str, Json]:
    """The tokens as metadata of a message; empty if the provider reported none."""
    if usage is None:
        return {}
    given = {name: getattr(usage, field) for name, field in _FIELDS.items()}
    return {"usage": {name: count for name, count in given.items() if count is not None}}
