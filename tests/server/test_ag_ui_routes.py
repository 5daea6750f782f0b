"""AG-UI over HTTP: keys, tenants, requests that come twice, and other protocols on the same run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from ag_ui.core import AgentCapabilities
from ag_ui_agents import Desk as DeskModel
from ag_ui_client import Client
from edge_kit import Desk, code_of, events_of, open_desk

from awaken.core.lifecycle import RunStatus

pytestmark = pytest.mark.anyio
TALKER, PAYER = "/v1/ag-ui/agents/talker", "/v1/ag-ui/agents/payer"
HELLO = {"id": "u1", "role": "user", "content": "Hello"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path, store=f"sqlite:///{tmp_path / 'a.db'}") as opened:
        yield opened


def asked(run_id: str = "r1", **fields: Any) -> Any:
    known = {"threadId": "t", "runId": run_id, "messages": [HELLO], "protocolVersion": "1.0"}
    return {**known, **fields}


async def post(desk: Desk, path: str, body: Any, who: str = "developer") -> list[Any]:
    answer = await desk.ask(who, "POST", path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events_of(answer)


async def connect(desk: Desk, path: str, who: str = "developer") -> Client:
    answer = await desk.ask(who, "GET", f"{path}/threads/t/connect?protocolVersion=1.0")
    assert answer.status_code == 200, answer.text
    client = Client()
    client.take(events_of(answer))
    return client


def resume(events: list[Any], *, approved: bool = True) -> Any:
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    payload = {"approved": approved}
    return [{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]


# -- 06/SV-34 ---------------------------------------------------------------------------------


async def test_a_run_of_ag_ui_is_watched_and_answered_over_v1(desk: Desk) -> None:
    """06/SV-34, as far as there are protocols: one run, whoever watches or answers it."""
    events = await post(desk, PAYER, asked())
    run_id = events[0]["metadata"]["awaken"]["runId"]
    seen = await desk.ask("viewer", "GET", f"/v1/runs/{run_id}/events")
    kinds = [item["event"]["event_type"] for item in seen.json()["items"]]
    assert kinds[0] == "run_start"
    assert kinds[-1] == "run_finish"
    inbox = await desk.ask("operator", "GET", f"/v1/tickets?status=open&run_id={run_id}")
    (ticket,) = inbox.json()["items"]
    assert ticket["key"] == events[-1]["outcome"]["interrupts"][0]["id"]
    yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
    decided = await desk.ask("operator", "POST", f"/v1/runs/{run_id}/decisions", json=yes)
    assert decided.status_code == 200, decided.text
    await desk.runtime.wait(run_id)
    client = await connect(desk, PAYER)
    assert [m.get("content") for m in client.messages] == ["Hello", None, "paid 5", "Paid."]
    assert client.events[0]["runId"] == "r1"


# -- 06/SV-24 ---------------------------------------------------------------------------------


def plain(events: list[Any]) -> Any:
    """The messages that a client without any has in the end."""
    client = Client([HELLO])
    client.take(events)
    return client.messages


async def test_the_same_request_at_once_is_one_run_with_equal_answers(desk: Desk) -> None:
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(post(desk, TALKER, asked())) for _ in range(2)]
    one, other = (task.result() for task in both)
    assert plain(one) == plain(other)
    runs = await desk.ask("developer", "GET", "/v1/threads/t/runs")
    assert len(runs.json()["items"]) == 1


async def test_the_same_request_later_gives_the_same_run_again(desk: Desk) -> None:
    first = await post(desk, TALKER, asked())
    assert plain(await post(desk, TALKER, asked())) == plain(first)


async def test_the_same_request_gives_the_same_question_again(desk: Desk) -> None:
    first = await post(desk, PAYER, asked())
    again = await post(desk, PAYER, asked())
    assert again[-1]["outcome"] == first[-1]["outcome"]


async def test_the_same_answer_later_gives_the_same_end_again(desk: Desk) -> None:
    paused = await post(desk, PAYER, asked())
    held = plain(paused)
    body = asked("r2", messages=held, resume=resume(paused))
    first, again = await post(desk, PAYER, body), await post(desk, PAYER, body)
    one, other = Client(held), Client(held)
    one.take(first)
    other.take(again)
    assert one.messages == other.messages
    assert one.messages[-1]["content"] == "Paid."


async def test_an_answer_may_come_under_the_run_id_of_the_run_that_asks(desk: Desk) -> None:
    """CopilotKit sends it so, with a tool message of its own beside it."""
    paused = await post(desk, PAYER, asked())
    call_id = paused[-1]["outcome"]["interrupts"][0]["toolCallId"]
    own = {"id": "c", "role": "tool", "toolCallId": call_id, "content": '{"approved":true}'}
    body = asked(messages=[*plain(paused), own], resume=resume(paused))
    first, again = await post(desk, PAYER, body), await post(desk, PAYER, body)
    for events in (first, again):
        client = Client(body["messages"])
        client.take(events)
        assert [m["content"] for m in client.messages[-2:]] == ["paid 5", "Paid."]
        assert events[-1]["outcome"] == {"type": "success"}
    runs = await desk.ask("developer", "GET", "/v1/threads/t/runs")
    assert len(runs.json()["items"]) == 1


async def test_an_answer_under_the_same_run_id_to_nothing_is_refused(desk: Desk) -> None:
    await post(desk, PAYER, asked())
    other = [{"interruptId": "other:0", "status": "resolved", "payload": {"approved": True}}]
    answer = await desk.ask("developer", "POST", PAYER, json=asked(resume=other))
    assert (answer.status_code, code_of(answer)) == (400, "unknown_interrupt")


@pytest.mark.parametrize("path", [TALKER, PAYER])
async def test_a_request_that_comes_again_with_what_was_told_of_its_run_gives_that_run(
    desk: Desk, path: str
) -> None:
    """The client's connection broke, and its list has what came before that."""
    first = await post(desk, path, asked())
    told = plain(first)
    again = await post(desk, path, asked(messages=told))
    client = Client(told)
    client.take(again)
    assert client.messages == told
    assert again[-1]["outcome"] == first[-1]["outcome"]
    assert again[0]["runId"] == "r1"
    runs = await desk.ask("developer", "GET", "/v1/threads/t/runs")
    assert len(runs.json()["items"]) == 1


