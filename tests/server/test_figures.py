"""`/metrics`: what the runs of a process have used, and how long they have waited."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from edge_kit import Desk, open_desk, payer
from prometheus_client.parser import text_string_to_metric_families

from awaken import Agent, Runtime, tool
from awaken.core.inference import TokenUsage
from awaken.server import app
from awaken.testing import ScriptedModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio


def counting() -> Agent:
    """An agent whose answers take tokens."""
    usage = TokenUsage(prompt_tokens=7, completion_tokens=3, total_tokens=10)
    answer = msgspec.structs.replace(text_response("Hello."), usage=usage)
    return Agent("counting", model=ScriptedModel([answer] * 9))


async def figures(desk: Desk) -> dict[tuple[str, ...], float]:
    """All values, by name and labels."""
    text = (await desk.ask(None, "GET", "/metrics")).text
    families = text_string_to_metric_families(text)
    samples: list[Any] = [sample for family in families for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


async def test_the_figures_of_runs_are_counted(tmp_path: Path) -> None:
    async with open_desk(tmp_path, agents=[counting(), payer()]) as desk:
        path, once = "/v1/threads/t/runs?wait=30", {"idempotency-key": "k"}
        asked = {"agent_id": "counting", "messages": ["Hi"]}
        for body in (asked, asked, {**asked, "messages": ["Ho"]}):
            await desk.ask("developer", "POST", path, json=body, headers=once)
        ticket = await desk.ticket("p")
        yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
        decisions = f"/v1/runs/{ticket['run_id']}/decisions"
        assert (await desk.ask("developer", "POST", decisions, json=yes)).status_code == 200
        await desk.runtime.wait(ticket["run_id"])
        found = await figures(desk)
    results = {key[2]: value for key, value in found.items() if "submissions" in key[0]}
    assert results == {"taken": 2, "known": 1, "refused": 1}
    assert found["awaken_queue_seconds_count",] == 2
    assert found["awaken_commands_seconds_count", "decisions"] == 1
    assert found["awaken_takeovers_total",] == 0
    tokens = {key[2]: value for key, value in found.items() if "tokens" in key[0]}
    assert tokens == {"input": 7, "output": 3}
    assert not [key for key in found if ticket["run_id"] in key]


NAMED = {
    "awaken_http_requests_total",
    "awaken_http_request_seconds",
    "awaken_streams",
    "awaken_stream_behind_total",
    "awaken_runs",
    "awaken_submissions_total",
    "awaken_queue_seconds",
    "awaken_commit_seconds",
    "awaken_commit_batch",
    "awaken_commands_seconds",
    "awaken_lease_seconds_left",
    "awaken_takeovers_total",
    "awaken_claims",
    "awaken_tokens_total",
    "awaken_cost_total",
}
"""The figures of 06 §3.10; those of a bus are there if there is a bus."""


async def test_every_figure_of_the_list_is_served(tmp_path: Path) -> None:
    """06 §3.10. Batches are counted by the store that writes them."""
    store = f"sqlite:///{tmp_path}/awaken.db"
    async with open_desk(tmp_path, store=store) as desk:
        before = await figures(desk)
        asked = {"agent_id": "talker", "messages": ["Hi"]}
        answer = await desk.ask("developer", "POST", "/v1/runs?wait=30", json=asked)
        assert answer.status_code == 200
        text = (await desk.ask(None, "GET", "/metrics")).text
        after = await figures(desk)
    served = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert served >= NAMED
    count, total = "awaken_commit_seconds_count", "awaken_commit_batch_sum"
    assert after[count,] - before[count,] >= 2, "the submission, and the run's commits"
    assert after[total,] - before[total,] >= after[count,] - before[count,]
    assert after["awaken_commit_seconds_sum",] > 0
    assert after["awaken_lease_seconds_left",] == inf


async def test_the_threads_that_a_process_owns_are_counted_by_what_for(tmp_path: Path) -> None:
    begun, released = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        """Hold."""
        begun.set()
        await released.wait()
        return "held"

    model = ScriptedModel([tool_call_response("", "hold", "c", {}), text_response("Done.")])
    async with open_desk(tmp_path, agents=[Agent("holder", model=model, tools=[hold])]) as desk:
        assert claims_of(await figures(desk)) == {}
        asked = {"agent_id": "holder", "messages": ["Hi"]}
        answer = await desk.ask("developer", "POST", "/v1/threads/t/runs", json=asked)
        await begun.wait()
        during = await figures(desk)
        assert claims_of(during) == {"live": 1}
        assert during["awaken_claims_mended_total",] == 0
        released.set()
        await desk.runtime.wait(answer.json()["run_id"])
        async with asyncio.timeout(100):
            while claims_of(await figures(desk)):
                pass  # the thread is released after the run's end


def claims_of(found: dict[tuple[str, ...], float]) -> dict[str, float]:
    """How many threads are owned for each use that has some; all uses have a figure."""
    counts = {key[1]: count for key, count in found.items() if key[0] == "awaken_claims"}
    assert set(counts) == {"starting", "live", "task", "pending_commits", "releasing"}
    return {use: count for use, count in counts.items() if count}


async def test_methods_that_a_client_makes_up_are_one_figure() -> None:
    """A server in which the application is mounted may let them through."""
    async with Runtime([counting()]) as runtime:
        made = app(runtime)
        transport = httpx2.ASGITransport(app=made)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for number in range(50):
                await client.request(f"X{number}", "/nothing")
            await client.get("/health/live")
        text = made.state.observer.metrics.text()
    counted = [line for line in text.splitlines() if line.startswith("awaken_http_requests_total{")]
    assert len(counted) == 2
    assert any('method="other"' in line and line.endswith(" 50") for line in counted)
