"""Tools that are offered only where nobody else brings one of their name."""

from __future__ import annotations

import itertools

import pytest

from awaken import Registrar, tool
from awaken.core.tool_context import Tool
from awaken.errors import ToolAlreadyRegistered
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.hook import Plugin


def looking(what: str) -> Tool:
    @tool
    async def look() -> str:
        """Look."""
        return what

    return look


class Brings:
    """A plugin with one tool."""

    def __init__(self, tool: Tool, *, spare: bool) -> None:
        self.id = f"brings {id(tool)}"
        self.tool, self.spare = tool, spare

    def register(self, registrar: Registrar) -> None:
        registrar.tool(self.tool, spare=self.spare)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_spare_tool_gives_way_whoever_comes_first(order: tuple[int, ...]) -> None:
    own = Brings(looking("own"), spare=False)
    brought = [own, Brings(looking("one"), spare=True), Brings(looking("two"), spare=True)]
    plugins: list[Plugin] = [brought[place] for place in order]

    env = ExecutionEnv.from_plugins(plugins)

    assert env.tools == {"look": own.tool}
    assert env.spare_tools == frozenset()


def test_of_two_spare_tools_the_first_is_kept() -> None:
    one, two = Brings(looking("one"), spare=True), Brings(looking("two"), spare=True)

    env = ExecutionEnv.from_plugins([one, two])

    assert env.tools == {"look": one.tool}
    assert env.spare_tools == {"look"}


def test_two_tools_that_are_not_spare_collide() -> None:
    one, two = Brings(looking("one"), spare=False), Brings(looking("two"), spare=False)
    spare: Plugin = Brings(looking("spare"), spare=True)

    with pytest.raises(ToolAlreadyRegistered):
        ExecutionEnv.from_plugins([one, spare, two])
