"""Checks that any store of threads, and any backend, must pass, to be run on one's own.

    @pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
    async def test_store(check: StoreCheck, store: Store) -> None:
        await check(store)

`store` is opened and empty. A store whose data outlives it has `shared_store_checks`, too, and one
that can tell a dead owner from a live one `crash_checks`. `awaken.testing.conformance.machine`,
which needs Hypothesis, holds a store against another one in random use.

What runs agents elsewhere has `backend_checks`, which take a `BackendSubject` each.

With `pytest.register_assert_rewrite("awaken.testing.conformance")` in a `conftest.py`, failures
show what was compared.
"""

from awaken.testing.conformance.backends import (
    BackendCheck,
    BackendPart,
    BackendSubject,
    backend_checks,
)
from awaken.testing.conformance.crashes import leave_behind
from awaken.testing.conformance.making import OpenStore, SharedStoreCheck, StoreCheck
from awaken.testing.conformance.suites import crash_checks, shared_store_checks, store_checks

__all__ = [
    "BackendCheck",
    "BackendPart",
    "BackendSubject",
    "OpenStore",
    "SharedStoreCheck",
    "StoreCheck",
    "backend_checks",
    "crash_checks",
    "leave_behind",
    "shared_store_checks",
    "store_checks",
]
