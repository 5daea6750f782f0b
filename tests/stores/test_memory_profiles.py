"""Entries that outlive threads, on the store in memory (01 §2.6).

What all stores hold of them stands in `awaken.testing.conformance`; here the time is ours to set.
"""

from __future__ import annotations

import pytest

from awaken.core.profile import ProfileOwner
from awaken.stores.memory import MemoryProfiles, MemoryStore
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

SYSTEM = ProfileOwner()


async def test_an_entry_says_when_it_was_written() -> None:
    """01 §2.6: `set` stamps `updated_at`."""
    clock = FakeClock(start_ms=1000)
    for profiles in (MemoryProfiles(clock), MemoryStore(clock).profiles):
        first = await profiles.set(SYSTEM, "k", 1)
        clock.advance(1)
        second = await profiles.set(SYSTEM, "k", 2)

        assert second.updated_at - first.updated_at == 1000
        assert second.updated_at == clock.now_ms()


async def test_an_entry_is_not_its_writers_object() -> None:
    """What is written is JSON, as other stores would write it."""
    likes = ["tea", "jazz"]
    profiles = MemoryProfiles()
    await profiles.set(SYSTEM, "k", {"likes": likes, "pair": (1, 2)})
    likes.clear()

    entry = await profiles.get(SYSTEM, "k")

    assert entry is not None
    assert entry.value == {"likes": ["tea", "jazz"], "pair": [1, 2]}
