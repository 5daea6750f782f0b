"""`/v1`, as a program uses it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge_kit import Desk, code_of, events_of, open_desk, payer

from awaken import Agent, Runtime, tool
from awaken.core.spec import Modalities, ModelPoolSpec, ModelSpec, PoolMemberSpec
from awaken.server import app, ticket_updates
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened:
        yield opened


SAID = {"agent_id": "talker", "messages": ["Hi"]}


async def test_agents_are_listed_and_described(desk: Desk) -> None:
    listed = await desk.ask("viewer", "GET", "/v1/agents")
    one = await desk.ask("page", "GET", "/v1/agents/talker")
    assert [agent["id"] for agent in listed.json()["items"]] == ["talker", "payer"]
    assert one.json() == {
        "id": "talker",
        "description": "Says hello",
        "input": None,
        "output_schema": None,
    }


async def test_an_agent_says_what_its_model_reads(tmp_path: Path) -> None:
    """A pool reads what all of its models read."""

    def model(name: str, *kinds: str) -> ModelSpec:
        reads = Modalities(input=kinds)
        return ModelSpec(id=name, provider_id=name, upstream_model=name, modalities=reads)

    pool = ModelPoolSpec(
        id="pool", members=tuple(PoolMemberSpec(model_id=name) for name in ("eye", "ear"))
    )
    runtime = Runtime(
        [Agent("seer", model="eye"), Agent("both", model="pool")],
        store="memory:",
        models={"eye": ScriptedModel(["a"]), "ear": ScriptedModel(["b"]), "pool": pool},
        model_specs=[model("eye", "text", "image"), model("ear", "audio", "text")],
    )
    async with runtime:
        served = httpx2.ASGITransport(app=app(runtime))
        async with httpx2.AsyncClient(transport=served, base_url="http://localhost") as client:
            items = (await client.get("/v1/agents")).json()["items"]
    assert {item["id"]: item["input"] for item in items} == {
        "seer": ["text", "image"],
        "both": ["text"],
    }


async def test_a_run_is_answered_at_once_or_waited_for_or_streamed(desk: Desk) -> None:
    path = "/v1/threads/t/runs"
    accepted = await desk.ask("page", "POST", path, json=SAID)
    waited = await desk.ask("page", "POST", path + "?wait=30", json=SAID)
    prefer = {"prefer": "respond-async"}
    async_ = await desk.ask("page", "POST", path + "?wait=30", json=SAID, headers=prefer)
    stream = {"accept": "text/event-stream"}
    followed = await desk.ask("page", "POST", path, json=SAID, headers=stream)
    assert (accepted.status_code, waited.status_code, async_.status_code) == (202, 200, 202)
    told = accepted.json()
    assert (told["thread_id"], told["status"], told["cursor"]) == ("t", "accepted", "0")
    assert told["events"] == "/v1/threads/t/events?after=0"
    assert waited.json()["response"] == "Hello."
    kinds = [told["event"]["event_type"] for told in events_of(followed)]
    assert (kinds[0], kinds[-1]) == ("run_start", "run_finish")
    assert {told["thread_id"] for told in events_of(followed)} == {"t"}


async def test_a_run_may_begin_its_own_thread(desk: Desk) -> None:
    made = await desk.ask("page", "POST", "/v1/runs?wait=30", json=SAID)
    named = await desk.ask("page", "POST", "/v1/runs?wait=30", json={**SAID, "thread_id": "mine"})
    assert named.json()["thread_id"] == "mine"
    thread = await desk.ask("page", "GET", f"/v1/threads/{made.json()['thread_id']}")
    assert thread.json()["created_by"] == "page"


async def test_threads_are_begun_changed_copied_and_deleted(desk: Desk) -> None:
    given = {"id": "t", "title": "Tea", "labels": {"a": "1"}, "custom": {"n": [1]}}
    made = await desk.ask("page", "POST", "/v1/threads", json=given)
    again = await desk.ask("page", "POST", "/v1/threads", json=given)
    assert (made.status_code, made.json()["title"]) == (201, "Tea")
    assert (again.status_code, code_of(again)) == (409, "already_exists")
    changes = {"title": None, "labels": {"b": "2", "a": None}}
    etag = {"if-match": made.headers["etag"]}
    changed = await desk.ask("page", "PATCH", "/v1/threads/t", json=changes, headers=etag)
    late = await desk.ask("page", "PATCH", "/v1/threads/t", json=changes, headers=etag)
    odd = await desk.ask("page", "PATCH", "/v1/threads/t", json={}, headers={"if-match": "W/x"})
    assert (changed.status_code, changed.json()["labels"]) == (200, {"b": "2"})
    assert changed.json()["title"] is None
    assert (late.status_code, code_of(late)) == (412, "version_conflict")
    assert (odd.status_code, code_of(odd)) == (400, "bad_header")
    copy = await desk.ask("page", "POST", "/v1/threads/t/fork", json={"id": "copy"})
    assert (copy.status_code, copy.json()["forked_from"]) == (201, "t")
    gone = await desk.ask("boss", "DELETE", "/v1/threads/t")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await desk.ask("boss", "GET", "/v1/threads/t")).status_code == 404
    assert (await desk.ask("page", "POST", "/v1/threads/t/runs", json=SAID)).status_code == 409


async def test_lists_go_on_behind_their_cursor(desk: Desk) -> None:
    for name in ("t1", "t2", "t3"):
        await desk.ask("page", "POST", f"/v1/threads/{name}/runs?wait=30", json=SAID)
    for path in ("/v1/threads", "/v1/runs"):
        first = (await desk.ask("viewer", "GET", path + "?limit=2")).json()
        cursor = first["cursor"]
        rest = (await desk.ask("viewer", "GET", path + f"?limit=2&cursor={cursor}")).json()
        assert (len(first["items"]), len(rest["items"]), rest["cursor"]) == (2, 1, None)
        bad = await desk.ask("viewer", "GET", path + "?cursor=zzz")
        assert (bad.status_code, code_of(bad)) == (410, "cursor_gone")
    (run,) = (await desk.ask("viewer", "GET", "/v1/threads/t1/runs")).json()["items"]
    assert (run["thread_id"], run["status"], run["response"]) == ("t1", "done", "Hello.")
    path = f"/v1/runs/{run['run_id']}"
    for who in ("viewer", "developer"):
        one = (await desk.ask(who, "GET", path)).json()
        assert (one["request"], one["state"]) == (None, None)
    refused = await desk.ask("viewer", "GET", path + "?details=true")
    assert (refused.status_code, code_of(refused)) == (403, "missing_role")
    seen = (await desk.ask("developer", "GET", path + "?details=true")).json()
    assert seen["request"]["sender_id"] == "page"
    assert seen["state"] is not None


async def test_messages_are_read_forwards_and_backwards(desk: Desk) -> None:
    for _ in range(3):
        await desk.ask("page", "POST", "/v1/threads/t/runs?wait=30", json=SAID)

    async def read(query: str, who: str = "page") -> tuple[list[int], str | None]:
        page = (await desk.ask(who, "GET", f"/v1/threads/t/messages?{query}")).json()
        return [item["seq"] for item in page["items"]], page["cursor"]

    assert await read("") == ([1, 2, 3, 4, 5, 6], None)
    assert await read("limit=4") == ([1, 2, 3, 4], "4")
    assert await read("limit=4&after=4") == ([5, 6], None)
    assert await read("order=desc&limit=4") == ([6, 5, 4, 3], "3")
    assert await read("order=desc&limit=4&before=3") == ([2, 1], None)
    assert await read("visibility=internal", "developer") == ([], None)
    assert await read("before=0") == ([], None)


async def test_events_come_in_pages_of_a_thread_or_of_a_run(desk: Desk) -> None:
    for _ in range(2):
        last = await desk.ask("page", "POST", "/v1/threads/t/runs?wait=30", json=SAID)
    page = (await desk.ask("page", "GET", "/v1/threads/t/events?limit=3")).json()
    rest = (await desk.ask("page", "GET", f"/v1/threads/t/events?after={page['cursor']}")).json()
    assert [event["seq"] for event in page["items"]] == [1, 2, 3]
    assert (page["has_more"], rest["has_more"]) == (True, False)
    run_id = last.json()["run_id"]
    of_run = (await desk.ask("page", "GET", f"/v1/runs/{run_id}/events")).json()
    assert {event["run_id"] for event in of_run["items"]} == {run_id}
    beyond = await desk.ask("page", "GET", "/v1/threads/t/events?after=999")
    assert (beyond.status_code, code_of(beyond)) == (410, "cursor_gone")
    stream = {"accept": "text/event-stream", "last-event-id": "2.5.7"}
    path = f"/v1/runs/{run_id}/events?deltas=false"
    followed = events_of(await desk.ask("page", "GET", path, headers=stream))
    reset, *rest = followed  # the client says that it has events that were not stored
    assert reset["event"]["event_type"] == "stream_reset"
    assert [event["seq"] for event in rest] == [event["seq"] for event in of_run["items"]]


async def test_a_run_is_steered_and_cancelled(desk: Desk) -> None:
    ticket = await desk.ticket("t")
    run = f"/v1/runs/{ticket['run_id']}"
    sent = await desk.ask("developer", "POST", run + "/messages", json={"messages": ["Hurry"]})
    assert (sent.status_code, code_of(sent)) == (409, "not_running")
    cancelled = await desk.ask("approver", "POST", run + "/cancel")
    assert cancelled.status_code == 200
    receipt = cancelled.json()
    assert (receipt["accepted"], receipt["complete"]) == (True, True)
    over = (await desk.ask("viewer", "GET", run)).json()
    assert (over["termination"]["type"], over["cancelled_by"]) == ("cancelled", "approver")
    again = (await desk.ask("approver", "POST", run + "/cancel")).json()
    assert again["accepted"] is False


async def test_a_ticket_is_found_in_the_inbox_and_answered_once(desk: Desk) -> None:
    """06/SV-25, 06/SV-16: two answers at once: one is taken, and it is the principal's."""
    ticket = await desk.ticket("t")
    inbox = (await desk.ask("approver", "GET", "/v1/tickets?status=open&agent=payer")).json()
    assert [item["key"] for item in inbox["items"]] == [ticket["key"]]
    one = await desk.ask("approver", "GET", f"/v1/tickets/{ticket['key']}")
    assert one.json()["arguments"] == {"euros": 5}
    path = f"/v1/runs/{ticket['run_id']}/decisions"
    yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
    old = await desk.ask("approver", "POST", path, json=[{**yes[0], "digest": "0" * 32}])
    assert (old.status_code, code_of(old)) == (409, "question_changed")
    assert old.json()["error"]["details"]["ticket"]["digest"] == ticket["digest"]
    twice = await desk.ask("approver", "POST", path, json=yes * 2)
    assert (twice.status_code, code_of(twice)) == (400, "bad_request")
    forged = await desk.ask("approver", "POST", path, json=[{**yes[0], "by": "the pope"}])
    assert forged.status_code == 400
    both = await asyncio.gather(
        desk.ask("approver", "POST", path, json=yes), desk.ask("operator", "POST", path, json=yes)
    )
    taken, refused = sorted(both, key=lambda answer: answer.status_code)
    assert (taken.status_code, refused.status_code) == (200, 409)
    assert taken.json() == {"decided": [ticket["key"]], "goes_on": True}
    now = refused.json()["error"]
    assert now["code"] == "ticket_answered"
    assert now["details"]["ticket"]["decision"]["by"] in ("approver", "operator")
    await desk.runtime.wait(ticket["run_id"], timeout=550)
    results = [
        message.text()
        for message in await desk.runtime.messages("acme/t")
        if message.role == "tool"
    ]
    assert results[-1] == "paid 5"
    foreign = await desk.ask("approver", "POST", path, json=[{**yes[0], "ticket": "m:9"}])
    assert (foreign.status_code, code_of(foreign)) == (404, "not_found")


