"""Things by id, and the set a run resolves from (01 §5.2)."""

from __future__ import annotations

import pytest

from awaken.engine.registry import MapRegistry, RegistryHandle
from awaken.errors import BuildError, RegistryConflict


def test_a_second_thing_of_an_id_is_refused() -> None:
    """01 §5.2: the error names kind and id, and the first one stays."""
    known: MapRegistry[str] = MapRegistry("tool", [("echo", "first")])

    with pytest.raises(RegistryConflict, match=r"tool 'echo'.*rename one") as conflict:
        known.register("echo", "second")

    assert (conflict.value.kind, conflict.value.name) == ("tool", "echo")
    assert known.get("echo") == "first"


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_id_is_refused(blank: str) -> None:
    """Bad input: the error says of what, and nothing is registered."""
    known: MapRegistry[str] = MapRegistry("agent")

    with pytest.raises(BuildError, match=r"agent id .* is blank"):
        known.register(blank, "nobody")
    assert known.ids() == []


def test_ids_list_in_order_however_they_came() -> None:
    """D-30: errors and exports do not vary."""
    known: MapRegistry[int] = MapRegistry("model", [("c", 3), ("a", 1), ("b", 2)])

    assert known.ids() == ["a", "b", "c"]
    assert "a" in known
    assert "z" not in known
    assert known.get("z") is None


def test_replacing_the_set_counts_versions_and_leaves_snapshots_alone() -> None:
    """01/R-8: version 1, then 2; who took a snapshot keeps it."""
    handle = RegistryHandle("old")
    taken = handle.snapshot()

    assert handle.version == 1
    assert handle.replace("new") == 2
    assert (handle.version, handle.snapshot(), taken) == (2, "new", "old")
