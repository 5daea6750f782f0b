from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_process import Here, Printed, Ran

from awaken.cli import main


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
        return Ran(main(args), *capsys.readouterr())

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
