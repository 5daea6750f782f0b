"""The lists of checks: no part of the kit is left out of them."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from awaken.testing import conformance
from awaken.testing.conformance.helpers import Suite


def test_every_check_of_the_kit_is_in_one_of_the_lists() -> None:
    """06, must show: submissions, commits view, blobs, scopes, leases and the bus among them."""
    listed: list[Any] = [
        *conformance.store_checks(),
        *conformance.shared_store_checks(),
        *conformance.blob_checks(),
        *conformance.bus_checks(),
        *conformance.crash_checks(),
        *conformance.search_checks(),
    ]
    parts = {
        name: part.check.checks
        for _, name, is_package in pkgutil.iter_modules(conformance.__path__)
        if not is_package and name != "machine"
        for part in [importlib.import_module(f"{conformance.__name__}.{name}")]
        if isinstance(getattr(part, "check", None), Suite)
    }

    assert {"submissions", "commits", "blobs", "scopes", "leases", "bus"} <= parts.keys()
    for name, checks in parts.items():
        assert [check.__name__ for check in checks if check not in listed] == [], name
    assert len(listed) == len(set(listed)) == sum(map(len, parts.values()))
