"""Settings that a server refuses although the table of models says that it accepts them.

Models change faster than tables. So a refusal is remembered: the request is sent again without the
refused setting, and later requests leave it out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import msgspec

from awaken.codec import Json
from awaken.core.answer_stream import close
from awaken.core.llm import InferenceRequest, InvalidRequest, LlmExecutor, LlmStreamEvent
from awaken.models.wrapper import ExecutorWrapper, error_line

log = logging.getLogger("awaken.llm")

_NAMES = {
    "temperature": r"temperature",
    "top_p": r"top_?p\b",
    "seed": r"(random_)?seed\b",
    "parallel_tool_calls": r"(disable_)?parallel_tool_(calls|use)",
    "reasoning_effort": r"reasoning[._]effort|\beffort\b|thinking_?(budget|level)",
}
"""How servers call the settings without which an answer means the same."""
_IS_REFUSED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|deprecated|extra inputs"
    r"|not (allowed|permitted|available|enabled)|cannot be (set|used|specified)",
    re.IGNORECASE,
)
"""How servers say that they do not take a setting; they say otherwise that a value is wrong."""


class LearnedSettings(ExecutorWrapper[LlmExecutor]):
    """Wraps an executor, and leaves settings out that its server has refused, with one warning."""

    def __init__(self, inner: LlmExecutor) -> None:
        super().__init__(inner)
        self._refused: dict[str, set[str]] = {}

    def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        if request.overrides is None:
            return self._inner.execute_stream(request)
        asked = self._drop_refused(request)
        names = [name for name in _NAMES if getattr(asked.overrides, name, None) is not None]
        stream = self._inner.execute_stream(asked)
        if not names:
            return stream
        return retry_if_refused(stream, lambda error: self._learn(asked, names, str(error)))

    def preview(self, request: InferenceRequest) -> Json:
        return super().preview(self._drop_refused(request))

    def _drop_refused(self, request: InferenceRequest) -> InferenceRequest:
        """The request without the settings that its model has refused before."""
        refused = self._refused.get(request.upstream_model)
        if refused is None or request.overrides is None:
            return request
        kept = msgspec.structs.replace(request.overrides, **dict.fromkeys(refused))
        return msgspec.structs.replace(request, overrides=kept)

    def _learn(
        self, request: InferenceRequest, names: Sequence[str], told: str
    ) -> AsyncIterator[LlmStreamEvent] | None:
        """The answer to the request without the setting that the error names, if it names one."""
        if not _IS_REFUSED.search(told):
            return None
        for name in names:
            if re.search(_NAMES[name], told, re.IGNORECASE):
                model = request.upstream_model
                self._refused.setdefault(model, set()).add(name)
                log.warning(
                    "model %s refuses %s, which is left out now: %s", model, name, error_line(told)
                )
                return self.execute_stream(request)
        return None


async def retry_if_refused(
    stream: AsyncIterator[LlmStreamEvent],
    again: Callable[[InvalidRequest], AsyncIterator[LlmStreamEvent] | None],
) -> AsyncGenerator[LlmStreamEvent, None]:
    """The events of a stream. If the server refuses the request, `again` is called with the error,
    and the events are those of the stream that it returns, if any."""
    began = False
    try:
        async for event in stream:
            began = True
            yield event
        return
    except InvalidRequest as error:
        other = None if began else again(error)
        if other is None:
            raise
    finally:
        await close(stream)
    try:
        async for event in other:
            yield event
    finally:
        await close(other)
