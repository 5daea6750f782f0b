"""The memory of a process that runs tests, after each file of them: what is free goes back to the
system, and what is held has a bound.

The allocator keeps what large tests have freed, in a pool for each of their threads: a third of
what a process held by the end of the suite. The rest is the modules and tests that all of them
import.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

__all__ = ["pytest_runtest_teardown"]

MOST_BYTES = 800 << 20
"""Nearly twice what a process holds at the end of the whole suite, all SDKs among it."""

WORTH_A_TRIM = 8 << 20
"""A trim takes some 20 ms."""

_M_ARENA_MAX = -8
_PAGES = Path("/proc/self/statm")


def _find_trim() -> Callable[[int], int] | None:
    """The allocator's function that returns free memory; only that of glibc has one."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


_trim = _find_trim()
if _trim is not None:
    # One pool for all threads: a trim does not return the end of another pool, up to 64 MB of each.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _held() -> int:
    return int(_PAGES.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Bound:
    """The most bytes that this process may hold. It fails one test, not all that come after."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._after_trim = 0

    def check(self) -> None:
        """Fail the test if the process holds more than it may."""
        if _trim is None or _held() - self._after_trim < WORTH_A_TRIM:
            return
        _trim(0)
        self._after_trim = _held()
        if self._after_trim <= self._most:
            return
        gc.collect()
        _trim(0)
        held = _held()
        if held > self._most:
            most, self._most = self._most, sys.maxsize
            pytest.fail(
                f"this process holds {held >> 20} MB, more than {most >> 20}, with "
                f"{len(gc.get_objects())} objects, {len(sys.modules)} modules and "
                f"{threading.active_count()} threads: find what its tests keep"
            )


_bound = Bound(MOST_BYTES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        _bound.check()
