from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from cli_process import Here, Printed, Ran

from awaken.cli import main


def _log_levels() -> dict[str, tuple[int, bool]]:
    """What the loggers of the package let through, but for those that say all."""
    found = logging.root.manager.loggerDict
    loggers = [one for name, one in found.items() if name.split(".")[0] == "awaken"]
    return {
        one.name: (one.level, one.disabled)
        for one in loggers
        if isinstance(one, logging.Logger) and (one.level or one.disabled)
    }


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """The command in `home`, without a process of its own: half a second faster."""
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("AWAKEN_STORE", raising=False)
    for module in ("app", "bad"):
        monkeypatch.setitem(sys.modules, module, None)
        del sys.modules[module]  # restored, which is to say removed, when the test ends

    def run(*args: str) -> Ran:
        before = _log_levels()
        code = main(args)
        assert _log_levels() == before, "a command leaves the logging of its process as it was"
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def printed(here: Here) -> Printed:
    """What a command prints that works."""

    def run(*args: str) -> str:
        done = here(*args)
        assert done.code == 0, done.err
        assert "\x1b" not in done.out
        return done.out

    return run
