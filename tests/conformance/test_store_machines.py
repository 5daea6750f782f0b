"""Every store in random use, step by step like the one in memory (design §7)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from awaken.core.store.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.state_machine import store_machine

EXAMPLES = int(os.environ.get("AWAKEN_STORE_EXAMPLES", "15"))
"""Whoever changes a store wants more: with 1000, this takes some minutes."""

pytestmark = pytest.mark.timeout(600 + EXAMPLES)


async def memory() -> Store:
    return MemoryStore()


async def sqlite_in_memory() -> Store:
    return await opened("sqlite:///:memory:")


def sqlite_files(folder: Path) -> Callable[[], Awaitable[Store]]:
    numbers = count()
    # What is lost when the power fails is not asked here, and a machine writes a lot.
    return lambda: opened(f"sqlite:///{folder}/{next(numbers)}.db?synchronous=normal")


async def opened(address: str) -> Store:
    store = SqliteStore.from_address(address)
    await store.open()
    return store


def drive(open_store: Callable[[], Awaitable[Store]], *, reopens: bool) -> None:
    run_state_machine_as_test(
        store_machine(open_store, memory, reopens=reopens),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],  # a slow disk is no fault
        ),
    )


def test_a_memory_store_does_the_same_each_time() -> None:
    drive(memory, reopens=True)


def test_sqlite_in_memory_is_like_memory() -> None:
    drive(sqlite_in_memory, reopens=False)


def test_sqlite_in_a_file_is_like_memory(tmp_path: Path) -> None:
    drive(sqlite_files(tmp_path), reopens=True)
