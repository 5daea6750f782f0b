"""A client of the cluster: it asks, hears the answer, and goes on by itself when a node dies.

It does what any client does, with nothing but HTTP: a stream that breaks is opened again, behind
the last event that has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from awaken.codec import loads

_PAUSE = 0.2


class Client:
    """Speaks to the nodes through the load balancer."""

    def __init__(self, address: str) -> None:
        self._http = httpx2.AsyncClient(base_url=address, timeout=httpx2.Timeout(10, read=None))
        self.reconnects = 0

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, thread: str, words: str) -> str:
        """Ask the agent; returns the id of the run, which is stored by then."""
        answer = await self._http.post(
            f"/v1/threads/{thread}/runs",
            json={"agent_id": "guide", "messages": [words]},
            headers={"prefer": "respond-async"},
        )
        answer.raise_for_status()
        return str(answer.json()["run_id"])

    async def follow(self, run: str) -> AsyncIterator[dict[str, Any]]:
        """The events of a run, up to its end. Durable ones come once and in order; text may begin
        again, which `step_snapshot` says."""
        cursor: str | None = None
        while True:
            head = {"accept": "text/event-stream"}
            if cursor is not None:
                head["last-event-id"] = cursor
            try:
                async with self._http.stream(
                    "GET", f"/v1/runs/{run}/events?until=run", headers=head
                ) as answer:
                    answer.raise_for_status()
                    async for line in answer.aiter_lines():
                        name, _, value = line.partition(": ")
                        if name == "id":
                            cursor = value
                        elif name == "data":
                            event = loads(value.encode(), dict[str, Any])
                            yield event
                            if event["event"]["event_type"] in ("run_finish", "error"):
                                return
            except (httpx2.TransportError, httpx2.HTTPStatusError):
                pass
            self.reconnects += 1
            await asyncio.sleep(_PAUSE)
