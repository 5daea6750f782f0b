"""Approving over plain HTTP, by the very command of `docs/approvals.md`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from edge_kit import payer
from server_kit import served

from awaken import Runtime
from awaken.server import app
from page_blocks import read_page

pytestmark = pytest.mark.anyio

PAGE = "docs/approvals.md"
HERE = "http://127.0.0.1:8700"


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        Runtime([payer()]) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address, timeout=550) as opened,
    ):
        yield opened


def shown_request(question: Any) -> tuple[str, dict[str, str], Any]:
    """What the page's command sends for a question: the path, the headers and the body."""
    values = {
        "$RUN": question["run_id"],
        "$KEY": question["key"],
        "$DIGEST": question["digest"],
    }
    commands = [command for block in read_page(PAGE) for command in block.commands]
    ((curl, address, h, header, d, body),) = [words for words in commands if words[0] == "curl"]
    assert (curl, h, d) == ("curl", "-H", "-d")
    for name, value in values.items():
        address, body = address.replace(name, value), body.replace(name, value)
    assert address.startswith(HERE)
    name, _, value = header.partition(": ")
    return address.removeprefix(HERE), {name: value}, json.loads(body)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "paid 5"),
        ({"action": "deny", "reason": "too much"}, "Denied: too much"),
        ({"action": "edit", "result": {"euros": 4}}, "paid 4"),
    ],
)
async def test_the_command_of_the_page_answers_a_question(
    client: httpx2.AsyncClient, changes: dict[str, Any], told: str
) -> None:
    asked = {"messages": ["Pay 5"]}
    await client.post("/v1/threads/t/runs?wait=30", json=asked)
    (question,) = (await client.get("/v1/tickets?status=open")).json()["items"]
    path, headers, (answer,) = shown_request(question)
    body = json.dumps([{**answer, **changes}])
    decided = await client.post(path, content=body, headers=headers)
    assert (decided.status_code, decided.json()["decided"]) == (200, [question["key"]])
    run = f"/v1/runs/{question['run_id']}/events"
    await client.get(run, headers={"accept": "text/event-stream"})  # to its end
    said = (await client.get("/v1/threads/t/messages")).text
    ticket = (await client.get(f"/v1/tickets/{question['key']}")).json()
    assert told in said
    assert ticket["status"] == "answered"