async def test_a_request_of_another_id_that_asks_for_nothing_is_refused(desk: Desk) -> None:
    told = plain(await post(desk, TALKER, asked()))
    answer = await desk.ask("developer", "POST", TALKER, json=asked("r2", messages=told))
    assert (answer.status_code, code_of(answer)) == (400, "nothing_new")


async def test_another_request_under_the_same_run_id_is_refused(desk: Desk) -> None:
    await post(desk, TALKER, asked())
    other = {**HELLO, "id": "u2", "content": "Something else"}
    answer = await desk.ask("developer", "POST", TALKER, json=asked(messages=[HELLO, other]))
    assert (answer.status_code, code_of(answer)) == (422, "key_reused")


async def test_another_answer_that_is_asked_for_twice_is_one_run(desk: Desk) -> None:
    """The client's connection broke: it sends the same request, or one with half of the answer."""
    await post(desk, TALKER, asked())
    told = [{"description": "page", "value": "3"}]
    body = asked("r2", context=told)
    first = await post(desk, TALKER, body)
    assert plain(await post(desk, TALKER, body)) == plain(first)
    part = {"id": "x", "role": "assistant", "content": "Hel"}
    again = Client([HELLO, part])
    again.take(await post(desk, TALKER, {**body, "messages": [HELLO, part]}))
    assert [m["content"] for m in again.messages if m["role"] == "assistant"] == ["Hello."]
    runs = await desk.ask("developer", "GET", "/v1/threads/t/runs")
    assert len(runs.json()["items"]) == 2
    other = {**HELLO, "id": "u2", "content": "Something else"}
    answer = await desk.ask("developer", "POST", TALKER, json=asked("r2", messages=[HELLO, other]))
    assert (answer.status_code, code_of(answer)) == (422, "key_reused")


async def test_a_client_that_asks_again_while_it_is_answered_watches_that_run(
    tmp_path: Path,
) -> None:
    model = DeskModel()
    said = {**HELLO, "content": "slow t"}
    async with open_desk(tmp_path, agents=model.agents()) as desk:
        path, body = "/v1/ag-ui/agents/desk", asked(messages=[said])
        async with asyncio.TaskGroup() as group:
            first = group.create_task(post(desk, path, body))
            while not await desk.runtime.messages("acme/t"):  # noqa: ASYNC110 no event tells it
                await asyncio.sleep(0.01)
            again = await read_all(desk, path, {**body, "runId": "r2"}, model.go["t"].set)
        runs = await desk.ask("developer", "GET", "/v1/threads/t/runs")
    assert len(runs.json()["items"]) == 1
    one, other = Client([said]), Client([said])
    one.take(first.result())
    other.take(again)
    assert one.messages == other.messages
    assert other.events[0]["runId"] == "r2"


async def test_another_answer_is_watched_if_its_request_comes_again_while_it_is_given(
    tmp_path: Path,
) -> None:
    model = DeskModel()
    said = {**HELLO, "content": "slow t"}
    async with open_desk(tmp_path, agents=model.agents()) as desk:
        path, body = "/v1/ag-ui/agents/desk", asked("r2", messages=[said])
        model.go["t"].set()
        await post(desk, path, asked(messages=[said]))
        model.go["t"].clear()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(post(desk, path, body))
            while not await at_work(desk):  # noqa: ASYNC110 no event tells it
                await asyncio.sleep(0.01)
            again = await read_all(desk, path, body, model.go["t"].set)
    one, other = Client([said]), Client([said])
    one.take(first.result())
    other.take(again)
    assert one.messages == other.messages


