"""The ids of threads: scope, family and children."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.thread_ids import (
    ThreadFamily,
    agent_ids,
    check_given_id,
    child_id,
    child_ids,
    join_scope,
    parse_family,
    task_uid,
    without_scope,
)
from awaken.errors import InvalidId

GIVEN = st.from_regex(r"[A-Za-z0-9._:@=+-]{1,200}", fullmatch=True)
SCOPES = st.one_of(st.just(""), st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True))


@given(scope=SCOPES, id=GIVEN, keys=st.lists(GIVEN, min_size=1, max_size=4))
def test_whatever_a_tree_starts_lies_in_scope_and_family_of_its_root(
    scope: str, id: str, keys: list[str]
) -> None:
    """06/SV-13, for the ids alone."""
    thread = join_scope(scope, id)
    assert parse_family(thread) == ThreadFamily(scope, id)
    for key in keys:
        assert parse_family(task_uid(thread, key)) == ThreadFamily(scope, id)
        thread = child_id(thread, key)
        assert parse_family(thread) == ThreadFamily(scope, id)


def test_a_child_of_a_child_is_as_long_as_a_child() -> None:
    child = child_id("acme/talk", "m1:0")
    assert child == "acme/talk~m1:0"
    assert child_id(child, "m2:0") == "acme/talk~m2:0"


def test_the_agent_in_a_task_has_the_id_that_its_call_gives_it() -> None:
    assert agent_ids(task_uid("talk", "m1:0")) == child_ids("talk", "m1:0")
    earlier_task = "m1:0"
    assert agent_ids(earlier_task) == ("child-m1:0", child_id(earlier_task, "m1:0"))


@pytest.mark.parametrize(
    "id", ["Not A Scope/x", "UPPER/x", "/x", "~x", "acme/", "acme/~x", f"{'a' * 64}/x"]
)
def test_an_id_that_names_no_scope_and_family_is_a_family_in_the_default_scope(id: str) -> None:
    assert parse_family(id).scope == ""
    assert parse_family(id).family


@pytest.mark.parametrize("id", ["", "a/b", "a~b", "a\0b", "x" * 10_240, "two words", "ü", "a\n"])
def test_an_id_from_outside_is_refused_with_what_is_allowed(id: str) -> None:
    with pytest.raises(InvalidId, match="1 to 200 letters") as refused:
        check_given_id(id)
    assert refused.value.id == id
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("scope", ["Acme", "a" * 64, "a/b", "a~b", "a b"])
def test_a_scope_from_outside_is_refused_with_what_is_allowed(scope: str) -> None:
    with pytest.raises(InvalidId, match="1 to 63 characters"):
        join_scope(scope, "x")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("thread 'acme/t' is gone", "thread 't' is gone"),
        ("run acme/t~c1:0: wait, or acme/t.", "run t~c1:0: wait, or t."),
        ("thread 'acme/t2', acme/t-2, acme/t.b", "thread 'acme/t2', acme/t-2, acme/t.b"),
        ("https://acme/t, big-acme/t, acme/t/1", "https://acme/t, big-acme/t, acme/t/1"),
        ("model 'acme/large' of acme", "model 'acme/large' of acme"),
    ],
)
def test_the_ids_of_a_tree_are_told_without_their_scope(text: str, told: str) -> None:
    for thread in ("acme/t", "acme/t~c1:0"):
        assert without_scope(text, thread) == told
    assert without_scope(text, "t") == text
