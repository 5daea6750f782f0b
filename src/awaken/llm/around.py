"""The base of executors that wrap another; name and abilities are those of the inner one."""

from __future__ import annotations

from typing import Generic, TypeVar

from awaken.contract.llm import AnswerSource, ModelAbilities, abilities_of

E = TypeVar("E", bound=AnswerSource)


class Around(Generic[E]):
    """Wraps an executor."""

    def __init__(self, inner: E) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return abilities_of(self._inner, upstream_model)
