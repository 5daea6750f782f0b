"""Tool sets: the laws of their methods, and what goes wrong (08 §1)."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken import Agent, tool
from awaken.core.tool import ToolEffect
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError
from awaken.toolsets import Toolset, toolset

WORDS = st.text("abc_", min_size=1, max_size=4)
PATTERNS = st.text("abc_*?", min_size=1, max_size=4).map(lambda text: text + "*")


def make_tool(name: str) -> Tool:
    def act(n: int) -> int:
        """Act."""
        return n

    return tool(act, name=name)


@st.composite
def sets(draw: Any) -> Toolset:
    names = draw(st.lists(WORDS, unique=True, max_size=5))
    return Toolset(draw(WORDS), [make_tool(name) for name in names])


def list_offers(one: Toolset) -> list[tuple[str, Any, Any, bool]]:
    return [(tool.id, tool.inner, tool.traits, tool.asks) for tool in one.tools]


# -- laws -------------------------------------------------------------------------------------


@given(sets(), PATTERNS, WORDS)
def test_filters_and_prefixes_change_places(crm: Toolset, pattern: str, prefix: str) -> None:
    """08/EX-1"""
    filtered = crm.only(pattern).prefixed(prefix)
    assert list_offers(filtered) == list_offers(crm.prefixed(prefix).only(prefix + pattern))
    left = crm.without(pattern).prefixed(prefix)
    assert list_offers(left) == list_offers(crm.prefixed(prefix).without(prefix + pattern))


@given(sets(), PATTERNS)
def test_only_and_without_part_a_set(crm: Toolset, pattern: str) -> None:
    """08/EX-1"""
    chosen, rest = crm.only(pattern), crm.without(pattern)
    assert chosen.names == tuple(name for name in crm.names if fnmatchcase(name, pattern))
    assert set(chosen.names) | set(rest.names) == set(crm.names)
    assert not set(chosen.names) & set(rest.names)
    assert list_offers(chosen.only(pattern)) == list_offers(chosen)


@given(sets(), sets(), WORDS)
def test_a_sum_offers_each_tool_once(one: Toolset, two: Toolset, prefix: str) -> None:
    """08/EX-1"""
    apart = two.prefixed(f"{prefix}-")
    both = one + apart
    assert list_offers(both) == list_offers(one) + list_offers(apart)
    assert list_offers(both + one) == list_offers(both + apart) == list_offers(both)


@given(sets(), PATTERNS, WORDS)
def test_other_changes_keep_the_names_and_rename_keeps_the_rest(
    crm: Toolset, pattern: str, word: str
) -> None:
    """08/EX-1"""
    for changed in (
        crm.asking(pattern),
        crm.effects({pattern: "read"}),
        crm.timeout(3),
        crm.described(dict.fromkeys(crm.names, "told")),
    ):
        assert changed.names == crm.names
    back = crm.renamed({name: f"{name}.x" for name in crm.names})
    assert list_offers(back.renamed({f"{name}.x": name for name in crm.names})) == list_offers(crm)


def test_a_change_is_seen_in_the_new_set_alone() -> None:
    find, delete = make_tool("find"), make_tool("delete")
    crm = Toolset("crm", [find, delete])
    changed = crm.effects({"*": "once", "f*": "read"}).asking("del*").timeout(5)

    first, second = changed.described({"find": "Look up."}).tools
    assert (first.traits.effect, second.traits.effect) == (ToolEffect.READ, ToolEffect.ONCE)
    assert (first.asks, second.asks, second.traits.timeout) == (False, True, 5)
    assert first.descriptor().description == "Look up."
    assert [tool.descriptor().description for tool in crm.tools] == ["Act.", "Act."]
    assert not any(tool.asks or tool.traits.timeout for tool in crm.tools)
    assert first.descriptor().matches("set:crm")
    assert not find.descriptor().matches("set:crm")


# -- mistakes ---------------------------------------------------------------------------------

CRM = Toolset("crm", [make_tool("find")])


def untyped(value: object) -> Any:
    return value


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: CRM + Toolset("shop", [make_tool("find")]),
            "toolset 'crm' and toolset 'shop' both have a tool named 'find': rename one with "
            "renamed({…}), or all of a set with prefixed('…')",
        ),
        (
            lambda: Agent("desk", model="demo", tools=[make_tool("find"), CRM]),
            "agent 'desk' has two tools named 'find', from the agent's other tools and toolset "
            "'crm': rename one, as in tool(function, name='…') or toolset.prefixed('…')",
        ),
        (lambda: CRM.without("fnd"), "toolset 'crm' has no tool 'fnd': it has 'find'"),
        (lambda: CRM.renamed({"fnd": "x"}), "toolset 'crm' has no tool 'fnd': it has 'find'"),
        (lambda: CRM.prefixed("a b"), "'a bfind' cannot be a tool's name"),
        (lambda: CRM.timeout(0), "toolset 'crm': timeout 0 is not above 0 seconds"),
        (lambda: CRM.effects({"*": "rad"}), "effect is one of 'read', 'idempotent', 'once'"),
        (
            lambda: Toolset("crm", untyped("find")),
            "is made of a list of tools, not 'find'",
        ),
        (lambda: Toolset("crm", untyped(["find"])), "toolset 'crm': 'find' is not a tool"),
        (lambda: toolset(lambda run: []), "'<lambda>' cannot be a toolset's name"),
        (
            lambda: toolset(name="shop")(lambda: []),  # type: ignore[misc,arg-type]
            "toolset 'shop' is a function of the run",
        ),
    ],
)
def test_a_mistake_is_an_error_when_the_set_is_made(make: Callable[[], Any], told: str) -> None:
    """08/EX-2: a clash names both sets."""
    with pytest.raises(ConfigError) as raised:
        make()
    assert told in str(raised.value)
