"""Reading a streamed answer: the Converse API's events in, our events out. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awaken.contract.llm import (
    ContentBlockStop,
    ContentFiltered,
    ContextOverflow,
    LlmStreamEvent,
    ProviderError,
    ReasoningDone,
    Stop,
    Usage,
)
from awaken.domain.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.domain.inference import StopReason, TokenUsage
from awaken.llm.bedrock.request import ORIGIN
from awaken.llm.opaque import unread
from awaken.llm.reading import count_in

_STOPS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
}


class ConverseReader:
    """Reads one answer: `read` every event, then `finish`.

    Args:
        names: the tools' own names, by their names on the wire.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._call: str | None = None
        self._spoke = self._said = False
        self._thinking = False
        self._signature: list[str] = []
        self._redacted: list[str] = []
        self._stop: str | None = None
        self._usage: TokenUsage | None = None

    @property
    def done(self) -> bool:
        """Whether the answer is complete; only usage may still follow."""
        return self._stop is not None

    def read(self, kind: str, event: Mapping[str, Any]) -> list[LlmStreamEvent]:
        """Our events for one of the API's."""
        match kind:
            case "contentBlockStart":
                return self._start(event.get("start") or {})
            case "contentBlockDelta":
                return self._delta(event.get("delta") or {})
            case "contentBlockStop":
                return self._end()
            case "messageStop":
                self._stop = str(event.get("stopReason") or "end_turn")
            case "metadata":
                self._usage = _tokens(event.get("usage"))
        return []

    def finish(self) -> list[LlmStreamEvent]:
        """The last events.

        Raises:
            ProviderError: the stream ended too early, or the model's answer was malformed.
            ContentFiltered: the answer was stopped by a guardrail or a filter.
            ContextOverflow: there was no room for an answer.
        """
        if self._stop is None:
            raise ProviderError("connection reset: the stream ended early")
        if self._stop in ("guardrail_intervened", "content_filtered"):
            raise ContentFiltered(f"the answer was stopped ({self._stop})")
        if self._stop.startswith("malformed"):
            raise ProviderError(f"the model botched its answer ({self._stop})")
        if self._stop == "model_context_window_exceeded" and not self._said:
            raise ContextOverflow("the conversation leaves no room in the model's context window")
        usage: list[LlmStreamEvent] = [] if self._usage is None else [Usage(usage=self._usage)]
        return [*usage, Stop(reason=_STOPS.get(self._stop, StopReason.END_TURN))]

    def _start(self, start: Mapping[str, Any]) -> list[LlmStreamEvent]:
        self._said = True
        use = start.get("toolUse")
        if use is not None and "type" not in use:
            name = use["name"]
            self._call = use["toolUseId"]
            return [ToolCallStart(id=use["toolUseId"], name=self._names.get(name, name))]
        return [unread(ORIGIN, kind, dict(start)) for kind in start]

    def _delta(self, delta: Mapping[str, Any]) -> list[LlmStreamEvent]:
        self._said = True
        if text := delta.get("text"):
            self._spoke = True
            return [TextDelta(delta=text)]
        if (use := delta.get("toolUse")) is not None:
            written = use.get("input")
            if written and self._call is not None:
                return [ToolCallDelta(id=self._call, args_delta=written)]
        if (reasoning := delta.get("reasoningContent")) is not None:
            return self._reason(reasoning)
        return []

    def _reason(self, piece: Mapping[str, Any]) -> list[LlmStreamEvent]:
        self._thinking = True
        self._signature.append(piece.get("signature") or "")
        self._redacted.append(piece.get("redactedContent") or "")
        text = piece.get("text")
        return [ReasoningDelta(delta=text)] if text else []

    def _end(self) -> list[LlmStreamEvent]:
        """The end of a block; blocks come one after the other."""
        events: list[LlmStreamEvent] = []
        if self._thinking:
            done = ReasoningDone(
                origin=ORIGIN,
                signature="".join(self._signature) or None,
                encrypted="".join(self._redacted) or None,
            )
            events.append(done)
        elif self._spoke:
            events.append(ContentBlockStop())
        self._thinking = self._spoke = False
        self._call, self._signature, self._redacted = None, [], []
        return events


def _tokens(usage: object) -> TokenUsage:
    """The token counts; Amazon counts cached tokens separately."""
    read, written = (count_in(usage, f"cache{what}InputTokens") for what in ("Read", "Write"))
    asked = count_in(usage, "inputTokens")
    return TokenUsage(
        prompt_tokens=None if asked is None else asked + (read or 0) + (written or 0),
        completion_tokens=count_in(usage, "outputTokens"),
        total_tokens=count_in(usage, "totalTokens"),
        cache_read_tokens=read,
        cache_creation_tokens=written,
    )
