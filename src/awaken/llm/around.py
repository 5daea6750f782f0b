"""An executor around another: what it is called and what it can do is the inner one's."""

from __future__ import annotations

from typing import Generic, TypeVar

from awaken.contract.llm import LlmExecutor, ModelAbilities, abilities_of

E = TypeVar("E", bound=LlmExecutor)


class Around(Generic[E]):
    """The base of executors that wrap one."""

    def __init__(self, inner: E) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return abilities_of(self._inner, upstream_model)
