"""All checks, by what they ask of a store."""

from __future__ import annotations

from awaken.testing.conformance import (
    changes,
    commands,
    commits,
    contexts,
    crashes,
    crowds,
    deleting,
    forks,
    lists,
    odd,
    owners,
    profiles,
    refusals,
    runs,
    sends,
    shared,
    streams,
    tickets,
    trees,
)
from awaken.testing.conformance.making import SharedStoreCheck, StoreCheck

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
    changes,
    forks,
    deleting,
    profiles,
    crowds,
    odd,
)


def store_checks() -> list[StoreCheck]:
    """What every store holds: each check takes one that is opened and empty."""
    return [check for part in _PARTS for check in part.check.checks]


def shared_store_checks() -> list[SharedStoreCheck]:
    """What a store holds whose data outlives it, and that several processes may have open.

    Each check takes a function that opens one more handle on the same, at first empty, data.
    """
    return list(shared.check.checks)


def crash_checks() -> list[StoreCheck]:
    """What a store holds after a process died: each check takes a fresh handle on data on which
    another process had called `leave_behind` before it was killed."""
    return list(crashes.check.checks)