async def test_a_ticket_that_is_over_or_anothers_is_not_answered(tmp_path: Path) -> None:
    """06/SV-25: one that has expired, was closed with its run, or belongs to another run."""

    @tool(needs_approval=True, approval_expires_in=0.05)
    async def hurry() -> str:
        """Hurry."""
        return "done"

    call = tool_call_response("", "hurry", "c1", {})
    hasty = Agent("hasty", model=ScriptedModel([call, "Too late."]), tools=[hurry])
    async with open_desk(tmp_path, agents=(payer(), hasty)) as desk:

        async def answer(ticket: dict[str, Any], run_id: str) -> tuple[int, str]:
            yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
            answered = await desk.ask("boss", "POST", f"/v1/runs/{run_id}/decisions", json=yes)
            return answered.status_code, code_of(answered)

        asked = {"agent_id": "hasty", "messages": ["Go"]}
        run = (await desk.ask("boss", "POST", "/v1/threads/h/runs?wait=30", json=asked)).json()
        (late,) = run["tickets"]
        await asyncio.sleep(0.06)
        assert await answer(late, run["run_id"]) == (409, "ticket_expired")

        closed = await desk.ticket("u")
        assert await answer(late, closed["run_id"]) == (404, "not_found")
        await desk.ask("boss", "POST", f"/v1/runs/{closed['run_id']}/cancel")
        assert await answer(closed, closed["run_id"]) == (409, "ticket_closed")


