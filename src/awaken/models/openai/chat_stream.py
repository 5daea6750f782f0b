"""Reading the chunks of a chat completion. No I/O.

Servers differ in nearly everything here, so the reader accepts every known form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.codec import dumps_text
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import (
    ContentFiltered,
    LlmStreamEvent,
    ProviderError,
    ReasoningDone,
    Stop,
    ToolCallSigned,
    Usage,
)
from awaken.core.message import Citation
from awaken.ids import UUID7, Ids
from awaken.models.openai.chat_request import (
    CUSTOM_CALL,
    PICTURE,
    REASONING_FIELDS,
    THINKING_PARTS,
)
from awaken.models.openai.content import citation_of
from awaken.models.openai.errors import early_end_error, parse_stream_error
from awaken.models.openai.think_tags import Found, ThinkTags
from awaken.models.parsing import find_count, keep_unknown_part
from awaken.models.response_limits import PendingSize

_STOPS = {
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "stop_sequence": StopReason.STOP_SEQUENCE,
}


TAGGED = "<think>"
"""Marks reasoning that came between tags; it is not sent back, as the makers of such models
advise."""

_GROWING = ("text", "summary", "data")
_DETAIL, _CALL = 256, 4096
"""The overhead in bytes of a detail of reasoning, and of a call."""


class _Pieces(list[str]):
    """The pieces of an unfinished text."""


class _StreamedCall(msgspec.Struct, gc=False):
    """An unfinished call; its events begin once its name is known."""

    id: str
    given: str
    told: bool = False
    early: list[str] = msgspec.field(default_factory=list)


class ChatReader:
    """Chunks in, our events out.

    Args:
        origin: the provider, as the origin of its reasoning.
        names: the tools' own names, by their names on the wire.
        think_tags: whether reasoning may stand in the text, between tags.
    """

    def __init__(
        self,
        origin: str,
        names: Mapping[str, str] | None = None,
        ids: Ids = UUID7,
        *,
        think_tags: bool = True,
    ) -> None:
        self._origin, self._names, self._ids = origin, names or {}, ids
        self._tags = ThinkTags() if think_tags else None
        self._out: list[LlmStreamEvent] = []
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int, _StreamedCall] = {}
        self._custom: dict[int, dict[str, Any]] = {}
        self._field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._refusal: list[str] = []
        self._citations: list[Citation] = []
        self._pending_size = PendingSize()
        self._usage: TokenUsage | None = None
        self._finish: str | None = None
        self._spoke = self._kept = False

    @property
    def done(self) -> bool:
        """Whether the answer is complete; only usage may still follow."""
        return self._finish is not None

    def read(self, chunk: Any) -> list[LlmStreamEvent]:
        """The events of a chunk; the list is reused for the next one.

        Raises:
            InferenceExecutionError: the chunk reports that the answer failed.
        """
        out = self._out
        out.clear()
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or choice.get("message")
            if delta:
                self._delta(delta)
            if choice.get("error"):
                raise parse_stream_error(choice["error"], "the provider gave up on the answer")
            self._finish = choice.get("finish_reason") or self._finish
        # Groq reports usage in a field of its own.
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage")
        if usage:
            self._usage = usage_of(usage)
        return out

    def read_whole(self, answer: Any) -> list[LlmStreamEvent]:
        """The events of an answer that was not streamed.

        Raises:
            InferenceExecutionError: the answer reports that it failed.
        """
        return self.read(answer)

    def finish(self, *, complete: bool = False) -> list[LlmStreamEvent]:
        """The remaining events at the end of the stream.

        Args:
            complete: whether the server has marked the end. With usage before it, the answer is
                complete even if the server gave no reason to finish, as some never do.

        Raises:
            ProviderError: the stream ended too early.
            ContentFiltered: the provider's filter stopped the answer.
        """
        if self._finish is None and not (complete and self._usage is not None):
            raise early_end_error()
        if self._finish == "error":
            raise ProviderError("the provider gave up on the answer")
        out = self._out
        out.clear()
        if self._tags is not None:
            self._emit_found(self._tags.flush())
        self._end_reasoning()
        for call in self._calls:
            if not call.told:  # the call has no name; the listener drops it
                out.append(ToolCallDelta(id=call.id, args_delta="".join(call.early)))
        for custom in self._custom.values():
            self._emit_unknown_part(CUSTOM_CALL, custom)
        refusal = "".join(self._refusal)
        said = self._spoke or self._calls or self._kept
        if self._finish == "content_filter" or (refusal and not said):
            raise ContentFiltered(refusal or "the provider stopped the answer")
        if refusal:
            out.append(TextDelta(delta=refusal))
        out += self._citations
        if self._usage is not None:
            out.append(Usage(usage=self._usage))
        out.append(Stop(reason=self._stop()))
        return out

    def _stop(self) -> StopReason:
        reason = _STOPS.get(self._finish or "", StopReason.END_TURN)
        # Some servers always say `stop`, some say `tool_calls` without any calls.
        if self._calls and reason is StopReason.END_TURN:
            return StopReason.TOOL_USE
        if not self._calls and reason is StopReason.TOOL_USE:
            return StopReason.END_TURN
        return reason

    # -- one delta ----------------------------------------------------------------------------

    def _delta(self, delta: Mapping[str, Any]) -> None:
        text = delta.get("content")
        only_text = text and len(delta) == 1
        if not only_text:
            self._reasoning(delta)
        if text:
            if type(text) is str:
                self._text(text)
            else:
                self._parts(text)
        if not only_text:
            for call in delta.get("tool_calls") or ():
                if "custom" in call:
                    self._custom_call(call)
                else:
                    self._call(call)
            for note in delta.get("annotations") or ():
                self._pending_size.add("", _DETAIL)
                self._citations.append(citation_of(self._origin, note))
            for picture in delta.get("images") or ():
                self._emit_unknown_part(PICTURE, picture)
            if refusal := delta.get("refusal"):
                self._pending_size.add(refusal)
                self._refusal.append(refusal)

    def _text(self, text: str) -> None:
        if self._tags is not None:
            self._emit_found(self._tags.feed(text))
            if self._tags.ended:
                self._tags = None
            return
        self._emit_text(text)

    def _emit_found(self, found: list[Found]) -> None:
        for kind, text in found:
            if kind == "text":
                self._emit_text(text)
            else:
                self._reason(text, TAGGED)

    def _emit_text(self, text: str) -> None:
        if self._field is not None:
            self._end_reasoning()
        self._spoke = True
        self._out.append(TextDelta(delta=text))

    def _parts(self, parts: Any) -> None:
        """Content in parts, as Mistral's models send it."""
        for part in parts:
            if part.get("type") == "thinking":
                for inner in part.get("thinking") or ():
                    self._reason(inner.get("text") or "", THINKING_PARTS)
            elif isinstance(text := part.get("text"), str):
                self._text(text)
            else:
                self._emit_unknown_part(part.get("type") or "part", part)

    def _emit_unknown_part(self, kind: str, part: Any) -> None:
        if self._field is not None:
            self._end_reasoning()
        self._kept = True
        self._out.append(keep_unknown_part(self._origin, kind, part))

    # -- reasoning ----------------------------------------------------------------------------

    def _reasoning(self, delta: Mapping[str, Any]) -> None:
        for field in REASONING_FIELDS:
            if reasoning := delta.get(field):
                self._reason(reasoning, field)
                break  # servers that fill both fields write the same text in both
        if details := delta.get("reasoning_details"):
            self._detail(details)

    def _reason(self, text: str, field: str) -> None:
        self._field = field
        self._out.append(ReasoningDelta(delta=text))

    def _detail(self, details: list[dict[str, Any]]) -> None:
        """OpenRouter's form of reasoning; pieces with the same index and type belong together."""
        for piece in details:
            last = self._details[-1] if self._details else None
            same = last is not None and all(
                last.get(key) == piece.get(key) for key in ("index", "type")
            )
            if last is None or not same:
                self._pending_size.add("", _DETAIL)
                self._details.append(last := {})
            for key, value in piece.items():
                if key in _GROWING and isinstance(value, str):
                    self._pending_size.add(value)
                    pieces = last.get(key)
                    if not isinstance(pieces, _Pieces):
                        pieces = last[key] = _Pieces()
                    pieces.append(value)
                elif value is not None or key not in last:
                    last[key] = value

    def _end_reasoning(self) -> None:
        if self._field is None and not self._details:
            return
        details = [
            {k: "".join(v) if isinstance(v, _Pieces) else v for k, v in one.items()}
            for one in self._details
        ]
        encrypted = dumps_text(details) if details else None
        done = ReasoningDone(origin=self._origin, signature=self._field, encrypted=encrypted)
        self._out.append(done)
        self._field, self._details = None, []

    # -- calls --------------------------------------------------------------------------------

    def _call(self, piece: Mapping[str, Any]) -> None:
        if self._field is not None:
            self._end_reasoning()
        function = piece.get("function") or {}
        name = function.get("name") or ""
        call = self._call_of(piece, name)
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = dumps_text(arguments)
        if call.told:
            if arguments:
                self._out.append(ToolCallDelta(id=call.id, args_delta=arguments))
        elif name:
            call.told = True
            self._out.append(ToolCallStart(id=call.id, name=self._names.get(name, name)))
            if early := "".join((*call.early, arguments)):
                self._out.append(ToolCallDelta(id=call.id, args_delta=early))
        else:
            self._pending_size.add(arguments)
            call.early.append(arguments)
        google = (piece.get("extra_content") or {}).get("google") or {}
        if signature := google.get("thought_signature"):
            self._out.append(ToolCallSigned(id=call.id, signature=signature))

    def _custom_call(self, piece: Mapping[str, Any]) -> None:
        """A call whose arguments are text and not JSON; no tool of ours has such calls."""
        index, said = piece.get("index") or 0, piece["custom"] or {}
        empty = {"type": "custom", "id": "", "custom": {"name": "", "input": ""}}
        whole = self._custom.setdefault(index, empty)
        whole["id"] = piece.get("id") or whole["id"]
        for name in ("name", "input"):
            self._pending_size.add(said.get(name) or "")
            whole["custom"][name] += said.get(name) or ""

    def _call_of(self, piece: Mapping[str, Any], name: str) -> _StreamedCall:
        """The call that a piece belongs to, by its index; without an index, a name begins a new
        call."""
        index, id = piece.get("index"), piece.get("id") or ""
        if index is not None:
            call = self._by_index.get(index)
        elif name or not self._calls:
            call = None
        else:
            call = next((call for call in self._calls if id and call.given == id), self._calls[-1])
        # Some servers give every call the index 0: a name with another id begins a new call, too.
        if call is None or (id and name and call.told and id != call.given):
            call = self._new_call(id)
            if index is not None:
                self._by_index[index] = call
        return call

    def _new_call(self, id: str) -> _StreamedCall:
        self._pending_size.add(id, _CALL)
        taken = any(call.id == id for call in self._calls)
        call = _StreamedCall(
            id if id and not taken else f"call_{self._ids.new().replace('-', '')}", id
        )
        self._calls.append(call)
        return call


# Names for cached tokens outside OpenAI's details: of DeepSeek; of Moonshot, Together and Hugging
# Face; and of Mistral.
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")


def usage_of(usage: Mapping[str, Any]) -> TokenUsage:
    """Token counts as for all providers: input includes cached tokens, output includes
    reasoning."""
    asked, answered = find_count(usage, "prompt_tokens"), find_count(usage, "completion_tokens")
    total, details = find_count(usage, "total_tokens"), usage.get("prompt_tokens_details")
    reasoning = find_count(usage.get("completion_tokens_details"), "reasoning_tokens")
    # xAI does not count reasoning as part of the answer; the total shows that.
    if reasoning and answered and total == (asked or 0) + answered + reasoning:
        answered += reasoning
    cached = find_count(details, "cached_tokens")
    return TokenUsage(
        prompt_tokens=asked,
        completion_tokens=answered,
        total_tokens=total,
        cache_read_tokens=cached if cached is not None else find_count(usage, *_CACHED),
        cache_creation_tokens=find_count(details, "cache_write_tokens"),
        thinking_tokens=reasoning,
    )
