"""Runs that are asked for over HTTP."""

from __future__ import annotations

import httpx2
from server_kit import served

from awaken import Agent, Runtime
from awaken.server import app
from awaken.testing import ScriptedModel


async def test_a_run_is_submitted_and_followed_in_one_request() -> None:
    agent = Agent("helper", model=ScriptedModel(["Hello."]))
    async with (
        Runtime([agent]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        answer = await client.post(
            "/v1/threads/t1/runs",
            json={"messages": ["Hi"]},
            headers={"accept": "text/event-stream"},
        )
    assert answer.status_code == 200
    assert '"event_type":"run_finish"' in answer.text
