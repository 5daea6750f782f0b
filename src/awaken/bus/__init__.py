"""Live buses: the protocol of one, and what it passes on. Each technology has a package here."""

from awaken.contract.bus import (
    BusHealth,
    Heard,
    Listening,
    LiveBus,
    Progress,
    Recalls,
    Sent,
    Standing,
    Topic,
)

__all__ = [
    "BusHealth",
    "Heard",
    "Listening",
    "LiveBus",
    "Progress",
    "Recalls",
    "Sent",
    "Standing",
    "Topic",
]
