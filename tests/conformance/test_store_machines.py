"""Every store in random use, step by step like the one in memory (design §7)."""

from __future__ import annotations

import os
import tempfile
import unittest

from hypothesis import settings

from awaken.contract.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.machine import StoreMachine, store_machine

EXAMPLES = int(os.environ.get("AWAKEN_STORE_EXAMPLES", "12"))
"""More of them are for whoever changes a store: two thousand take some minutes."""


async def memory() -> Store:
    return MemoryStore()


async def sqlite_in_memory() -> Store:
    store = SqliteStore.from_address("sqlite:///:memory:")
    await store.open()
    return store


async def sqlite() -> Store:
    folder = tempfile.mkdtemp()
    store = SqliteStore.from_address(f"sqlite:///{folder}/awaken.db?synchronous=normal")
    await store.open()
    return store


def cases(machine: type[StoreMachine]) -> type[unittest.TestCase]:
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES, stateful_step_count=30, deadline=None
    )
    return machine.TestCase


TestMemory = cases(store_machine(memory, memory, reopens=True))
TestSqliteInMemory = cases(store_machine(sqlite_in_memory, memory))
TestSqlite = cases(store_machine(sqlite, memory, reopens=True))
