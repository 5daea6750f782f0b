"""Reading a streamed answer: Gemini's chunks in, our events out. No I/O of its own.

A call's arguments may arrive in pieces, each with the JSON path of its place. `data_lines` gives
the SDK the lines of a response as the SDK can read them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from awaken.codec import dumps_text
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import (
    ContentFiltered,
    InferenceExecutionError,
    LlmStreamEvent,
    ProviderError,
    ReasoningDone,
    Stop,
    ToolCallSigned,
    Usage,
)
from awaken.core.message import Citation, Opaque
from awaken.ids import Ids
from awaken.models.google.contents import ORIGIN, opaque_data
from awaken.models.parsing import keep_unknown_part

if TYPE_CHECKING:
    from google.genai import types

_STOPS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.MAX_TOKENS,  # the answer is longer than one response may be
}
_FILTERED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
    }
)
# The model did what the request does not allow; asking again would lead to the same.
_WRONG = frozenset({"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})
_BOTCHED = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
    }
)


# Parts of tools that Google runs itself.
_OWN_PARTS = frozenset({"executable_code", "code_execution_result", "tool_call", "tool_response"})


class GeminiStream:
    """One answer: `read` every chunk, then `finish`.

    Args:
        names: the tools' own names, by their names on the wire.
    """

    def __init__(self, ids: Ids, names: Mapping[str, str]) -> None:
        self.began = False
        self._ids, self._names = ids, names
        self._response = ""
        self._calls = 0
        self._call_id = ""
        self._partial: PartialArguments | None = None
        self._said = False
        self._thinking = False
        self._usage: types.GenerateContentResponseUsageMetadata | None = None
        self._sources: types.GroundingMetadata | None = None
        self._finished: str | None = None
        self._why = ""

    @property
    def done(self) -> bool:
        """Whether the model has finished."""
        return self._finished is not None

    def read(self, chunk: types.GenerateContentResponse) -> list[LlmStreamEvent]:
        """The events of one chunk.

        Raises:
            ContentFiltered: the prompt was refused.
        """
        self.began = True
        events: list[LlmStreamEvent] = []
        if chunk.usage_metadata is not None:
            self._usage = chunk.usage_metadata
        if not chunk.candidates:
            self._check_refusal(chunk)
            return events
        candidate = chunk.candidates[0]
        if candidate.grounding_metadata is not None:
            self._sources = candidate.grounding_metadata
        if candidate.content is not None and candidate.content.parts:
            for part in candidate.content.parts:
                if part.thought:
                    self._on_thought(part, events)
                elif part.function_call is not None:
                    self._call(part, part.function_call, chunk.response_id, events)
                elif (data := opaque_data(part)) is not None:
                    self._opaque(data, events)
                else:
                    self._text(part, events)
        if candidate.finish_reason is not None:
            self._finished = candidate.finish_reason.value
            self._why = candidate.finish_message or ""
        return events

    def finish(self) -> Iterator[LlmStreamEvent]:
        """The last events.

        Raises:
            ProviderError: the stream was cut off, or the model's answer was malformed.
            InferenceExecutionError: the model called a tool that the request does not allow.
            ContentFiltered: the answer was refused.
        """
        if self._thinking:
            yield self._end_thought()
        if self.done:
            left: list[LlmStreamEvent] = []
            self._end_partial(left)
            yield from left
            if self._sources is not None:
                yield from _citations(self._sources)
        if self._usage is not None:
            yield Usage(usage=_tokens(self._usage))
        yield Stop(reason=self._stop_reason())

    def _text(self, part: types.Part, events: list[LlmStreamEvent]) -> None:
        if self._thinking:
            events.append(self._end_thought())
        if part.text:
            self._said = True
            events.append(TextDelta(delta=part.text))
        if part.thought_signature:
            events.append(ReasoningDone(origin=ORIGIN, signature=_signature(part)))

    def _opaque(self, data: dict[str, Any], events: list[LlmStreamEvent]) -> None:
        if self._thinking:
            events.append(self._end_thought())
        self._said = True
        kind = next(iter(data))
        keep = Opaque if kind in _OWN_PARTS else keep_unknown_part
        events.append(keep(origin=ORIGIN, kind=kind, data=data))

    def _on_thought(self, part: types.Part, events: list[LlmStreamEvent]) -> None:
        self._thinking = True
        if part.text:
            events.append(ReasoningDelta(delta=part.text))
        if part.thought_signature:
            events.append(self._end_thought(_signature(part)))

    def _end_thought(self, signature: str | None = None) -> ReasoningDone:
        self._thinking = False
        return ReasoningDone(origin=ORIGIN, signature=signature)

    def _call(
        self,
        part: types.Part,
        call: types.FunctionCall,
        response: str | None,
        events: list[LlmStreamEvent],
    ) -> None:
        if self._thinking:
            events.append(self._end_thought())
        if self._partial is None or call.name:
            self._end_partial(events)
            if not self._response:
                self._response = response or self._ids.new()
            self._call_id = call.id or f"{self._response}-{self._calls}"
            self._calls += 1
            name = call.name or ""
            events.append(ToolCallStart(id=self._call_id, name=self._names.get(name, name)))
            self._partial = PartialArguments(call.args)
        self._partial.add(call.partial_args or ())
        if not call.will_continue:
            self._end_partial(events)
        if part.thought_signature:
            events.append(ToolCallSigned(id=self._call_id, signature=_signature(part)))

    def _end_partial(self, events: list[LlmStreamEvent]) -> None:
        """Tell the arguments of the call that is open, if there is one."""
        if self._partial is not None:
            written = dumps_text(self._partial.values)
            events.append(ToolCallDelta(id=self._call_id, args_delta=written))
            self._partial = None

    def _check_refusal(self, chunk: types.GenerateContentResponse) -> None:
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            said = feedback.block_reason_message or ""
            raise ContentFiltered(
                _failure_text("the prompt was blocked", feedback.block_reason.value, said)
            )

    def _stop_reason(self) -> StopReason:
        finished = self._finished
        if finished is None:
            raise ProviderError("stream ended early: connection reset before the answer was over")
        if finished in _BOTCHED:
            raise ProviderError(_failure_text("the model botched its answer", finished, self._why))
        if finished in _WRONG:
            raise InferenceExecutionError(
                _failure_text("the model called a tool that it may not call", finished, self._why)
            )
        if finished in _FILTERED:
            raise ContentFiltered(_failure_text("the answer was stopped", finished, self._why))
        if finished not in _STOPS and not (self._said or self._calls):
            raise ProviderError(
                _failure_text("the model stopped without an answer", finished, self._why)
            )
        reason = _STOPS.get(finished, StopReason.END_TURN)
        if self._calls and reason is StopReason.END_TURN:
            return StopReason.TOOL_USE
        return reason


def _citations(sources: types.GroundingMetadata) -> Iterator[Citation]:
    """A citation for each source of each supported piece of the text.

    Google's positions count bytes and not characters, so they are only in `data`.
    """
    chunks = sources.grounding_chunks or []
    for support in sources.grounding_supports or ():
        for index in support.grounding_chunk_indices or ():
            found = chunks[index].web if index < len(chunks) else None
            yield Citation(
                origin=ORIGIN,
                data=support.model_dump(mode="json", exclude_none=True),
                url=found.uri if found is not None else None,
                title=found.title if found is not None else None,
            )


def _failure_text(what: str, code: str, why: str) -> str:
    return f"{what} ({code}): {why}" if why else f"{what} ({code})"


def _signature(part: types.Part) -> str:
    return b64encode(part.thought_signature or b"").decode()


def _tokens(usage: types.GenerateContentResponseUsageMetadata) -> TokenUsage:
    """The token counts, including those that Gemini counts separately: thoughts, and results of its
    own tools."""
    return TokenUsage(
        prompt_tokens=_sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
        completion_tokens=_sum(usage.candidates_token_count, usage.thoughts_token_count),
        total_tokens=usage.total_token_count,
        cache_read_tokens=usage.cached_content_token_count,
        thinking_tokens=usage.thoughts_token_count,
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


# -- arguments that arrive in pieces ----------------------------------------------------------


_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class PartialArguments:
    """The arguments of one call, while they arrive."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self.values: dict[str, Any] = dict(known or {})
        self._growing: str | None = None

    def add(self, pieces: Iterable[types.PartialArg]) -> None:
        """Add the next pieces; a text may have several."""
        for piece in pieces:
            path = piece.json_path or "$"
            value = _value(piece)
            if self._growing == path and isinstance(value, str):
                value = self._at(path) + value
            self._put(path, value)
            self._growing = path if piece.will_continue else None

    def _at(self, path: str) -> Any:
        found: Any = self.values
        for step in _steps(path):
            found = found[step]
        return found

    def _put(self, path: str, value: Any) -> None:
        steps = _steps(path)
        if not steps:
            return
        place: Any = self.values
        for step, following in pairwise(steps):
            place = _enter_step(place, step, [] if isinstance(following, int) else {})
        _enter_step(place, steps[-1], value)
        place[steps[-1]] = value


