"""A pytest plugin for `mutate.py`: which test executes which lines of some modules, in its process.

`TRACE_LINES_OF` names the files, `TRACE_LINES_TO` where to write what was seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_WATCHED = {
    name: _short
    for name in json.loads(os.environ["TRACE_LINES_OF"])
    if (_short := name.rpartition("/src/awaken/")[2])
}
_seen: dict[str, tuple[float, list[str]]] = {}
_failed: set[str] = set()
_now: set[tuple[CodeType, int]] = set()


def _line(frame: FrameType, event: str, arg: Any) -> Any:
    if event == "line":
        _now.add((frame.f_code, frame.f_lineno))
    return _line


def _call(frame: FrameType, event: str, arg: Any) -> Any:
    return _line if frame.f_code.co_filename in _WATCHED else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _now.clear()
    began = time.perf_counter()
    threading.settrace(_call)
    sys.settrace(_call)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        lines = sorted({f"{_WATCHED[code.co_filename]}:{line}" for code, line in _now})
        _seen[item.nodeid] = (time.perf_counter() - began, lines)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {test: seen for test, seen in _seen.items() if test not in _failed}
    if passed:
        Path(f"{os.environ['TRACE_LINES_TO']}.{os.getpid()}").write_text(json.dumps(passed))
