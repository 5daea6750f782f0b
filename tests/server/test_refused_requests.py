"""Requests that make no sense, are too large, or fail: what `/v1` answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from edge_kit import Desk, code_of, open_desk
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import errors
from awaken.server.client_ids import ClientIds
from awaken.server.errors import HttpRefusal, to_error_response
from awaken.server.parsing import MAX_DEPTH, Depth
from awaken.server.protocols.base import BadRequest

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened:
        yield opened


async def test_bodies_beyond_the_limits_are_refused_without_reading_on(desk: Desk) -> None:
    """06/SV-29: limit + 1, chunked without a length, nested 100,000 deep."""
    sent = 0

    async def endless(part: bytes) -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):  # 640 MiB, if the server read it
            sent += len(part)
            yield part

    path = "/v1/threads/t/runs"
    limit = 2 * 1024 * 1024
    named = await desk.ask("page", "POST", path, content=b" " * (limit + 1))
    assert (named.status_code, code_of(named)) == (413, "body_too_large")
    assert named.headers["connection"] == "close"
    for part, status in ((b" " * 65_536, 413), (b"[" * 65_536, 400)):
        sent = 0
        status_line = await _raw(desk, path, endless(part))
        assert f" {status} ".encode() in status_line
        assert sent < 32 * limit
    fits = await desk.ask("page", "POST", path, content=b'{"messages":["Hi"],"agent_id":"talker"}')
    assert fits.status_code == 202


async def _raw(desk: Desk, path: str, parts: AsyncIterator[bytes]) -> bytes:
    """Send a chunked body until the server answers; the first line of the answer."""
    host, port = desk.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\ntransfer-encoding: chunked\r\n"
        f"authorization: Bearer {desk.keys['page']}\r\n\r\n"
    )
    writer.write(head.encode())
    answer = asyncio.ensure_future(reader.readline())
    try:
        async for part in parts:
            if answer.done():
                break
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
    except ConnectionError:
        pass
    line = await answer
    writer.close()
    return line


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_body"),
        (b"{", "bad_body"),
        (b"\xff\xfe", "bad_body"),
        (b'{"messages":["\xff"]}', "bad_body"),
        (b'{"messages":["\\ud800"]}', "bad_body"),
        (b'{"messages":["Hi"],"colour":"red"}', "bad_body"),
        (b'{"messages":[{"content":"Hi","colour":"red"}]}', "bad_body"),
        (b'{"messages":[{"content":[{"type":"text","text":"Hi","x":1}]}]}', "bad_body"),
        (b'{"messages":[]}', "bad_body"),
        (b'{"messages":["Hi"],"not_before":"2026-01-01T00:00:00"}', "bad_body"),
        (b'{"messages":["Hi"],"budget":{"tokens":-1}}', "bad_body"),
        (b'{"messages":["Hi"],"settings":{"temperature":-1}}', "bad_body"),
        (b'{"messages":["Hi"],"labels":{"a=b":"c"}}', "bad_body"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested_too_deeply"),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(desk: Desk, body: bytes, code: str) -> None:
    answer = await desk.ask("page", "POST", "/v1/threads/t/runs", content=body)
    assert (answer.status_code, code_of(answer)) == (400, code), answer.text
    assert (await desk.runtime.list_threads()).items == ()


async def test_the_former_name_of_the_settings_is_answered_with_the_new_one(desk: Desk) -> None:
    body = {"messages": ["Hi"], "overrides": {"temperature": 0.5}}
    answer = await desk.ask("page", "POST", "/v1/runs", json=body)
    assert (answer.status_code, code_of(answer)) == (400, "bad_body")
    assert answer.json()["error"]["hint"].startswith("write settings: ")


@pytest.mark.parametrize(
    ("method", "path", "body", "where"),
    [
        ("POST", "/v1/threads/t/runs", b'{"messages":["a\\ud800b"]}', "body['messages'][0]"),
        ("POST", "/v1/threads", b'{"labels":{"a\\udc00":"b"}}', "body['labels']: the key"),
        ("PATCH", "/v1/threads/t", b'{"user":"\\ud83d"}', "body['user']"),
        ("POST", "/v1/threads/t/runs", b'{"messages":["\\ud800%b"]}' % (b"a" * 70_000), "body has"),
        ("POST", "/v1/ag-ui/agents/talker", b'{"threadId":"\\ud800"}', "body['threadId']"),
        ("POST", "/v1/ai-sdk/agents/talker/chat", b'{"id":"\\ud800"}', "body['id']"),
    ],
)
async def test_half_of_a_surrogate_pair_is_refused_and_its_place_is_named(
    desk: Desk, method: str, path: str, body: bytes, where: str
) -> None:
    answer = await desk.ask("boss", method, path, content=body)
    assert answer.status_code == 400, answer.text
    assert where in answer.text
    assert "has half of a surrogate pair" in answer.text
    assert (await desk.runtime.list_threads()).items == ()


async def test_brackets_in_texts_are_not_counted(desk: Desk) -> None:
    text = '[{"\\' * 100
    given = {"agent_id": "talker", "messages": [text]}
    answer = await desk.ask("page", "POST", "/v1/threads/t/runs?wait=30", json=given)
    assert answer.status_code == 200
    assert (await desk.runtime.messages("acme/t"))[0].text() == text


nested = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\\\aü', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text('["\\\\', max_size=2), inner)
    ),
    max_leaves=200,
)


@settings(max_examples=60, deadline=None)
@given(value=nested, around=st.integers(0, 70), cut=st.integers(1, 7))
def test_depth_is_counted_part_by_part_as_a_parser_would(value: Any, around: int, cut: int) -> None:
    text = b"[" * around + json.dumps(value, ensure_ascii=False).encode() + b"]" * around
    depth = Depth()
    try:
        for start in range(0, len(text), cut):
            depth.add(text[start : start + cut])
        is_refused = False
    except HttpRefusal:
        is_refused = True
    assert is_refused == (around + _depth(value) > MAX_DEPTH)


def _depth(value: Any) -> int:
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0)


@pytest.mark.parametrize(
    ("error", "status", "hidden"),
    [
        (errors.StoreUnavailable("/var/lib/awaken.db is gone"), 503, "/var/lib"),
        (errors.CommitUnknown("disk"), 503, "disk"),
        (errors.LeaseLost("node-7", 30), 503, "node-7"),
        (errors.RunLeft("r"), 503, "'r'"),
        (errors.ThreadOwned("acme/t", "pid 7"), 409, "pid 7"),
        (errors.ThreadBusy("acme/t", "acme/t~r"), 409, "acme"),
        (errors.RunOpen("acme/t", "acme/t~r", of="acme/t"), 409, "acme"),
        (errors.AlreadyExists("thread", "acme/t"), 409, "acme"),
        (errors.NotFound("thread", "acme/t"), 404, "acme"),
        (errors.AgentNotFound("a", ("b",)), 404, "'b'"),
        (errors.CommitTooLarge("acme/t", size=9, limit=8, parts=()), 413, "acme"),
        (errors.Serialization("secret"), 500, "secret"),
        (errors.AwakenError("secret"), 500, "secret"),
        (BadRequest("say more", code="too_short"), 400, "secret"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_error_has_its_status_and_hides_what_is_not_the_clients(
    error: Exception, status: int, hidden: str
) -> None:
    answer = to_error_response(error, ClientIds("acme"))
    assert answer.status_code == status
    assert hidden not in bytes(answer.body).decode()
    assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize("id", ["a~b", "x" * 201, "a%20b", "%C3%BC"])
async def test_an_id_that_no_thread_may_have_is_refused(desk: Desk, id: str) -> None:
    made = await desk.ask("page", "POST", f"/v1/threads/{id}/runs", json=SAID)
    assert (made.status_code, code_of(made)) == (400, "invalid_id")
    found = await desk.ask("page", "GET", f"/v1/threads/{id}")
    assert found.status_code == 404


async def test_a_path_or_method_that_is_not_there_is_refused(desk: Desk) -> None:
    lost = await desk.ask("page", "GET", "/v1/nothing")
    slash = await desk.ask("page", "GET", "/v1/threads/")
    wrong = await desk.ask("page", "PUT", "/v1/threads")
    head = await desk.ask("page", "HEAD", "/v1/threads")
    query = await desk.ask("page", "GET", "/v1/threads?colour=red")
    null = await desk.ask("page", "GET", "/v1/threads?since=null")
    twice = await desk.ask("page", "GET", "/v1/threads?limit=1&limit=2")
    huge = await desk.ask("page", "GET", f"/v1/threads/t/events?after={'9' * 40}")
    assert (lost.status_code, slash.status_code) == (404, 404)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
    assert (head.status_code, head.content) == (200, b"")
    assert (query.status_code, code_of(query)) == (400, "bad_query")
    assert {answer.status_code for answer in (null, twice, huge)} == {400}


@pytest.mark.parametrize(("agent", "tools"), [("talker", ["a", "a"]), ("payer", ["pay"])])
async def test_a_frontend_tool_with_the_id_of_another_is_refused(
    desk: Desk, agent: str, tools: list[str]
) -> None:
    given = {"agent_id": agent, "messages": ["Hi"], "frontend_tools": [{"id": id} for id in tools]}
    answer = await desk.ask("page", "POST", "/v1/runs", json=given)
    assert (answer.status_code, code_of(answer)) == (409, "tool_conflict")
    assert (await desk.runtime.list_threads()).items == ()


async def test_an_unknown_agent_is_refused_and_nothing_is_stored(desk: Desk) -> None:
    answer = await desk.ask("page", "POST", "/v1/runs", json={**SAID, "agent_id": "ghost"})
    assert (answer.status_code, code_of(answer)) == (404, "agent_not_found")
    assert "talker" not in answer.text
    assert (await desk.runtime.list_threads()).items == ()


async def test_a_failure_of_ours_is_told_by_its_id_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(query: Any) -> Any:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(desk.runtime, "list_threads", fail)
    answer = await desk.ask("viewer", "GET", "/v1/threads")
    assert (answer.status_code, code_of(answer)) == (500, "internal")
    assert "swordfish" not in answer.text
    (record,) = [record for record in caplog.records if record.name == "awaken.server"]
    id = record.getMessage().split()[1].rstrip(":")
    assert id in answer.json()["error"]["message"]
    assert "swordfish" in (record.exc_text or "") or record.exc_info is not None
