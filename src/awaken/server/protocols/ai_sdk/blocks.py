"""The AI SDK's chunks of an answer: blocks of text and reasoning, then the end of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

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


class Kind(StrEnum):
    """The kind of a block."""

    TEXT = "text"
    REASONING = "reasoning"


class Blocks:
    """Opens, fills and closes blocks; their ids count up through the whole message.

    A client of version 6 cannot remove text. When an answer starts over, the client's text stays,
    and the new text is compared with it: while both agree, only the part beyond it is sent. When
    they differ, a notice says that the text before it is void, and the new text is a block of its
    own.

    Args:
        void: the notice.
    """

    def __init__(self, void: Json) -> None:
        self._void = void
        self._count = 0
        self._open: Kind | None = None
        # Of the open block; made once, since there is a chunk for every delta of a model.
        self._id = self._delta = ""
        self._sent: dict[Kind, list[str]] = {kind: [] for kind in Kind}
        # The client's text from before the last reset, and the part of it that was sent again.
        self._shown: dict[Kind, str] = {}
        self._again: dict[Kind, str] = {}

    def add(self, kind: Kind, delta: str) -> Iterable[Json]:
        """The chunks of the next piece of the answer."""
        if self._shown and kind in self._shown:
            return self._compare(kind, delta)
        if self._open is kind:
            self._sent[kind].append(delta)
            return ({"type": self._delta, "id": self._id, "delta": delta},)
        return self._write(kind, delta) if delta else ()

    def _compare(self, kind: Kind, delta: str) -> Iterator[Json]:
        shown = self._shown[kind]
        again = self._again[kind] = self._again[kind] + delta
        if shown.startswith(again):
            return
        del self._shown[kind], self._again[kind]
        if again.startswith(shown):
            yield from self._write(kind, again[len(shown) :])
        else:
            yield from self._replace(kind, again)

    def _replace(self, kind: Kind, text: str) -> Iterator[Json]:
        self._sent[kind] = []
        yield from self.close()
        yield self._void
        if text:
            yield from self._write(kind, text)

    def _write(self, kind: Kind, delta: str) -> Iterator[Json]:
        if self._open is not kind:
            yield from self.close()
            self._open = kind
            self._count += 1
            self._id, self._delta = str(self._count), f"{kind}-delta"
            yield {"type": f"{kind}-start", "id": self._id}
        self._sent[kind].append(delta)
        yield {"type": self._delta, "id": self._id, "delta": delta}

    def close(self) -> Iterator[Json]:
        """Close the block that is open."""
        kind, self._open = self._open, None
        if kind is not None:
            yield {"type": f"{kind}-end", "id": self._id}

    def start_over(self) -> None:
        """The answer starts over; the client keeps the part that it has."""
        for kind, sent in self._sent.items():
            if sent:
                self._shown[kind], self._again[kind] = "".join(sent), ""

    def complete(self) -> Iterator[Json]:
        """The answer is complete: text that the client has beyond it is void."""
        for kind, shown in list(self._shown.items()):
            again = self._again[kind]
            del self._shown[kind], self._again[kind]
            if again != shown:
                yield from self._replace(kind, again)

    def forget(self) -> None:
        """Reset the blocks: the client has dropped this step, or the step is over."""
        self._open = None
        self._sent = {kind: [] for kind in Kind}
        self._shown, self._again = {}, {}


def build_ending(event: RunFinish) -> list[Json]:
    """The chunks at the end of a run."""
    termination = event.termination
    if isinstance(termination, Failed):
        return build_error_ending(termination.value)
    cost = {} if event.cost is None else {"cost": event.cost}
    metadata = {**usage_metadata(event.usage), **cost, "steps": event.steps}
    if not isinstance(termination, NaturalEnd | BehaviorRequested | Suspended):
        metadata["termination"] = str(type(termination).__struct_config__.tag)
    finish = {
        "type": "finish",
        "finishReason": _reason(termination),
        "messageMetadata": metadata,
    }
    return [{"type": "abort"}, finish] if isinstance(termination, CancelledEnd) else [finish]


def build_error_ending(text: str) -> list[Json]:
    """The chunks at the end of a run that has failed. A page that is loaded later has the metadata
    alone: an error belongs to a stream, not to a message."""
    metadata = {"termination": "failed", "error": text}
    return [
        {"type": "message-metadata", "messageMetadata": metadata},
        {"type": "error", "errorText": text},
    ]


_FIELDS = {
    "inputTokens": "prompt_tokens",
    "outputTokens": "completion_tokens",
    "totalTokens": "total_tokens",
    "reasoningTokens": "thinking_tokens",
    "cachedInputTokens": "cache_read_tokens",
}


def usage_metadata(usage: TokenUsage | None) -> dict[str, Json]:
    """The tokens as metadata of a message; empty if the provider reported none."""
    if usage is None:
        return {}
    given = {name: getattr(usage, field) for name, field in _FIELDS.items()}
    return {"usage": {name: count for name, count in given.items() if count is not None}}


_RAN_OUT = frozenset({"max_rounds", "token_budget", "budget"})


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
