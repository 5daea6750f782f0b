"""`/health`: whether this process lives, and whether it takes work."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import msgspec
from starlette.types import ASGIApp

from awaken.clock import Clock
from awaken.core.store.store import Store
from awaken.errors import AwakenError, StoreError
from awaken.runtime.runtime import Runtime
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.route import Route

STORE_SECONDS = 1.0
"""Seconds in which the store has to answer."""
PROBE_SECONDS = 10.0
"""Seconds between two small writes to a store that has refused one."""
OK = "ok"


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """That the event loop of this process turns."""

    live: bool = True


class Readiness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether this process takes work; each part is `ok`, or says what is wrong.

    `store` says so, too, if the store can be read and refuses writes. `bus` is the live bus to
    other processes, if there is one. A process takes work without it.
    """

    ready: bool
    store: str
    lease: str
    draining: bool
    bus: str | None = None


class WriteProbe:
    """Checks whether a store that refused a write accepts writes again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tried_at = -math.inf

    async def accepts_writes(self, store: Store) -> bool:
        """Whether the store accepts writes, as far as is known. After a refused write, a small
        write is tried at most every `PROBE_SECONDS`; any other write that the store accepts counts
        as well."""
        now = self._clock.monotonic()
        if store.is_refusing_writes and now - self._tried_at >= PROBE_SECONDS:
            self._tried_at = now
            with suppress(StoreError):
                await store.check_write()
        return not store.is_refusing_writes


async def check_readiness(runtime: Runtime, probe: WriteProbe) -> Readiness:
    """The state of the process, of its store and of its live bus; returns within about a second."""
    store = await _store(runtime, probe)
    lease = OK if runtime.store.lease.held else "lost"
    draining = runtime.is_draining
    return Readiness(
        ready=store == lease == OK and not draining,
        store=store,
        lease=lease,
        draining=draining,
        bus=_bus(runtime),
    )


def _bus(runtime: Runtime) -> str | None:
    health = runtime.bus_health
    if health is None:
        return None
    return OK if health.is_up else "away"


async def _store(runtime: Runtime, probe: WriteProbe) -> str:
    try:
        async with asyncio.timeout(STORE_SECONDS):
            await runtime.store.check()
            accepts_writes = await probe.accepts_writes(runtime.store)
    except TimeoutError:
        return f"did not answer within {STORE_SECONDS:g} s"
    except AwakenError:
        return "away"  # the error's text may name files or hosts, which clients must not see
    return OK if accepts_writes else "refuses writes"


async def live(call: ApiCall) -> ASGIApp:
    # A process whose loop is blocked does not answer at all.
    return JsonResponse(Liveness())


async def ready(call: ApiCall) -> ASGIApp:
    found = await check_readiness(call.runtime, call.request.app.state.write_probe)
    return JsonResponse(found, status_code=200 if found.ready else 503)


ROUTES = (
    Route(
        method="GET",
        path="/health/live",
        handle=live,
        name="get_liveness",
        summary="Whether the process lives",
        answers={200: Liveness},
    ),
    Route(
        method="GET",
        path="/health/ready",
        handle=ready,
        name="get_readiness",
        summary="Whether the process takes work",
        answers={200: Readiness, 503: Readiness},
    ),
    Route(
        method="GET",
        path="/health",
        handle=ready,
        name="get_health",
        summary="Whether the process takes work, part by part",
        answers={200: Readiness, 503: Readiness},
    ),
)
