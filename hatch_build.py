"""The build hook: the console's libraries are fetched before they are packed.

Without npm or a network, the wheel is built without them, and the build says so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "tools"))

import console_libraries


class ConsoleLibraries(BuildHookInterface):
    """Fetches what the console's pages are made with."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            console_libraries.fetch()
        except console_libraries.NoNpm as error:
            self.app.display_warning(f"built without the console: {error}")
