"""Which tools an agent sees (01 §5.1, R-2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.codec import Json
from awaken.core.spec import AgentSpec, ToolSelection
from awaken.errors import ConfigError

TOOLS = ["read_file", "write_file", "web_search", "a*b", "a\\b", "axb"]


def visible(**fields: Json) -> set[str]:
    spec = AgentSpec.read({"id": "a", "model_id": "m", "system_prompt": "", **fields})
    return spec.tool_selection.visible(TOOLS)


def test_without_any_list_all_tools_are_visible() -> None:
    """01/R-2: both allow fields absent means all."""
    assert visible() == set(TOOLS)


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_tools": []},
        {"allowed_tool_patterns": []},
        {"allowed_tools": [], "allowed_tool_patterns": []},
        {"allowed_tools": None, "allowed_tool_patterns": []},
        {"allowed_tools": [], "allowed_tool_patterns": None},
        {"allowed_tools": None, "allowed_tool_patterns": None},
    ],
    ids=str,
)
def test_an_allow_list_that_names_nothing_allows_nothing(fields: dict[str, Json]) -> None:
    """01/R-2: `[]`, or an explicit null in both allow fields, means none."""
    assert visible(**fields) == set()


def test_what_a_spec_writes_for_all_tools_still_means_all_tools() -> None:
    """01/R-2: the null our own writer leaves in `allowed_tools` alone is no explicit none."""
    assert visible(allowed_tools=None) == set(TOOLS)


def test_allowed_ids_and_patterns_are_united() -> None:
    """01/R-2: allow."""
    assert visible(allowed_tools=["read_file"]) == {"read_file"}
    assert visible(allowed_tool_patterns=["*_file"]) == {"read_file", "write_file"}
    assert visible(allowed_tools=["web_search"], allowed_tool_patterns=["read*"]) == {
        "web_search",
        "read_file",
    }


def test_exclusions_are_applied_after_what_is_allowed() -> None:
    """01/R-2: exclude, and both."""
    assert visible(excluded_tools=["a*b", "a\\b", "axb"]) == {
        "read_file",
        "write_file",
        "web_search",
    }
    assert visible(
        allowed_tools=["read_file", "web_search"],
        allowed_tool_patterns=["write*"],
        excluded_tools=["web_search"],
        excluded_tool_patterns=["w*_file"],
    ) == {"read_file"}


def test_excluding_an_unknown_tool_is_a_no_op() -> None:
    """01/R-2: unknown exclude."""
    assert visible(excluded_tools=["rm"], excluded_tool_patterns=["rm*"]) == set(TOOLS)


def test_an_id_is_taken_as_it_is_and_not_as_a_pattern() -> None:
    assert visible(allowed_tools=["a*b"]) == {"a*b"}
    assert visible(excluded_tools=["*"]) == set(TOOLS)


def test_an_unknown_id_shows_nothing() -> None:
    assert visible(allowed_tools=["rm"]) == set()


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", set(TOOLS)),
        ("a*b", {"a*b", "a\\b", "axb"}),
        ("a\\*b", {"a*b"}),
        ("a\\\\b", {"a\\b"}),
        ("a\\xb", {"axb"}),
        ("file", set()),
        ("read", set()),
        ("*file*", {"read_file", "write_file"}),
        ("a?b", set()),
        ("a.b", set()),
        ("[a]xb", set()),
    ],
)
def test_patterns_are_anchored_globs_with_escapes(pattern: str, matches: set[str]) -> None:
    """01/R-2: `*` is any run of characters, `\\` escapes the next one, all else is itself."""
    assert visible(allowed_tool_patterns=[pattern]) == matches


@pytest.mark.parametrize("pattern", ["", "a\\", "\\"])
@pytest.mark.parametrize("field", ["allowed_tool_patterns", "excluded_tool_patterns"])
def test_empty_and_dangling_patterns_are_refused(field: str, pattern: str) -> None:
    """01/R-2: both are invalid, with or without tools to match."""
    with pytest.raises(ConfigError, match="pattern"):
        visible(**{field: [pattern]})


def test_patterns_that_fit_no_tool_are_told() -> None:
    """01/R-2: so that somebody can warn of them."""
    selection = ToolSelection(
        allowed_patterns=("read*", "raed*"), excluded_patterns=("*_raw", "web_*")
    )

    assert selection.find_unmatched(TOOLS) == ["raed*", "*_raw"]


def escape(text: str) -> str:
    return re.sub(r"([\\*])", r"\\\1", text)


NAMES = st.text(alphabet="ab*\\.\n", max_size=6)


@given(name=NAMES, other=NAMES, head=NAMES, tail=NAMES)
@settings(max_examples=100, deadline=None)
def test_an_escaped_pattern_fits_itself_alone_and_a_star_fits_anything(
    name: str, other: str, head: str, tail: str
) -> None:
    """01/R-2: the two laws of patterns, on names full of special characters."""
    if name:
        literal = ToolSelection(allowed_patterns=(escape(name),))
        assert literal.visible([name, other]) == {name} | ({other} & {name})
    between = ToolSelection(allowed_patterns=(f"{escape(head)}*{escape(tail)}",))
    assert between.visible([f"{head}{name}{tail}"]) == {f"{head}{name}{tail}"}
    fits = len(other) >= len(head) + len(tail) and other.startswith(head) and other.endswith(tail)
    assert between.visible([other]) == ({other} if fits else set())