async def test_the_changes_of_tickets_are_streamed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of runs in this process come at once, without a look around."""
    monkeypatch.setattr(ticket_updates, "POLL_SECONDS", 600)
    headers = {"authorization": f"Bearer {desk.keys['operator']}"}
    seen: list[str] = []
    async with (
        httpx2.AsyncClient(base_url=desk.address, timeout=550) as client,
        client.stream("GET", "/v1/tickets/events", headers=headers) as answer,
    ):
        async for line in answer.aiter_lines():
            if line == ": open":
                ticket = await desk.ticket("t")
            elif '"status":"open"' in line:
                seen.append("open")
                decision = {"ticket": ticket["key"], "action": "deny", "digest": ticket["digest"]}
                path = f"/v1/runs/{ticket['run_id']}/decisions"
                await desk.ask("operator", "POST", path, json=[decision])
            elif '"status":"answered"' in line:
                seen.append("answered")
                break
    assert seen == ["open", "answered"]


async def test_an_edited_call_runs_with_other_arguments(desk: Desk) -> None:
    ticket = await desk.ticket("t")
    edit = {
        "ticket": ticket["key"],
        "action": "edit",
        "digest": ticket["digest"],
        "result": {"euros": 3},
    }
    path = f"/v1/runs/{ticket['run_id']}/decisions"
    key = {"idempotency-key": "one"}
    first = await desk.ask("approver", "POST", path, json=[edit], headers=key)
    again = await desk.ask("approver", "POST", path, json=[edit], headers=key)
    assert (first.status_code, again.status_code) == (200, 200)
    await desk.runtime.wait(ticket["run_id"], timeout=550)
    said = [message.text() for message in await desk.runtime.messages("acme/t")]
    assert "paid 3" in said


async def test_an_edit_that_does_not_fit_is_refused_and_the_ticket_stays_open(desk: Desk) -> None:
    ticket = await desk.ticket("t")
    edit = {"ticket": ticket["key"], "action": "edit", "digest": ticket["digest"]}
    path = f"/v1/runs/{ticket['run_id']}/decisions"

    refused = await desk.ask("approver", "POST", path, json=[{**edit, "result": {"euros": "x"}}])

    assert (refused.status_code, code_of(refused)) == (409, "invalid_arguments")
    error = refused.json()["error"]
    assert "Invalid arguments" in error["message"]
    assert error["details"]["ticket"]["status"] == "open"
    taken = await desk.ask("approver", "POST", path, json=[{**edit, "result": {"euros": 3}}])
    assert taken.status_code == 200


async def test_what_a_delegate_does_is_seen_without_the_scope(tmp_path: Path) -> None:
    """06 §2.8: clients see no scope, also not in the ids that runs make themselves."""
    call = tool_call_response("", "agent_run_payer", "c1", {"prompt": "Pay"})
    helper = payer()
    boss = Agent("boss", model=ScriptedModel([call, "Done."]), delegates=[helper])
    stream = {"accept": "text/event-stream"}
    said = {"agent_id": "boss", "messages": ["Have 5 paid"]}
    async with open_desk(tmp_path, agents=(boss, helper)) as desk:
        asked = await desk.ask("developer", "POST", "/v1/threads/t/runs?wait=30", json=said)
        (ticket,) = asked.json()["tickets"]
        run = f"/v1/runs/{asked.json()['run_id']}"
        yes = {"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}
        await desk.ask("approver", "GET", f"/v1/tickets/{ticket['key']}")
        await desk.ask("approver", "POST", run + "/decisions", json=[yes])
        await desk.runtime.wait(asked.json()["run_id"], timeout=550)
        runs = (await desk.ask("operator", "GET", "/v1/runs?agent=payer")).json()["items"]
        (child,) = runs
        one = await desk.ask("operator", "GET", f"/v1/runs/{child['run_id']}")
        events = await desk.ask("operator", "GET", f"/v1/threads/{child['thread_id']}/events")
        tree = await desk.ask("operator", "GET", "/v1/threads/t/events?tree=true&until=run")
        path = run + "/events?tree=true"
        followed = await desk.ask("operator", "GET", path, headers=stream)
        await desk.ask("developer", "GET", "/v1/threads/t/messages?visibility=all")
        threads = (await desk.ask("operator", "GET", "/v1/threads?parent_thread_id=t")).json()
        answers = desk.answers
    assert ticket["asked_by"] == "payer"
    assert child["parent_run_id"] == asked.json()["run_id"]
    assert one.json()["response"] == "Paid."
    assert events.json()["items"][0]["event"]["event_type"] == "run_start"
    assert len(tree.json()["items"]) > 5
    assert {event["thread_id"] for event in events_of(followed)} == {"t", child["thread_id"]}
    assert events_of(followed)[-1]["event"]["termination"] == {"type": "natural_end"}
    assert [thread["id"] for thread in threads["items"]] == [child["thread_id"]]
    shown = [re.findall(r".{0,60}acme.{0,40}", answer.text) for answer in answers]
    assert shown == [[]] * len(answers)
