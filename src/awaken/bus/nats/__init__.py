"""The live bus over NATS, for processes on many machines. Needs the extra `nats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.bus.nats.bus import NatsBus

__all__ = ["NatsBus"]

__getattr__, __dir__ = lazy_names(__name__, {".bus": "NatsBus"}, extra="nats")