def _enter_step(place: Any, step: str | int, empty: Any) -> Any:
    """The value at a step of the path, which is made if it does not exist yet."""
    if isinstance(step, int):
        place += [None] * (step + 1 - len(place))
        if place[step] is None:
            place[step] = empty
    else:
        place.setdefault(step, empty)
    return place[step]


def _steps(path: str) -> list[str | int]:
    return [
        int(index) if index else name or single or double
        for name, index, single, double in _STEP.findall(path)
    ]


def _value(piece: types.PartialArg) -> Any:
    if piece.string_value is not None:
        return piece.string_value
    if piece.number_value is not None:
        number = piece.number_value
        return int(number) if number.is_integer() else number
    return piece.bool_value


# -- the lines of a response ------------------------------------------------------------------


_END = re.compile(rb"\r\n|\r|\n")
_NO_DATA = re.compile(rb":|(event|id|retry)(:|$)")


async def data_lines(response: Any) -> None:
    """A response hook for the SDK's HTTP client: only data, and only lines of server-sent events.

    The SDK's HTTP library also ends a line at characters that may stand in JSON, such as U+2028.
    The SDK itself takes comments and other fields of server-sent events for broken JSON.
    """

    async def aiter_lines() -> AsyncGenerator[str, None]:
        held: list[bytes] = []
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                held.append(chunk)
                if _END.search(chunk):
                    whole = b"".join(held)
                    # A `\r` at the end may be half of a `\r\n`.
                    half = whole[-1:] if whole.endswith(b"\r") else b""
                    *lines, rest = _END.split(whole[: len(whole) - len(half)])
                    held = [rest + half]
                    for line in _data(lines):
                        yield line
        for line in _data(_END.split(b"".join(held))):
            yield line

    response.aiter_lines = aiter_lines


def _data(lines: list[bytes]) -> Iterator[str]:
    """The lines with data, and those that end an event; the SDK looks for a space after `data:`."""
    for line in lines:
        if not _NO_DATA.match(line):
            text = line.decode(errors="replace")
            yield f"data: {text[5:].removeprefix(' ')}" if text.startswith("data:") else text
