"""Limits: how many requests, streams and runs a client may have at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.access import NO_TERMS, Terms
from awaken.core.budget import LIMITS, Budget
from awaken.server.edge import EdgeRequest, own_path
from awaken.server.errors import HttpRefusal

_MAX_BUCKETS = 10_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a server.

    - `connections`: how many requests are answered at once, streams included. `/health` is answered
      beside them.
    - `scope_share`, `stranger_share`: the part of them that one scope may have, and that all
      requests without a key may have, if there are keys.
    - `body_seconds`: the seconds that a body has to come, and one more for each 16 KiB of it.
    - `rate`, `burst`: how many requests a second a key may make in the long run, and how many at
      once, `/health` aside. A key's entry may say otherwise.
    - `streams`: how many streams of one scope are open on this node.
    - `open_runs`: how many runs of one scope may be running or wait to start; `None`: no limit.
    """

    connections: int = 10_000
    scope_share: float = 0.5
    stranger_share: float = 0.1
    body_seconds: float = 30.0
    rate: float = 100.0
    burst: int = 200
    streams: int = 5_000
    open_runs: int | None = None


def limit_error(code: str, message: str, seconds: float = 1.0) -> HttpRefusal:
    """The refusal of a request beyond a limit; the client may try again after `seconds`."""
    wait = str(max(1, math.ceil(seconds)))
    return HttpRefusal(429, code, message, headers={"retry-after": wait})


class ConnectionLimit:
    """Refuses requests while too many are being answered."""

    def __init__(self, limit: int) -> None:
        self._limit, self._now = limit, 0

    async def check(self, request: EdgeRequest) -> None:
        if _is_health(request):
            return
        if self._now >= self._limit:
            raise HttpRefusal(
                503, "too_many_connections", "the server is busy", headers={"retry-after": "1"}
            )
        self._now += 1
        request.cleanup.callback(self._release)

    def _release(self) -> None:
        self._now -= 1


class ShareLimit:
    """Refuses requests of one scope, or of all clients without a key, beyond their share of the
    connections, so that no tenant can use up all of them."""

    def __init__(self, limits: Limits) -> None:
        self._scope_limit = max(1, int(limits.connections * limits.scope_share))
        self._stranger_limit = max(1, int(limits.connections * limits.stranger_share))
        self._now: Counter[str | None] = Counter()

    async def check(self, request: EdgeRequest) -> None:
        if _is_health(request):
            return
        principal = request.principal
        scope = principal.scope if principal is not None else None
        limit = self._scope_limit if principal is not None else self._stranger_limit
        if self._now[scope] >= limit:
            raise limit_error(
                "too_many_connections", "too many requests are open: wait for one to end"
            )
        self._now[scope] += 1
        request.cleanup.callback(self._release, scope)

    def _release(self, scope: str | None) -> None:
        self._now[scope] -= 1
        if not self._now[scope]:
            del self._now[scope]


def _is_health(request: EdgeRequest) -> bool:
    """Whether it is a health check: an orchestrator kills a process that does not answer these."""
    return own_path(request.scope).startswith("/health")


class RateLimit:
    """Refuses requests of keys that make too many. Each principal has a bucket of tokens, which
    fills at its rate up to its burst; a request takes one token."""

    def __init__(self, limits: Limits, clock: Clock = SYSTEM_CLOCK) -> None:
        self._limits, self._clock = limits, clock
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    async def check(self, request: EdgeRequest) -> None:
        principal = request.principal
        if principal is None or _is_health(request):
            return
        terms: Terms = request.scope.get("terms", NO_TERMS)
        rate = self._limits.rate if terms.rate is None else terms.rate
        burst = self._limits.burst if terms.burst is None else terms.burst
        now, key = self._clock.monotonic(), (principal.scope, principal.id)
        tokens, since = self._buckets.pop(key, (float(burst), now))
        tokens = min(float(burst), tokens + (now - since) * rate)
        is_refused = tokens < 1
        # Put back last: the first entry is the one that was not used for the longest time.
        self._buckets[key] = (tokens if is_refused else tokens - 1, now)
        if len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        if is_refused:
            wait = (1 - tokens) / rate if rate > 0 else 60.0
            raise limit_error("too_many_requests", "this key makes too many requests", wait)


class StreamLimit:
    """Limits the open streams of each scope."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, int] = {}

    @contextmanager
    def count(self, scope: str) -> Iterator[None]:
        """Count one stream for as long as the block lasts.

        Raises:
            HttpRefusal: the scope has too many.
        """
        now = self._open.get(scope, 0)
        if now >= self._limit:
            raise limit_error("too_many_streams", f"{now} streams are open: close one")
        self._open[scope] = now + 1
        try:
            yield
        finally:
            self._open[scope] -= 1
            if not self._open[scope]:
                del self._open[scope]


def limit_budget(requested: Budget | None, limit: Budget | None) -> Budget | None:
    """The budget of a run: the requested one, with each limit at most that of the key's budget."""
    if requested is None or limit is None:
        return requested or limit
    pairs = {name: (getattr(requested, name), getattr(limit, name)) for name in LIMITS}
    smaller = {
        name: min((value for value in pair if value is not None), default=None)
        for name, pair in pairs.items()
    }
    return msgspec.structs.replace(requested, at_limit=limit.at_limit, **smaller)
