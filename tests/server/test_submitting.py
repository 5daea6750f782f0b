"""Runs that are asked for over HTTP: followed in the same request, withdrawn, or never begun."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge_kit import Desk, events_of, open_desk, slow, talker

from awaken.core.event import RunFinish
from awaken.core.lifecycle import RunStatus
from awaken.core.store.threads import RunQuery

pytestmark = pytest.mark.anyio
STREAM = {"accept": "text/event-stream"}
RUNS = "/v1/threads/t/runs"
NATURAL = {"type": "natural_end"}


async def test_a_run_is_submitted_and_followed_in_one_request(tmp_path: Path) -> None:
    async with open_desk(tmp_path, agents=[talker()]) as desk:
        answer = await desk.ask("page", "POST", RUNS, json={"messages": ["Hi"]}, headers=STREAM)
    assert answer.status_code == 200
    assert last_of(answer)["event_type"] == "run_finish"


async def test_a_run_begins_no_thread_with_more_labels_than_a_thread_may_have(
    tmp_path: Path,
) -> None:
    asked = {"messages": ["Hi"], "labels": {f"label {n}": "x" * 190 for n in range(5_000)}}
    async with open_desk(tmp_path, agents=[talker()]) as desk:
        for path in (RUNS, "/v1/runs"):
            refused = await desk.ask("page", "POST", path, json=asked)
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (400, "bad_request")
            assert error["message"].startswith("labels: ")
        assert (await desk.ask("boss", "GET", "/v1/threads")).json()["items"] == []


async def test_the_streams_of_a_run_that_is_withdrawn_end(tmp_path: Path) -> None:
    """At once, while another run has the thread; the log has the end when that has ended."""
    released = asyncio.Event()
    async with open_desk(tmp_path, agents=[slow(released), talker()]) as desk:
        await desk.ask("page", "POST", RUNS, json={"agent_id": "slow", "messages": ["Work"]})
        async with asyncio.TaskGroup() as group:
            own = group.create_task(ask(desk, RUNS, {"agent_id": "talker", "messages": ["Hi"]}))
            (queued,) = await submitted(desk, 1)
            durable = f"/v1/runs/{queued}/events?deltas=false"
            watched = group.create_task(desk.ask("page", "GET", durable, headers=STREAM))
            said = [{"id": "u1", "role": "user", "content": "Hello"}]
            body = {"threadId": "t", "runId": "r1", "messages": said}
            ag_ui = group.create_task(ask(desk, "/v1/ag-ui/agents/talker", body))
            await submitted(desk, 2)
            released.set()
            last = {"agent_id": "talker", "messages": ["Stop"], "mode": "interrupt"}
            assert (await desk.ask("page", "POST", RUNS, json=last)).status_code == 202
        assert last_of(own.result())["termination"] == {"type": "cancelled"}
        assert last_of(watched.result()) == last_of(own.result())
        assert events_of(ag_ui.result())[-1]["type"] == "RUN_FINISHED"
        async with asyncio.timeout(100):
            async for event in desk.runtime.events("acme/t"):
                if event.run_id == queued and isinstance(event.event, RunFinish):
                    break
        again = await desk.ask("page", "GET", durable, headers=STREAM)
        kinds = [event["event"]["event_type"] for event in events_of(again)]
        assert kinds == ["run_start", "run_finish"]


async def test_a_run_that_cannot_start_fails_with_the_reason(tmp_path: Path) -> None:
    async with open_desk(tmp_path, agents=[talker()]) as desk:
        asked = {"messages": ["Hi"], "budget": {"money": 1}}
        answer = await ask(desk, RUNS, asked)
        end = last_of(answer)["termination"]
        assert end["type"] == "error"
        assert "price" in end["value"]
        assert last_of(await ask(desk, RUNS, {"messages": ["Hi"]}))["termination"] == NATURAL


async def test_a_run_that_is_due_long_ago_starts_at_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path, agents=[talker()]) as desk:
        asked = {"messages": ["Hi"], "not_before": "0001-01-01T00:00:00Z"}
        assert last_of(await ask(desk, RUNS, asked))["termination"] == NATURAL


@pytest.mark.parametrize(
    ("number", "status"), [("0.5", 200), *[(no, 400) for no in ("NaN", "-Infinity", "1e999")]]
)
async def test_a_number_that_json_does_not_have_is_no_number_over_http(
    tmp_path: Path, number: str, status: int
) -> None:
    """It would be stored as `null`."""
    said = '{"id": "u", "role": "user", "content": "Hi"}'
    bodies = {
        f"{RUNS}?wait=30": f'{{"messages": ["Hi"], "settings": {{"temperature": {number}}}}}',
        "/v1/ag-ui/agents/talker": f'{{"threadId": "t", "runId": "r", "messages": [{said}], '
        f'"tools": [], "context": [], "state": {{}}, "forwardedProps": {{"a": [{number}]}}}}',
    }
    async with open_desk(tmp_path, agents=[talker()]) as desk:
        for path, body in bodies.items():
            kind = {"content-type": "application/json"}
            answer = await desk.ask("developer", "POST", path, content=body, headers=kind)
            assert answer.status_code == status, answer.text
        assert len(await desk.runtime.list_runs()) == (len(bodies) if status == 200 else 0)


async def ask(desk: Desk, path: str, body: Any) -> httpx2.Response:
    return await desk.ask("page", "POST", path, json=body, headers=STREAM)


async def submitted(desk: Desk, count: int) -> list[str]:
    """The ids of the runs that wait to start, when there are so many."""
    query = RunQuery(scope="acme", agent_id="talker", status=RunStatus.CREATED)
    while len(found := await desk.runtime.list_runs(query)) < count:  # noqa: ASYNC110 no event tells it
        await asyncio.sleep(0.01)
    return [run.run_id for run in found]


def last_of(answer: httpx2.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return events_of(answer)[-1]["event"]