async def at_work(desk: Desk) -> bool:
    run = await desk.runtime.store.latest_run("acme/t")
    return run is not None and run.status is RunStatus.RUNNING


async def read_all(desk: Desk, path: str, body: Any, begun: Callable[[], None]) -> list[Any]:
    """The chunks of a stream; `begun` is called when the first one is there."""
    headers = {"authorization": f"Bearer {desk.keys['developer']}"}
    chunks: list[Any] = []
    async with (
        httpx2.AsyncClient(base_url=desk.address, headers=headers, timeout=550) as client,
        client.stream("POST", path, json=body) as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                chunks.append(json.loads(line.removeprefix("data: ")))
                begun()
    return chunks


async def test_a_thread_that_does_not_exist_yet_is_empty(desk: Desk) -> None:
    client = await connect(desk, TALKER)
    assert client.messages == []
    assert client.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]
    assert (await desk.ask("developer", "GET", "/v1/threads/t")).status_code == 404


async def test_edited_arguments_are_shown_live_and_after_a_reload(desk: Desk) -> None:
    paused = await post(desk, PAYER, asked())
    edited = {"approved": True, "editedArgs": {"euros": 7}}
    answer = [{**resume(paused)[0], "payload": edited}]
    live = Client(plain(paused))
    live.take(await post(desk, PAYER, asked("r2", messages=live.messages, resume=answer)))
    for client in (live, await connect(desk, PAYER)):
        (said,) = (m for m in client.messages if m.get("toolCalls"))
        assert json.loads(said["toolCalls"][0]["function"]["arguments"]) == {"euros": 7}
        assert [m["content"] for m in client.messages[-2:]] == ["paid 7", "Paid."]


async def test_an_answer_that_a_client_has_half_of_is_whole_with_its_next_request(
    desk: Desk,
) -> None:
    whole = plain(await post(desk, TALKER, asked()))
    half = [whole[0], {**whole[1], "content": "He"}]
    again = {"id": "u2", "role": "user", "content": "Hello again"}
    for number, held in enumerate((half, [whole[0], {**half[1], "id": "taken-back"}])):
        mine = {**again, "id": f"{again['id']}-{number}"}
        client = Client([*held, mine])
        client.take(await post(desk, TALKER, asked(f"n{number}", messages=client.messages)))
        assert client.messages[:2] == whole
        assert client.types[1] == "MESSAGES_SNAPSHOT"
        assert client.messages[-2]["id"] == mine["id"]  # clients append what a snapshot adds


async def test_a_page_keeps_messages_of_its_own(desk: Desk) -> None:
    greeting = {"id": "g", "role": "assistant", "content": "How can I help?"}
    held = [greeting, HELLO]
    for number in range(2):
        client = Client(held)
        client.take(await post(desk, TALKER, asked(f"r{number}", messages=held)))
        assert "MESSAGES_SNAPSHOT" not in client.types
        assert client.messages[0] == greeting
        held = [*client.messages, {**HELLO, "id": f"u{number + 2}"}]


# -- keys and tenants -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "status"), [(None, 401), ("nobody", 401), ("viewer", 403), ("approver", 403)]
)
async def test_only_keys_that_may_invoke_run_agents(
    desk: Desk, who: str | None, status: int
) -> None:
    assert (await desk.ask(who, "POST", TALKER, json=asked())).status_code == status


async def test_another_tenants_thread_is_not_there(desk: Desk) -> None:
    await post(desk, TALKER, asked())
    path = f"{TALKER}/threads/t/connect"
    hidden = await desk.ask("page", "GET", path)
    assert (hidden.status_code, code_of(hidden)) == (404, "not_found")
    assert (await connect(desk, TALKER, who="stranger")).messages == []  # has its own `t`: none yet
    assert [m.get("content") for m in (await connect(desk, TALKER)).messages] == ["Hello", "Hello."]
    answer = await desk.ask("page", "POST", TALKER, json=asked("r2"))
    assert answer.status_code == 404


async def test_a_tenants_scope_is_in_no_frame(desk: Desk) -> None:
    events = await post(desk, PAYER, asked())
    await post(desk, PAYER, asked("r2", messages=plain(events), resume=resume(events)))
    await connect(desk, PAYER)
    assert not [answer for answer in desk.answers if "acme" in answer.text]


