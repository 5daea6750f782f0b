"""Finding agents elsewhere by the cards they publish.

What reads a card needs the extra `a2a` and is loaded on first use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from awaken.backend.a2a.extra import load_a2a
from awaken.domain.spec import AgentSpec, RemoteEndpoint
from awaken.domain.value import Value

DEFAULT_TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 30_000


class RemoteSource(Value, frozen=True, kw_only=True):
    """A place where an agent's card is to be found: the origin of the endpoint's base URL.

    The endpoint also says how to speak to the agent that is found: its auth, target and options.
    """

    name: str
    endpoint: RemoteEndpoint
    timeout_ms: int = msgspec.field(default_factory=lambda: DEFAULT_TIMEOUT_MS)

    @property
    def timeout(self) -> float:
        """Seconds for the whole look; never nothing, never more than half a minute."""
        return min(max(self.timeout_ms, 1), MAX_TIMEOUT_MS) / 1000


async def discover(source: RemoteSource) -> AgentSpec:
    """The agent whose card is at `source`.

    Raises:
        DiscoveryFailed: there is no card that could be used; the text says why.
        ExecutionBackendFactoryError: the source's endpoint cannot work, or the extra is missing.
    """
    fetch: Callable[[RemoteSource], Awaitable[AgentSpec]] = load_a2a(
        "awaken.backend.a2a.card", "fetch_agent"
    )
    return await fetch(source)
