"""Reading the events of a streamed response. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import (
    ContentBlockStop,
    ContentFiltered,
    LlmStreamEvent,
    ReasoningDone,
    Stop,
    Usage,
)
from awaken.core.message import Opaque
from awaken.models.openai.content import citation_of
from awaken.models.openai.errors import early_end_error, stream_error
from awaken.models.openai.responses_request import PHASE
from awaken.models.parsing import find_count, keep_unknown_part
from awaken.models.response_limits import PendingSize

JsonObject = dict[str, Any]


# Items of tools that the provider runs itself.
_OWN_TOOLS = frozenset({"web_search_call", "code_interpreter_call", "file_search_call"})


class _StreamedCall(msgspec.Struct, gc=False):
    id: str
    written: bool = False


class ResponsesReader:
    """Events in, our events out.

    Args:
        origin: the provider, as the origin of its reasoning.
        names: the tools' own names, by their names on the wire.
    """

    def __init__(self, origin: str, names: Mapping[str, str] | None = None) -> None:
        self._origin, self._names = origin, names or {}
        self._out: list[LlmStreamEvent] = []
        self._calls: dict[int | str, _StreamedCall] = {}
        self._refusal: list[str] = []
        self._held = PendingSize()
        self._end: JsonObject | None = None
        # Whether the unfinished item has had any text, or reasoning, and the kind of its reasoning.
        self._spoke = self._thought = False
        self._kind: str | None = None
        self._thinking: JsonObject = {}
        self._closed: set[object] = set()
        self._said = self._kept = False

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return self._end is not None

    def read(self, event: Any) -> list[LlmStreamEvent]:
        """Our events for one of the provider's; the list is reused for the next one.

        Raises:
            InferenceExecutionError: the event reports that the answer failed.
        """
        self._out.clear()
        handle = self._HANDLERS.get(event["type"])
        if handle is not None:
            handle(self, event)
        return self._out

    def read_whole(self, answer: Any) -> list[LlmStreamEvent]:
        """The events of an answer that was not streamed; most of them come with `finish`.

        Raises:
            InferenceExecutionError: the answer reports that it failed.
        """
        failed = answer.get("status") == "failed"
        end = "response.failed" if failed else "response.completed"
        return self.read({"type": end, "response": answer})

    def finish(self, *, complete: bool = False) -> list[LlmStreamEvent]:
        """The remaining events at the end of the stream; its last event says if it is `complete`.

        Raises:
            ProviderError: the stream ended too early.
            ContentFiltered: the provider's filter stopped the answer.
        """
        response = self._end
        if response is None:
            raise early_end_error()
        out = self._out
        out.clear()
        if not (self._said or self._calls or self._kept):
            # Some proxies send the answer only in the last event.
            for index, item in enumerate(response.get("output") or ()):
                self._item_done({"output_index": index, "item": item})
        reason = (response.get("incomplete_details") or {}).get("reason")
        refusal = "".join(self._refusal)
        if reason == "content_filter" or (refusal and not (self._said or self._calls)):
            raise ContentFiltered(refusal or "the provider stopped the answer")
        if refusal:
            out.append(TextDelta(delta=refusal))
        if usage := response.get("usage"):
            out.append(Usage(usage=usage_of(usage)))
        if reason == "max_output_tokens" or (response.get("status") == "incomplete" and not reason):
            out.append(Stop(reason=StopReason.MAX_TOKENS))
        else:
            stop = StopReason.TOOL_USE if self._calls else StopReason.END_TURN
            out.append(Stop(reason=stop))
        return out

    # -- pieces -------------------------------------------------------------------------------

    def _text(self, event: JsonObject) -> None:
        if self._thought:
            self._close_thought()
        self._spoke = self._said = True
        self._out.append(TextDelta(delta=event["delta"]))

    def _reasoning(self, event: JsonObject) -> None:
        kind = event["type"]
        if self._kind not in (None, kind):
            return  # OpenRouter sends the same reasoning as text and as a summary
        self._kind, self._thought, self._thinking = kind, True, event
        self._out.append(ReasoningDelta(delta=event["delta"]))

    def _next_summary(self, event: JsonObject) -> None:
        if self._thought:
            self._out.append(ReasoningDelta(delta="\n\n"))

    def _arguments(self, event: JsonObject) -> None:
        call = self._calls[_item_key(event)]
        call.written = True
        self._out.append(ToolCallDelta(id=call.id, args_delta=event["delta"]))

    def _refuse(self, event: JsonObject) -> None:
        self._held.add(event["delta"])
        self._refusal.append(event["delta"])

    # -- items --------------------------------------------------------------------------------

    def _item_added(self, event: JsonObject) -> None:
        if self._thought:
            self._close_thought()
        self._spoke = False
        item = event["item"]
        if item["type"] == "function_call":
            self._start_call(_item_key(event), item)

    def _item_done(self, event: JsonObject) -> None:
        item = event["item"]
        end = self._ENDS.get(item["type"])
        if end is not None:
            end(self, _item_key(event), item)
        else:
            self._kept = True
            kind = item["type"]
            keep = Opaque if kind in _OWN_TOOLS else keep_unknown_part
            self._out.append(keep(origin=self._origin, kind=kind, data=item))

    def _start_call(self, place: int | str, item: JsonObject) -> _StreamedCall:
        call = self._calls[place] = _StreamedCall(item["call_id"])
        name = item["name"]
        self._out.append(ToolCallStart(id=call.id, name=self._names.get(name, name)))
        return call

    def _end_call(self, place: int | str, item: JsonObject) -> None:
        call = self._calls.get(place) or self._start_call(place, item)
        if not call.written and item.get("arguments"):
            call.written = True
            self._out.append(ToolCallDelta(id=call.id, args_delta=item["arguments"]))

    def _end_message(self, place: int | str, item: JsonObject) -> None:
        if not self._spoke:
            for part in item.get("content") or ():
                if part.get("type") == "output_text" and part.get("text"):
                    self._text({"delta": part["text"]})
        if self._spoke:
            self._out.append(ContentBlockStop())
            if phase := item.get("phase"):
                self._out.append(Opaque(origin=self._origin, kind=PHASE, data=phase))
            for part in item.get("content") or ():
                for note in part.get("annotations") or ():
                    self._out.append(citation_of(self._origin, note))
        self._spoke = False

    def _close_thought(self) -> None:
        """End reasoning whose item is still open: OpenRouter ends it only after the answer."""
        event = self._thinking
        self._closed |= {event.get("output_index"), event.get("item_id")} - {None}
        self._thought, self._kind = False, None
        self._out.append(ReasoningDone(origin=self._origin, id=event.get("item_id")))

    def _end_reasoning(self, place: int | str, item: JsonObject) -> None:
        if place in self._closed or item.get("id") in self._closed:
            return
        if not self._thought:
            parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            if text := "\n\n".join(part["text"] for part in parts):
                self._out.append(ReasoningDelta(delta=text))
        self._out.append(
            ReasoningDone(
                origin=self._origin,
                id=item.get("id"),
                # Its position among the calls, which are stored apart from the rest of the answer.
                signature=str(len(self._calls)) if self._calls else None,
                encrypted=item.get("encrypted_content"),
            )
        )
        self._thought, self._kind = False, None

    # -- ends ---------------------------------------------------------------------------------

    def _on_end(self, event: JsonObject) -> None:
        self._end = event["response"]

    def _on_failure(self, event: JsonObject) -> None:
        error = event["response"].get("error") or {}
        raise stream_error(
            error.get("code") or "",
            error.get("type") or "",
            error.get("message") or "the provider gave up on the answer",
        )

    def _on_error(self, event: JsonObject) -> None:
        message = event.get("message") or "the provider gave up on the answer"
        raise stream_error(event.get("code") or "", "", message)

    _ENDS: ClassVar[Mapping[str, Callable[[ResponsesReader, int | str, JsonObject], None]]] = {
        "function_call": _end_call,
        "message": _end_message,
        "reasoning": _end_reasoning,
    }
    _HANDLERS: ClassVar[Mapping[str, Callable[[ResponsesReader, JsonObject], None]]] = {
        "response.output_text.delta": _text,
        "response.function_call_arguments.delta": _arguments,
        "response.reasoning_summary_text.delta": _reasoning,
        "response.reasoning_text.delta": _reasoning,
        "response.reasoning_summary_part.added": _next_summary,
        "response.refusal.delta": _refuse,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.completed": _on_end,
        "response.incomplete": _on_end,
        "response.failed": _on_failure,
        "error": _on_error,
    }


def usage_of(usage: Mapping[str, Any]) -> TokenUsage:
    asked = usage.get("input_tokens_details")
    return TokenUsage(
        prompt_tokens=find_count(usage, "input_tokens"),
        completion_tokens=find_count(usage, "output_tokens"),
        total_tokens=find_count(usage, "total_tokens"),
        cache_read_tokens=find_count(asked, "cached_tokens"),
        cache_creation_tokens=find_count(asked, "cache_write_tokens"),
        thinking_tokens=find_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def _item_key(event: JsonObject) -> int | str:
    """The item that an event is about, by index, or by id because llama.cpp sends no index."""
    place: int | str | None = event.get("output_index")
    return place if place is not None else str(event.get("item_id") or event["item"]["id"])
