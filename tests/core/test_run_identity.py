"""Who a run is (01 §1.5)."""

from __future__ import annotations

import msgspec
import pytest

from awaken.codec import dumps, loads, to_json
from awaken.core.identity import Adapter, RequestOrigin, RunIdentity, RunMode, RunOrigin

BARE = RunIdentity(thread_id="t1", run_id="r1", agent_id="a1")

SETTERS = [
    ("dispatch_id", RunIdentity.with_dispatch_id, RunIdentity.dispatch_id_opt),
    ("session_id", RunIdentity.with_session_id, RunIdentity.session_id_opt),
    (
        "transport_request_id",
        RunIdentity.with_transport_request_id,
        RunIdentity.transport_request_id_opt,
    ),
    (
        "parent_tool_call_id",
        RunIdentity.with_parent_tool_call_id,
        RunIdentity.parent_tool_call_id_opt,
    ),
]


def test_a_bare_identity_writes_its_ids_and_its_origin() -> None:
    """01/C-9: flat, optionals left out, `origin` always there."""
    assert to_json(BARE) == {
        "thread_id": "t1",
        "run_id": "r1",
        "agent_id": "a1",
        "origin": "user",
    }


def test_a_full_identity_is_flat_and_round_trips() -> None:
    """01/C-9: no `run`, `trace` or `execution` keys."""
    full = RunIdentity(
        thread_id="t1",
        parent_thread_id="t0",
        run_id="r1",
        parent_run_id="r0",
        agent_id="a1",
        parent_tool_call_id="c0",
        dispatch_id="d1",
        session_id="s1",
        transport_request_id="q1",
        origin=RunOrigin.SUBAGENT,
        run_mode=RunMode.SCHEDULED,
        adapter=Adapter.AG_UI,
    )

    json = to_json(full)

    assert not {"run", "trace", "execution"} & json.keys()
    assert (json["run_mode"], json["adapter"]) == ("scheduled", "ag_ui")
    assert not any(isinstance(value, dict) for value in json.values())
    assert loads(dumps(full), RunIdentity) == full


@pytest.mark.parametrize(("field", "set_", "get"), SETTERS, ids=[name for name, _, _ in SETTERS])
def test_setters_ignore_blank_values(field: str, set_: object, get: object) -> None:
    """01/C-9: blank values are ignored, real ones are set."""
    assert callable(set_)
    assert callable(get)
    named = set_(BARE, "x")

    assert getattr(named, field) == "x"
    for blank in (None, "", "  \t"):
        assert set_(named, blank) == named
        assert set_(BARE, blank) == BARE


@pytest.mark.parametrize(("field", "set_", "get"), SETTERS, ids=[name for name, _, _ in SETTERS])
def test_getters_trim_and_give_none_for_blank(field: str, set_: object, get: object) -> None:
    """01/C-9: `*_opt` getters trim; blank is none."""
    assert callable(get)
    assert get(msgspec.structs.replace(BARE, **{field: "  x "})) == "x"
    assert get(msgspec.structs.replace(BARE, **{field: "   "})) is None
    assert get(BARE) is None


def test_parent_getters_trim_too() -> None:
    """01/C-9: the parents' getters as well."""
    child = msgspec.structs.replace(BARE, parent_run_id=" r0 ", parent_thread_id=" ")

    assert child.parent_run_id_opt() == "r0"
    assert child.parent_thread_id_opt() is None
    assert msgspec.structs.replace(BARE, parent_thread_id="t0").parent_thread_id_opt() == "t0"


def test_request_origins_map_to_run_origins() -> None:
    assert {origin.value: origin.run_origin.value for origin in RequestOrigin} == {
        "User": "user",
        "A2A": "subagent",
        "Internal": "internal",
    }
