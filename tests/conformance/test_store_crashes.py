"""What every store shows to the next process after one was killed (design §7)."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance import StoreCheck, crash_checks, leave_behind

pytestmark = pytest.mark.anyio

DIE = """
import asyncio, os, signal, sys
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance import leave_behind

async def work():
    store = SqliteStore.from_address(sys.argv[1])
    await store.open()
    await leave_behind(store)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(work())
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of a process that was killed."""
    folder = tmp_path_factory.mktemp("left")
    address = f"sqlite:///{folder}/awaken.db"
    died = subprocess.run([sys.executable, "-c", DIE, address], check=False)
    assert died.returncode == -signal.SIGKILL
    return folder


@pytest.mark.parametrize("check", crash_checks(), ids=lambda check: check.__name__)
async def test_memory_after_a_crash(check: StoreCheck) -> None:
    store = MemoryStore()
    await leave_behind(store)
    store.forsake()

    await check(store)


@pytest.mark.parametrize("check", crash_checks(), ids=lambda check: check.__name__)
async def test_sqlite_after_a_crash(check: StoreCheck, left: Path, tmp_path: Path) -> None:
    shutil.copytree(left, tmp_path / "copy")
    store = SqliteStore.from_address(f"sqlite:///{tmp_path}/copy/awaken.db")
    await store.open()

    await check(store)

    await store.close()
