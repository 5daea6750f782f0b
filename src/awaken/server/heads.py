"""The step that refuses requests whose head can be read in two ways."""

from __future__ import annotations

from awaken.server.edge import Arrival
from awaken.server.errors import Refused

_ONCE = frozenset({b"host", b"origin", b"last-event-id", b"idempotency-key", b"if-match"})
"""Headers that decide something. Given twice, a proxy and this server could each go by another."""


class Heads:
    """Refuses requests that give a header twice which they may give once."""

    async def check(self, arrival: Arrival) -> None:
        seen = set[bytes]()
        for name, _ in arrival.scope["headers"]:
            if name in _ONCE:
                if name in seen:
                    raise Refused(400, "bad_header", f"{name.decode()!r} is given twice")
                seen.add(name)