async def test_an_approval_needs_the_role_decide(desk: Desk) -> None:
    paused = await post(desk, PAYER, asked(), who="page")
    body = asked("r2", messages=plain(paused), resume=resume(paused))
    answer = await desk.ask("page", "POST", PAYER, json=body)
    assert (answer.status_code, code_of(answer)) == (403, "missing_role")
    done = await post(desk, PAYER, body)
    assert done[-1]["outcome"] == {"type": "success"}


async def test_a_stream_token_opens_its_own_thread_alone(desk: Desk) -> None:
    await post(desk, TALKER, asked())
    made = await desk.ask("developer", "POST", "/v1/tokens", json={"thread_id": "t", "ttl": 60})
    token = made.json()["token"]
    headers = {"accept": "text/event-stream"}
    async with httpx2.AsyncClient(base_url=desk.address, headers=headers) as client:
        mine = await client.get(f"{TALKER}/threads/t/connect", params={"token": token})
        other = await client.get(f"{TALKER}/threads/t2/connect", params={"token": token})
    assert (mine.status_code, other.status_code) == (200, 404)


# -- what is refused, and what is told --------------------------------------------------------


async def test_an_answer_to_a_closed_interrupt_is_refused(desk: Desk) -> None:
    paused = await post(desk, PAYER, asked())
    answered = resume(paused)
    await post(desk, PAYER, asked("r2", messages=plain(paused), resume=answered))
    late = await desk.ask("developer", "POST", PAYER, json=asked("r3", resume=answered))
    assert (late.status_code, code_of(late)) == (409, "decision_refused")


async def test_arguments_that_do_not_fit_are_refused_and_the_interrupt_waits_on(desk: Desk) -> None:
    paused = await post(desk, PAYER, asked())
    misfit = {"approved": True, "editedArgs": {"euros": "seven"}}
    body = asked("r2", messages=plain(paused), resume=[{**resume(paused)[0], "payload": misfit}])
    refused = await desk.ask("developer", "POST", PAYER, json=body)
    assert (refused.status_code, code_of(refused)) == (409, "invalid_arguments")
    assert "euros" in refused.text
    again = await connect(desk, PAYER)
    assert again.events[-1]["outcome"] == paused[-1]["outcome"]


async def test_an_unknown_agent_is_not_found(desk: Desk) -> None:
    answer = await desk.ask("developer", "POST", "/v1/ag-ui/agents/ghost", json=asked())
    assert (answer.status_code, code_of(answer)) == (404, "agent_not_found")


async def test_with_several_agents_the_path_names_one(desk: Desk) -> None:
    answer = await desk.ask("developer", "POST", "/v1/ag-ui", json=asked())
    assert (answer.status_code, code_of(answer)) == (400, "agent_not_named")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"threadId": "t"}'])
async def test_a_body_that_is_no_input_is_refused(desk: Desk, body: bytes) -> None:
    answer = await desk.ask("developer", "POST", TALKER, content=body)
    assert answer.status_code == 400


async def test_capabilities_are_those_of_the_protocol(desk: Desk) -> None:
    answer = await desk.ask("viewer", "GET", f"{PAYER}/capabilities")
    told = AgentCapabilities.model_validate(answer.json())
    assert told.model_dump(mode="json", by_alias=True, exclude_unset=True) == answer.json()
    assert told.tools is not None
    assert told.tools.items is not None
    assert [tool.name for tool in told.tools.items] == ["pay"]
    ghost = await desk.ask("viewer", "GET", "/v1/ag-ui/agents/ghost/capabilities")
    assert ghost.status_code == 404


async def test_the_routes_are_in_the_servers_own_description(desk: Desk) -> None:
    described = (await desk.ask("viewer", "GET", "/v1/openapi.json")).json()["paths"]
    assert "ag-ui" in described["/v1/ag-ui/agents/{agent}"]["post"]["externalDocs"]["url"]
    assert "get" in described["/v1/ag-ui/agents/{agent}/threads/{thread}/connect"]


async def test_a_client_that_leaves_has_its_run_cancelled_if_it_asked_for_that(
    tmp_path: Path,
) -> None:
    model = DeskModel()
    async with open_desk(tmp_path, agents=model.agents()) as desk:
        headers = {
            "authorization": f"Bearer {desk.keys['developer']}",
            "x-awaken-on-disconnect": "cancel",
        }
        body = asked(messages=[{**HELLO, "content": "slow t"}])
        async with httpx2.AsyncClient(base_url=desk.address, headers=headers) as client:
            path = "/v1/ag-ui/agents/desk"
            async with client.stream("POST", path, json=body) as answer:
                async for line in answer.aiter_lines():
                    if "TEXT_MESSAGE_CONTENT" in line:
                        break
        ended = await desk.runtime.wait("acme/t", timeout=550)
    assert str(ended.termination.__struct_config__.tag) == "cancelled"
