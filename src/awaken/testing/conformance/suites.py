"""All store checks, by what they require of a store."""

from __future__ import annotations

from awaken.testing.conformance import (
    access,
    blob_uses,
    blobs,
    bus,
    commands,
    commits,
    concurrency,
    contexts,
    crashes,
    deleting,
    forks,
    leases,
    lists,
    metadata,
    owners,
    profiles,
    refusals,
    requests,
    rewinds,
    runs,
    scopes,
    search,
    sends,
    shared,
    streams,
    submissions,
    tickets,
    too_large,
    trees,
    unusual_values,
)
from awaken.testing.conformance.blobs import BlobCheck
from awaken.testing.conformance.bus import BusCheck
from awaken.testing.conformance.helpers import SharedStoreCheck, StoreCheck

_PARTS = (
    commits,
    refusals,
    owners,
    runs,
    contexts,
    lists,
    tickets,
    commands,
    sends,
    streams,
    trees,
    forks,
    deleting,
    profiles,
    concurrency,
    unusual_values,
    scopes,
    metadata,
    submissions,
    leases,
    blob_uses,
    requests,
    rewinds,
    access,
)


def store_checks() -> list[StoreCheck]:
    """The checks for every store; each takes an open, empty store."""
    return [check for part in _PARTS for check in part.check.checks]


def shared_store_checks() -> list[SharedStoreCheck]:
    """The checks for stores whose data stays when closed and that several processes may open.

    Each check takes a function that opens another handle on the same, initially empty, data.
    """
    return [*shared.check.checks, *too_large.check.checks]


def blob_checks() -> list[BlobCheck]:
    """The checks for every blob store; each takes an empty one, and the store it asks for uses."""
    return list(blobs.check.checks)


def bus_checks() -> list[BusCheck]:
    """The checks for every live bus; each takes a `BusSubject` that was not used before."""
    return list(bus.check.checks)


def search_checks() -> list[StoreCheck]:
    """The checks for stores that can be searched; each takes an open, empty store."""
    return list(search.check.checks)


def crash_checks() -> list[StoreCheck]:
    """The checks for a store after the crash of a process.

    Each takes a new handle on data on which another process called `leave_behind` before it was
    killed.
    """
    return list(crashes.check.checks)
