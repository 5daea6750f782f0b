"""A store with something in it, written by the library itself, for commands to look at."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

from cli_process import write_app

from awaken import Runtime


def load_app(home: Path) -> ModuleType:
    """The module that `write_app` has put there."""
    spec = importlib.util.spec_from_file_location("stored_app", home / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_store(directory: Path, fill: Callable[[Runtime], Coroutine[Any, Any, object]]) -> Path:
    """A directory with `app.py` and an `awaken.db` that holds what `fill` does."""
    home = write_app(directory)
    app = load_app(home)

    async def main() -> None:
        agents = [app.adder, app.payer, app.painter]
        store = f"sqlite:///{home / 'awaken.db'}"
        async with Runtime(agents, store=store, recover=False) as runtime:
            await fill(runtime)

    asyncio.run(main())
    return home
