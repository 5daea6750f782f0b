"""Models with prepared answers, for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import msgspec

from awaken.codec import Json
from awaken.core.answer_stream import stream_of
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.message import Text, ToolCall

ScriptedAnswer = StreamResult | str | Sequence[LlmStreamEvent]
"""A whole answer: a result, its text, or the events themselves."""

Response = ScriptedAnswer | Exception | Sequence[LlmStreamEvent | Exception]
"""An item of a script; an exception among events breaks the stream at its place."""

FunctionAnswer = ScriptedAnswer | Awaitable[ScriptedAnswer] | AsyncIterator[LlmStreamEvent]


# -- answers ----------------------------------------------------------------------------------


def text_response(text: str, usage: TokenUsage | None = None) -> StreamResult:
    """An answer of one text that ends the turn."""
    return _result(text, (), StopReason.END_TURN, usage)


def tool_call_response(text: str, tool: str, call_id: str, args: Json) -> StreamResult:
    """An answer of a text and one call."""
    return tool_calls_response(text, (tool, call_id, args))


def tool_calls_response(text: str, *calls: tuple[str, str, Json]) -> StreamResult:
    """An answer of a text and several calls, each `(tool, call_id, args)`."""
    made = tuple(ToolCall(id=id, name=tool, arguments=args) for tool, id, args in calls)
    return _result(text, made, StopReason.TOOL_USE)


def max_tokens_response(text: str) -> StreamResult:
    """An answer cut off at the token limit."""
    return _result(text, (), StopReason.MAX_TOKENS)


def _result(
    text: str, calls: tuple[ToolCall, ...], stop: StopReason, usage: TokenUsage | None = None
) -> StreamResult:
    return StreamResult(
        content=(Text(text=text),) if text else (),
        tool_calls=calls,
        usage=usage or TokenUsage(prompt_tokens=0, completion_tokens=0),
        stop_reason=stop,
    )


def _events_of(answer: ScriptedAnswer, chunk: int | None = None) -> Sequence[LlmStreamEvent]:
    if isinstance(answer, str):
        answer = text_response(answer)
    return stream_of(answer, chunk) if isinstance(answer, StreamResult) else answer


# -- models -----------------------------------------------------------------------------------


class ScriptedModel:
    """Gives the prepared responses in order, one for each call.

    `calls` counts the calls and, unless `record` is off, `requests` keeps the requests. If no
    response is left, the test is wrong: it raises `AssertionError`, which ends a run as
    `InferenceFailed`.
    """

    def __init__(
        self,
        responses: Iterable[Response],
        name: str = "scripted",
        *,
        chunk: int | None = None,
        record: bool = True,
    ) -> None:
        self.name = name
        self.calls = 0
        self.requests: list[InferenceRequest] = []
        self._record = record
        self._script = deque(_prepare_events(response, chunk) for response in responses)
        self._length = len(self._script)

    @property
    def remaining(self) -> int:
        """How many responses are left."""
        return len(self._script)

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.calls += 1
        if self._record:
            self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        if not self._script:
            raise AssertionError(
                f"scripted LLM exhausted: it had {self._length} responses, and "
                "another was asked for"
            )
        events, error = self._script.popleft()
        for event in events:
            yield event
        if error is not None:
            raise error


def _prepare_events(
    response: Response, chunk: int | None
) -> tuple[Sequence[LlmStreamEvent], Exception | None]:
    """The events of a scripted response, and the error after them or `None`."""
    if isinstance(response, Exception):
        return (), response
    if isinstance(response, str | StreamResult):
        return _events_of(response, chunk), None
    events: list[LlmStreamEvent] = []
    for item in response:
        if isinstance(item, Exception):
            return events, item
        events.append(item)
    return events, None


class FunctionModel:
    """Asks a function for each answer, so that it can depend on the conversation."""

    def __init__(
        self, fn: Callable[[InferenceRequest], FunctionAnswer], name: str = "function"
    ) -> None:
        self.name = name
        self.calls = 0
        self._fn = fn

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.calls += 1
        answer = self._fn(request)
        if isinstance(answer, AsyncIterator):
            try:
                async for event in answer:
                    yield event
            finally:
                close = getattr(answer, "aclose", None)
                if close is not None:
                    await close()
            return
        if isinstance(answer, Awaitable):
            answer = await answer
        for event in _events_of(answer):
            yield event
