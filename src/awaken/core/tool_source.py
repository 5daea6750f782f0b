"""Tools that are known only when a run begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from awaken.core.deps import RunInfo
from awaken.core.tool_context import Tool

OffersTools = Callable[[RunInfo, Mapping[str, Tool]], Awaitable[Mapping[str, Tool]]]


class ToolSource:
    """A service of an agent that has such tools: `offer` takes the run and the agent's other tools,
    and returns those for this run, by id and in the order in which the model reads them."""

    __slots__ = ("offer",)

    def __init__(self, offer: OffersTools) -> None:
        self.offer = offer
