"""Conformance checks for stores and backends; run them on your own implementation.

    @pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
    async def test_store(check: StoreCheck, store: Store) -> None:
        await check(store)

`store` is open and empty. A store whose data stays when it is closed also has to pass
`shared_store_checks`, and a store that detects dead owners `crash_checks`.
`awaken.testing.conformance.state_machine`, which needs Hypothesis, compares a store with another
one under random operations.

Blob stores have to pass `blob_checks`: `await check(blobs, store)`, where `store` is open and empty
and is the one that `blobs` asks which blobs are in use.

A store that can be searched also has to pass `search_checks`, which take the same.

Live buses have to pass `bus_checks`, each of which takes a `BusSubject`.

Backends have to pass `backend_checks`, each of which takes a `BackendSubject`.

With `pytest.register_assert_rewrite("awaken.testing.conformance")` in a `conftest.py`, failures
show the compared values.
"""

from awaken.testing.conformance.backends import (
    BackendCheck,
    BackendPart,
    BackendSubject,
    backend_checks,
)
from awaken.testing.conformance.blobs import BlobCheck
from awaken.testing.conformance.bus import BusCheck, BusSubject
from awaken.testing.conformance.crashes import leave_behind
from awaken.testing.conformance.helpers import OpenStore, SharedStoreCheck, StoreCheck
from awaken.testing.conformance.suites import (
    blob_checks,
    bus_checks,
    crash_checks,
    search_checks,
    shared_store_checks,
    store_checks,
)

__all__ = [
    "BackendCheck",
    "BackendPart",
    "BackendSubject",
    "BlobCheck",
    "BusCheck",
    "BusSubject",
    "OpenStore",
    "SharedStoreCheck",
    "StoreCheck",
    "backend_checks",
    "blob_checks",
    "bus_checks",
    "crash_checks",
    "leave_behind",
    "search_checks",
    "shared_store_checks",
    "store_checks",
]
