"""Reading a streamed answer: the Converse API's events in, our events out. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awaken.codec import dumps_text, loads
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import (
    ContentBlockStop,
    ContentFiltered,
    ContextOverflow,
    LlmStreamEvent,
    ProviderError,
    ReasoningDone,
    Stop,
    Usage,
)
from awaken.core.message import Citation, Opaque
from awaken.models.bedrock.request import ORIGIN
from awaken.models.parsing import find_count, keep_unknown_part
from awaken.models.response_limits import PendingSize

_STOPS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
}


_CITATION = 256
_OWN_TOOLS = ("toolUse", "toolResult")
"""Calls that Amazon runs itself, and their results."""


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
        self._citations: list[Citation] = []
        self._unread: dict[str, dict[str, Any]] = {}
        self._held = PendingSize()
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
        use = start.get("toolUse")
        if use is not None and "type" not in use:
            name = use["name"]
            self._said, self._call = True, use["toolUseId"]
            return [ToolCallStart(id=use["toolUseId"], name=self._names.get(name, name))]
        self._unread = {kind: dict(fields) for kind, fields in start.items() if fields}
        return []

    def _delta(self, delta: Mapping[str, Any]) -> list[LlmStreamEvent]:
        self._said = True
        if text := delta.get("text"):
            self._spoke = True
            return [TextDelta(delta=text)]
        if (reasoning := delta.get("reasoningContent")) is not None:
            return self._reason(reasoning)
        if citation := delta.get("citation"):
            self._held.add("", _CITATION)
            self._citations.append(_citation(citation))
        elif self._call is not None and "toolUse" in delta:
            written = delta["toolUse"].get("input")
            return [ToolCallDelta(id=self._call, args_delta=written)] if written else []
        elif not self._call:
            self._unread_delta(delta)
        return []

    def _unread_delta(self, delta: Mapping[str, Any]) -> None:
        """Collect the pieces of a block that is not understood, in the form of a request."""
        self._held.add(dumps_text(delta))
        for kind, piece in delta.items():
            block = self._unread.setdefault(kind, {})
            if isinstance(piece, list):  # the result of a tool that Amazon runs itself
                block["content"] = [*block.get("content", ()), *piece]
                continue
            for name, value in piece.items():
                before = block.get(name)
                block[name] = before + value if isinstance(before, str) else value

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
            events += [ContentBlockStop(), *self._citations]
        for kind, block in self._unread.items():
            if isinstance(written := block.get("input"), str):
                block["input"] = loads(written)
            keep = Opaque if kind in _OWN_TOOLS else keep_unknown_part
            events.append(keep(origin=ORIGIN, kind=kind, data={kind: block}))
        self._thinking = self._spoke = False
        self._call, self._signature, self._redacted = None, [], []
        self._citations, self._unread = [], {}
        return events


def _citation(data: Mapping[str, Any]) -> Citation:
    where = data.get("location") or {}
    quotes = [piece.get("text") or "" for piece in data.get("sourceContent") or ()]
    return Citation(
        origin=ORIGIN,
        data=dict(data),
        url=(where.get("web") or {}).get("url"),
        title=data.get("title"),
        quote="".join(quotes) or None,
    )


def _tokens(usage: object) -> TokenUsage:
    """The token counts; Amazon counts cached tokens separately."""
    read, written = (find_count(usage, f"cache{what}InputTokens") for what in ("Read", "Write"))
    asked = find_count(usage, "inputTokens")
    return TokenUsage(
        prompt_tokens=None if asked is None else asked + (read or 0) + (written or 0),
        completion_tokens=find_count(usage, "outputTokens"),
        total_tokens=find_count(usage, "totalTokens"),
        cache_read_tokens=read,
        cache_creation_tokens=written,
    )
