"""Live buses: the protocol of one, what it passes on, and the bus over NATS.

`NatsBus` needs the extra `nats`; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from awaken.core.bus import (
    BusHealth,
    LiveBatch,
    LiveBus,
    Progress,
    PublisherState,
    Replay,
    Subscription,
    SupportsReplay,
    Topic,
)
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.stores.bus.nats.bus import NatsBus

__all__ = [
    "BusHealth",
    "LiveBatch",
    "LiveBus",
    "NatsBus",
    "Progress",
    "PublisherState",
    "Replay",
    "Subscription",
    "SupportsReplay",
    "Topic",
]

lazy_names(__name__, {"awaken.stores.bus.nats.bus": "NatsBus"}, extra="nats")
