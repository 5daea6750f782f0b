"""Changes to an agent for a while, in code that one does not own."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awaken.runtime.agent import Agent


class Changed:
    """An agent with changes, and the dependencies that its runs get."""

    __slots__ = ("agent", "deps")

    def __init__(self, agent: Agent[Any, Any], deps: Any) -> None:
        self.agent, self.deps = agent, deps


_NOTHING: Mapping[str, Changed] = MappingProxyType({})
OVERRIDES: ContextVar[Mapping[str, Changed]] = ContextVar("awaken_overrides", default=_NOTHING)
"""The changed agents of the running code, by agent id; tasks that it starts inherit them."""


class Override:
    """A context manager, for `with` and `async with`: within its block, and in the tasks started
    there, runs of an agent use the changed one."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._tokens: list[Token[Mapping[str, Changed]]] = []

    def __enter__(self) -> None:
        now = {**OVERRIDES.get(), self._changed.agent.id: self._changed}
        self._tokens.append(OVERRIDES.set(now))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        OVERRIDES.reset(self._tokens.pop())

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)
