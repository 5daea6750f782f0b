"""The base of executors that wrap another; name and abilities are those of the inner one."""

from __future__ import annotations

from typing import Generic, TypeVar

from awaken.codec import Json, one_line
from awaken.core.llm import (
    AnswerSource,
    InferenceRequest,
    ModelAbilities,
    abilities_of,
    preview_of,
)

E = TypeVar("E", bound=AnswerSource)

_MAX_LINE_CHARS = 500


class ExecutorWrapper(Generic[E]):
    """Base of an executor that wraps another; name and abilities come from the inner one."""

    def __init__(self, inner: E) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return abilities_of(self._inner, upstream_model)

    def preview(self, request: InferenceRequest) -> Json:
        """The body for the provider; see `preview_of`."""
        return preview_of(self._inner, request)


def error_line(error: object) -> str:
    """The text of an error for the log: one line without control characters. The text is partly
    the provider's, or that of another program at its address."""
    return one_line(str(error), _MAX_LINE_CHARS)
