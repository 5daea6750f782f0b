import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from postgres_kit import durable_address, postgres
from request_check import request_check
from worker_memory import pytest_runtest_teardown

__all__ = ["durable_address", "postgres", "pytest_runtest_teardown", "request_check"]

pytest.register_assert_rewrite("awaken.testing.conformance")

# A loaded machine is no fault of the code: no test depends on how quickly examples are made or run.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

MEMORY = Path("/dev/shm")
ROOM = 2 << 30


def _keep_files_in_memory() -> None:
    """Thousands of commits wait for a disk, and no test needs what outlives a loss of power. The
    processes of the tests inherit this."""
    if "TMPDIR" not in os.environ and MEMORY.is_dir():
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize > ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = str(MEMORY)
            tempfile.tempdir = None  # pytest has asked for it already


_keep_files_in_memory()


SLOW = {"cli", "conformance", "console", "examples", "models", "recovery", "server"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders with slow files come first: at the end no worker waits long for another one."""
    items.sort(key=lambda item: SLOW.isdisjoint(item.path.parts))


def pytest_collection_finish() -> None:
    """From now on, compiled modules are read and none is written, here and by the processes of the
    tests: of two programs that a test writes within a second, Python would keep the first."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
