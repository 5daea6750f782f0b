"""Converting the SDK's events to ours, one by one. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from awaken.codec import dumps_text, loads
from awaken.core.answer_builder import total_usage
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
from awaken.models.anthropic.messages import ORIGIN, citation_of
from awaken.models.parsing import check_events, keep_unknown_part, parse_count
from awaken.models.response_limits import PendingSize

MaybeEvent = LlmStreamEvent | None
_BLOCK = 256

_STOPS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}


# The answer goes on if it is sent back: a long turn of the provider's own tools was paused, or the
# conversation was summarised first.
_PAUSES = ("pause_turn", "compaction")

# Blocks of tools that the provider runs itself, and its summaries of conversations.
_OWN_BLOCKS = re.compile(
    r"server_tool_use|(web|code|bash_code|text_editor_code|tool)_\w+_result|compaction"
)


class StreamReader:
    """Reads one answer; call `read` with every event of the stream, in order.

    Args:
        names: the tools' own names, by their names on the wire.
        spent: what earlier streams of the answer have used.
    """

    def __init__(
        self, names: Mapping[str, str] | None = None, spent: TokenUsage | None = None
    ) -> None:
        self.done = False
        """Whether the stream is complete."""
        self.usage = self._spent = spent
        """What all streams of the answer have used so far."""
        self._names = names or {}
        self._citations: list[Citation] = []
        self._after: list[LlmStreamEvent] = []
        self._blocks: dict[int, Any] = {}
        self._written: set[int] = set()
        self._unread: dict[str, list[str]] = {}
        self._signature: list[str] = []
        self._pending_size = PendingSize()
        self._spoke = False
        self._prompt = 0
        self._stop: str | None = None
        self._why: Any = None
        self._on: dict[str, Callable[[Any], MaybeEvent]] = {
            "content_block_delta": self._delta,
            "content_block_start": self._block_start,
            "content_block_stop": self._block_stop,
            "message_start": self._message_start,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
        }
        self._deltas: dict[str, Callable[[Any], MaybeEvent]] = {
            "text_delta": self._text,
            "input_json_delta": self._arguments,
            "thinking_delta": self._thinking,
            "signature_delta": self._add_signature,
            "citations_delta": self._add_citation,
        }
        self._ends: dict[str, Callable[[Any, int], MaybeEvent]] = {
            "text": self._text_end,
            "thinking": self._thinking_end,
            "redacted_thinking": self._end_redacted,
            "tool_use": self._call_end,
        }

    @property
    def paused(self) -> bool:
        """Whether the answer goes on in another stream."""
        return self._stop in _PAUSES

    def read(self, event: Any) -> Iterable[LlmStreamEvent]:
        """Our events for one of the SDK's.

        Raises:
            ContentFiltered: the answer was refused.
            ContextOverflow: there was no room for an answer.
            ProviderError: the event makes no sense. The SDK does not check its events.
        """
        try:
            on = self._on.get(event.type)
            told = on(event) if on is not None else None
            events: list[LlmStreamEvent] = [] if told is None else [told]
            if self._after:
                events += self._after
                self._after = []
            return check_events(events)
        except (AttributeError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ProviderError(f"an answer that makes no sense: {error}") from error

    # -- the message --------------------------------------------------------------------------

    def _message_start(self, event: Any) -> MaybeEvent:
        return self._usage(event.message.usage)

    def _message_delta(self, event: Any) -> MaybeEvent:
        self._stop = event.delta.stop_reason or self._stop
        self._why = getattr(event.delta, "stop_details", None)
        return self._usage(getattr(event, "usage", None))

    def _message_stop(self, event: Any) -> MaybeEvent:
        self.done = True
        if self._stop == "refusal":
            # The refused answer must not be kept: all later requests would be refused, too.
            raise ContentFiltered(_refusal(self._why))
        if self._stop == "model_context_window_exceeded" and not self._spoke:
            raise ContextOverflow("the conversation leaves no room in the model's context window")
        return None if self.paused else Stop(reason=_STOPS.get(self._stop or ""))

    def _usage(self, usage: Any) -> MaybeEvent:
        asked, answered = _count(usage, "input_tokens"), _count(usage, "output_tokens") or 0
        read = _count(usage, "cache_read_input_tokens")
        written = _count(usage, "cache_creation_input_tokens")
        if asked is not None:
            # Anthropic counts cached tokens separately.
            self._prompt = asked + (read or 0) + (written or 0)
        used = TokenUsage(
            prompt_tokens=self._prompt,
            completion_tokens=answered,
            total_tokens=self._prompt + answered,
            cache_read_tokens=read,
            cache_creation_tokens=written,
            thinking_tokens=_count(
                getattr(usage, "output_tokens_details", None), "thinking_tokens"
            ),
        )
        self.usage = total_usage(self._spent, used) or used
        return Usage(usage=self.usage)

    # -- blocks -------------------------------------------------------------------------------

    def _block_start(self, event: Any) -> MaybeEvent:
        self._pending_size.add("", _BLOCK)
        block = self._blocks[event.index] = event.content_block
        if block.type == "text":
            self._spoke = True
            return TextDelta(delta=block.text) if block.text else None
        if block.type == "thinking":
            self._signature = [getattr(block, "signature", None) or ""]
            return ReasoningDelta(delta=block.thinking) if block.thinking else None
        if block.type == "tool_use":
            self._spoke = True
            return ToolCallStart(id=block.id, name=self._names.get(block.name, block.name))
        return None

    def _delta(self, event: Any) -> MaybeEvent:
        block = self._blocks.get(event.index)
        if block is not None and block.type not in self._ends:
            self._unread_delta(event.delta)
            return None
        on = self._deltas.get(event.delta.type)
        return on(event) if on is not None else None

    def _block_stop(self, event: Any) -> MaybeEvent:
        block = self._blocks.get(event.index)
        if block is None:
            return None
        end = self._ends.get(block.type)
        return self._unread_end(block) if end is None else end(block, event.index)

    def _unread_delta(self, delta: Any) -> None:
        """Collect the pieces of a block that is not understood, by the name of their field."""
        for name, piece in delta.to_dict(warnings=False).items():
            if name != "type" and isinstance(piece, str):
                self._pending_size.add(piece)
                self._unread.setdefault(name, []).append(piece)

    def _unread_end(self, block: Any) -> MaybeEvent:
        self._spoke = True
        data = block.to_dict(warnings=False)
        pieces = {name: "".join(texts) for name, texts in self._unread.items()}
        self._unread = {}
        if written := pieces.pop("partial_json", ""):
            with suppress(msgspec.DecodeError, UnicodeError):
                data["input"] = loads(written)
        for name, text in pieces.items():
            before = data.get(name)
            data[name] = before + text if isinstance(before, str) else text
        keep = Opaque if _OWN_BLOCKS.fullmatch(block.type) else keep_unknown_part
        return keep(origin=ORIGIN, kind=block.type, data=data)

    def _text(self, event: Any) -> MaybeEvent:
        text = event.delta.text
        return TextDelta(delta=text) if text else None

    def _add_citation(self, event: Any) -> MaybeEvent:
        citation = citation_of(event.delta.citation.to_dict(warnings=False))
        self._pending_size.add(citation.quote or "", _BLOCK)
        self._citations.append(citation)
        return None

    def _text_end(self, block: Any, index: int) -> MaybeEvent:
        self._after += self._citations
        self._citations = []
        return ContentBlockStop()

    def _thinking(self, event: Any) -> MaybeEvent:
        text = event.delta.thinking
        return ReasoningDelta(delta=text) if text else None

    def _add_signature(self, event: Any) -> MaybeEvent:
        self._pending_size.add(event.delta.signature)
        self._signature.append(event.delta.signature)
        return None

    def _thinking_end(self, block: Any, index: int) -> MaybeEvent:
        return ReasoningDone(origin=ORIGIN, signature="".join(self._signature) or None)

    def _end_redacted(self, block: Any, index: int) -> MaybeEvent:
        return ReasoningDone(origin=ORIGIN, encrypted=block.data)

    def _arguments(self, event: Any) -> MaybeEvent:
        written = event.delta.partial_json
        block = self._blocks.get(event.index)
        if not written or block is None or block.type != "tool_use":
            return None
        self._written.add(event.index)
        return ToolCallDelta(id=block.id, args_delta=written)

    def _call_end(self, block: Any, index: int) -> MaybeEvent:
        # Some gateways send a call's arguments at once instead of in pieces.
        if index in self._written or not block.input:
            return None
        return ToolCallDelta(id=block.id, args_delta=dumps_text(block.input))


def _count(usage: Any, name: str) -> int | None:
    # Gateways may leave a field out; the SDK's object then has no such attribute.
    return parse_count(getattr(usage, name, None))


def _refusal(details: Any) -> str:
    category = getattr(details, "category", None)
    explanation = getattr(details, "explanation", None)
    said = explanation or "the model refused to answer"
    return f"{said} ({category})" if category else said
