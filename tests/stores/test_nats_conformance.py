"""The bus over NATS against the suite for live buses (06 §2.3)."""

from __future__ import annotations

import pytest
from nats_kit import NatsServer, nats_server, two_nodes

from awaken.testing.conformance import BusCheck, BusSubject, bus_checks

__all__ = ["nats_server"]

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", bus_checks(), ids=lambda check: check.__name__)
async def test_bus(check: BusCheck, nats_server: NatsServer) -> None:
    async with two_nodes(nats_server) as (owners, listeners):
        await check(BusSubject(owners, listeners, is_lossy=True))
        assert owners.health.is_up
        assert listeners.health.is_up
