"""Plugins written on the spot."""

from __future__ import annotations

from collections.abc import Callable

from awaken.plugin.registrar import Registrar


class Piece:
    """A plugin: its id, and what it tells the registrar, part by part."""

    def __init__(self, id: str, *parts: Callable[[Registrar], None]) -> None:
        self.id = id
        self._parts = parts

    def register(self, registrar: Registrar) -> None:
        for part in self._parts:
            part(registrar)
